"""Private names of Keras and TensorFlow that the package uses, or overrides.

None of them is promised: a new version may rename or drop any. tests/utils/test_private_names.py looks for each in the
versions that are installed, and for names in the package that are missing here.
"""

# By class; the state of an instance counts as its class'.
CLASSES = {
    "keras.optimizers.Optimizer": (
        "_backend_apply_gradients _get_current_learning_rate _iterations _learning_rate "
        "_model_variables_moving_average _overwrite_model_variables_with_average_value "
        "_overwrite_variable_with_gradient _trainable_variables _use_weight_decay "
        # On TensorFlow alone.
        "_all_reduce_sum_gradients _distribution_strategy _lookup_dependency _trackable_children _var_key"
    ),
    "keras.Model": (
        "_compile_config _compile_loss _compile_metrics _flatten_layers _initial_epoch _loss_tracker "
        "_non_trainable_variables _symbolic_build"
    ),
    "keras.src.trainers.epoch_iterator.EpochIterator": "_num_batches",
    "keras.KerasTensor": "_keras_history",
    # On JAX alone: where a distribution places it.
    "keras.Variable": "_layout",
    "tf_keras.optimizers.Optimizer": (
        "_apply_weight_decay _build_learning_rate _built _clip_gradients _distributed_apply_gradients_fn "
        "_distribution_strategy _iterations _learning_rate _lookup_dependency "
        "_model_variables_moving_average _overwrite_model_variables_with_average_value "
        "_trackable_children _use_weight_decay _var_key _variables"
    ),
    "tf_keras.optimizers.legacy.Optimizer": "_create_all_weights",
    "tf_keras.Model": "_flatten_layers _steps_per_execution _training_state",
    "tf_keras.layers.Dropout": "_random_generator",
    "tf_keras.src.backend.RandomGenerator": "_generator _maybe_init",
    "tf_keras.src.engine.keras_tensor.KerasTensor": "_keras_history",
    "tf_keras.callbacks.Callback": "_supports_tf_logs",
    "tensorflow.Variable": (
        "_lookup_dependency _restore_from_tensors _serialize_to_tensors _shared_name _trackable_children"
    ),
    "tensorflow.data.Dataset": "_inputs _variant_tensor",
    "tensorflow.data.Iterator": "_iterator_resource",
    "tensorflow.random.Generator": "_state_var",
    "tensorflow.python.distribute.distribute_lib.StrategyExtendedV2": (
        "_call_for_each_replica _container_strategy _get_replica_id_in_sync_group _local_results "
        "_num_replicas_in_sync _reduce_to _update_non_slot _use_merge_call"
    ),
    # Of MultiWorkerMirroredStrategy.
    "tensorflow.python.distribute.collective_all_reduce_strategy.CollectiveAllReduceExtended": "_cross_device_ops",
    "tensorflow.python.distribute.cross_device_ops.CollectiveAllReduce": "_launchers",
    "tensorflow.python.distribute.cross_device_utils.CollectiveReplicaLauncher": (
        "_all_gather _device _get_ordering_token _group_key _next_instance_key _options"
    ),
    "tensorflow.python.eager.polymorphic_function.polymorphic_function.Function": "_list_all_concrete_functions",
    "tensorflow.python.framework.func_graph.FuncGraph": (
        "_add_function_recursive _create_op_internal _get_control_flow_context _get_function"
    ),
    "tensorflow.python.framework.ops.EagerTensor": "_id",
}

# By module that is not part of the public interface: what is taken from it.
MODULES = {
    "keras.src.backend": "AutocastScope",
    "keras.src.losses.loss": "squeeze_or_expand_to_same_rank",
    "keras.src.random.seed_generator": "GLOBAL_SEED_GENERATOR global_seed_generator global_state",
    "keras.src.utils.naming": "reset_uids",
    "tensorflow.compiler.tf2xla.python.xla": (
        "DotDimensionNumbers PrecisionConfig dot_general dynamic_update_slice optimization_barrier replica_id"
    ),
    "tensorflow.python.checkpoint.tensor_callable": "Callable",
    "tensorflow.python.distribute.distribute_lib": "ReplicaContext UpdateContext",
    "tensorflow.python.distribute.distribute_utils": "regroup select_replica",
    "tensorflow.python.distribute.numpy_dataset": "SingleDevice",
    "tensorflow.python.distribute.one_device_strategy": "OneDeviceExtended",
    "tensorflow.python.distribute.reduce_util": "ReduceOp",
    "tensorflow.python.eager.context": "context",
    "tensorflow.python.framework.auto_control_deps_utils": "get_read_only_resource_input_indices_graph",
    "tensorflow.python.framework.errors_impl": "NotFoundError",
    "tensorflow.python.framework.function_def_to_graph": "function_def_to_graph",
    "tensorflow.python.ops.collective_ops": "all_reduce_v2 all_to_all_v2",
    "tensorflow.python.ops.control_flow_util": "GraphOrParentsInXlaContext",
    "tensorflow.python.trackable.base": "Trackable VARIABLE_VALUE_KEY",
}
