"""Private names of Keras and TensorFlow that the package uses, or overrides, with the versions in which each was seen.

None of them is promised: a new version may rename or drop any. tests/utils/test_private_names.py looks for each in the
versions that are installed, and for names in the package that are missing here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

# Versions in which all names of an owner were found, by running the tests.
KERAS = "keras 3.10.0, 3.12.4, 3.15.1, 3.16.0.dev2026102704"
KERAS_2 = "tf_keras 2.20.1, 2.21.0"
TENSORFLOW = "tensorflow 2.20.0, 2.21.0"
OFFICIAL = "tf-models-official 2.20.0"


class Owner(NamedTuple):
    """Private names of one class or module.

    Attributes:
      seen: packages and versions.
      names: for each name its first parameters without `self`, separated by commas; None for what is not called.
      overrides: of these, the ones that a class of ours replaces.
    """

    seen: str
    names: Mapping[str, str | None]
    overrides: frozenset[str] = frozenset()


# By class; the state of an instance counts as its class'.
CLASSES: dict[str, Owner] = {
    "keras.optimizers.Optimizer": Owner(
        KERAS,
        {
            "_backend_apply_gradients": "grads, trainable_variables",
            "_get_current_learning_rate": "",
            "_get_variable_index": "variable",
            "_iterations": None,
            "_learning_rate": None,
            "_model_variables_moving_average": None,
            "_overwrite_model_variables_with_average_value": "trainable_variables",
            "_overwrite_variable_with_gradient": "variable",
            "_overwrite_variables_directly_with_gradients": "grads, vars",
            "_trainable_variables": None,
            "_update_model_variables_moving_average": "trainable_variables",
            "_use_weight_decay": "variable",
            # On TensorFlow alone.
            "_all_reduce_sum_gradients": "grads_and_vars",
            "_distribution_strategy": None,
            "_lookup_dependency": "name",
            "_trackable_children": "save_type",
            "_var_key": "variable",
        },
        frozenset(
            {
                "_backend_apply_gradients",
                "_lookup_dependency",
                "_overwrite_model_variables_with_average_value",
                "_overwrite_variables_directly_with_gradients",
                "_trackable_children",
            }
        ),
    ),
    "keras.Model": Owner(
        KERAS,
        {
            "_flatten_layers": "include_self, recursive",
            "_initial_epoch": None,
            "_symbolic_build": "iterator, data_batch",
        },
    ),
    "keras.KerasTensor": Owner(KERAS, {"_keras_history": None}),
    # On JAX alone: where a distribution places it.
    "keras.Variable": Owner(KERAS, {"_layout": None}),
    "tf_keras.optimizers.Optimizer": Owner(
        KERAS_2,
        {
            "_apply_weight_decay": "variables",
            "_build_learning_rate": "learning_rate",
            "_built": None,
            "_clip_gradients": "grads",
            "_distributed_apply_gradients_fn": "distribution, grads_and_vars",
            "_distribution_strategy": None,
            "_index_dict": None,
            "_iterations": None,
            "_learning_rate": None,
            "_lookup_dependency": "name",
            "_model_variables_moving_average": None,
            "_overwrite_model_variables_with_average_value": "var_list",
            "_serialize_hyperparameter": "hyperparameter",
            "_trackable_children": "save_type",
            "_update_model_variables_moving_average": "var_list",
            "_use_weight_decay": "variable",
            "_var_key": "variable",
            "_variables": None,
        },
        frozenset(
            {
                "_apply_weight_decay",
                "_clip_gradients",
                "_distributed_apply_gradients_fn",
                "_lookup_dependency",
                "_trackable_children",
            }
        ),
    ),
    "tf_keras.optimizers.legacy.Optimizer": Owner(KERAS_2, {"_create_all_weights": "var_list"}),
    "tf_keras.Model": Owner(
        KERAS_2,
        {
            "_cluster_coordinator": None,
            "_flatten_layers": "recursive, include_self",
            "_is_compiled": None,
            "_is_graph_network": None,
            "_nested_inputs": None,
            "_nested_outputs": None,
            "_nodes_by_depth": None,
            "_steps_per_execution": None,
            "_test_counter": None,
            "_train_counter": None,
            "_training_state": None,
        },
    ),
    "tf_keras.layers.Dropout": Owner(KERAS_2, {"_dtype_policy": None, "_random_generator": None}),
    "tf_keras.layers.LSTM": Owner(KERAS_2, {"_could_use_gpu_kernel": None}),
    "tf_keras.src.backend.RandomGenerator": Owner(KERAS_2, {"_generator": None, "_maybe_init": "", "_rng_type": None}),
    "tf_keras.src.engine.keras_tensor.KerasTensor": Owner(KERAS_2, {"_keras_history": None}),
    "tf_keras.callbacks.Callback": Owner(KERAS_2, {"_supports_tf_logs": None}, frozenset({"_supports_tf_logs"})),
    "tensorflow.Variable": Owner(
        TENSORFLOW,
        {
            "_lookup_dependency": "name",
            "_restore_from_tensors": "restored_tensors",
            "_serialize_to_tensors": "",
            "_shared_name": None,
            "_trackable_children": "save_type",
        },
        frozenset({"_lookup_dependency", "_restore_from_tensors", "_serialize_to_tensors", "_trackable_children"}),
    ),
    "tensorflow.data.Dataset": Owner(TENSORFLOW, {"_inputs": "", "_variant_tensor": None}, frozenset({"_inputs"})),
    "tensorflow.random.Generator": Owner(TENSORFLOW, {"_prepare_key_counter": "shape", "_state_var": None}),
    "tensorflow.python.distribute.distribute_lib.StrategyExtendedV2": Owner(
        TENSORFLOW,
        {
            "_call_for_each_replica": "fn, args, kwargs",
            "_container_strategy": "",
            "_create_variable": "next_creator",
            "_get_replica_id_in_sync_group": "replica_id",
            "_local_results": "val",
            "_num_replicas_in_sync": None,
            "_reduce_to": "reduce_op, value, destinations, options",
            "_update_non_slot": "colocate_with, fn, args, kwargs, group",
            "_use_merge_call": "",
        },
        frozenset(
            {"_call_for_each_replica", "_create_variable", "_num_replicas_in_sync", "_reduce_to", "_update_non_slot"}
        ),
    ),
    # Of MultiWorkerMirroredStrategy.
    "tensorflow.python.distribute.collective_all_reduce_strategy.CollectiveAllReduceExtended": Owner(
        TENSORFLOW, {"_cross_device_ops": None}
    ),
    "tensorflow.python.distribute.cross_device_ops.CollectiveAllReduce": Owner(TENSORFLOW, {"_launchers": None}),
    "tensorflow.python.distribute.cross_device_utils.CollectiveReplicaLauncher": Owner(
        TENSORFLOW,
        {
            "_all_gather": "input_tensor, options",
            "_device": None,
            "_get_ordering_token": "",
            "_group_key": None,
            "_next_instance_key": "",
            "_options": None,
        },
    ),
    "tensorflow.python.eager.polymorphic_function.polymorphic_function.Function": Owner(
        TENSORFLOW, {"_list_all_concrete_functions": ""}
    ),
    "tensorflow.python.framework.func_graph.FuncGraph": Owner(
        TENSORFLOW,
        {
            "_add_function_recursive": "function",
            "_create_op_internal": "op_type, inputs, dtypes, input_types, name, attrs, op_def",
            "_get_control_flow_context": "",
            "_get_function": "name",
        },
    ),
    "official.nlp.modeling.networks.BertEncoderV2": Owner(
        OFFICIAL,
        {
            "_attention_mask_layer": None,
            "_embedding_dropout": None,
            "_embedding_layer": None,
            "_embedding_norm_layer": None,
            "_get_embeddings": "word_ids, type_ids",
            "_pooler_layer": None,
            "_position_embedding_layer": None,
            "_transformer_layers": None,
            "_type_embedding_layer": None,
        },
    ),
    "official.nlp.modeling.layers.TransformerEncoderBlock": Owner(
        OFFICIAL,
        {
            "_attention_layer": None,
            "_attention_layer_norm": None,
            "_intermediate_dense": None,
            "_output_dense": None,
            "_output_layer_norm": None,
        },
    ),
    "official.nlp.modeling.layers.PositionEmbedding": Owner(OFFICIAL, {"_position_embeddings": None}),
}

# By module that is not part of the public interface: what is taken from it.
MODULES: dict[str, Owner] = {
    "keras.src.random.seed_generator": Owner(KERAS, {"global_seed_generator": ""}),
    "tensorflow.compiler.tf2xla.python.xla": Owner(
        TENSORFLOW,
        {
            "DotDimensionNumbers": None,
            "PrecisionConfig": None,
            "dot_general": "lhs, rhs, dimension_numbers, precision_config",
            "dynamic_update_slice": "input, update, indices",
            "optimization_barrier": "args",
            "replica_id": "",
        },
    ),
    "tensorflow.python.checkpoint.tensor_callable": Owner(TENSORFLOW, {"Callable": "tensor_callable, dtype, device"}),
    "tensorflow.python.distribute.cross_device_utils": Owner(
        TENSORFLOW,
        {
            "CollectiveKeys": "group_key_start",
            "CollectiveReplicaLauncher": "group_key, group_size, collective_keys, device, options",
        },
    ),
    "tensorflow.python.distribute.distribute_lib": Owner(
        TENSORFLOW, {"ReplicaContext": "strategy, replica_id_in_sync_group", "UpdateContext": "replica_id"}
    ),
    "tensorflow.python.distribute.distribute_utils": Owner(
        TENSORFLOW, {"regroup": "values", "select_replica": "replica_id, structured"}
    ),
    "tensorflow.python.distribute.numpy_dataset": Owner(TENSORFLOW, {"SingleDevice": "device"}),
    "tensorflow.python.distribute.one_device_strategy": Owner(
        TENSORFLOW, {"OneDeviceExtended": "container_strategy, device"}
    ),
    "tensorflow.python.distribute.reduce_util": Owner(TENSORFLOW, {"ReduceOp": None}),
    "tensorflow.python.eager.context": Owner(TENSORFLOW, {"context": ""}),
    "tensorflow.python.framework.auto_control_deps_utils": Owner(
        TENSORFLOW, {"get_read_only_resource_input_indices_graph": "func_graph"}
    ),
    "tensorflow.python.framework.errors_impl": Owner(TENSORFLOW, {"NotFoundError": None}),
    "tensorflow.python.framework.function_def_to_graph": Owner(TENSORFLOW, {"function_def_to_graph": "fdef"}),
    "tensorflow.python.ops.collective_ops": Owner(
        TENSORFLOW, {"all_to_all_v2": "t, group_size, group_key, instance_key, communication_hint, timeout"}
    ),
    "tensorflow.python.ops.control_flow_util": Owner(TENSORFLOW, {"GraphOrParentsInXlaContext": "graph"}),
    "tensorflow.python.trackable.base": Owner(TENSORFLOW, {"Trackable": None, "VARIABLE_VALUE_KEY": None}),
    "tf_keras.src.engine.functional": Owner(KERAS_2, {"get_network_config": "network"}),
}
