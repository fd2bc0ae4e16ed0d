"""BERT beside tf-models-official's: its checkpoints, the same outputs, and the same weights after steps of LAMB."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from tests.recorded.networks import BERT as SIZES
from tests.recorded.networks import inputs_of
from tfbigbatch import LAMB, keras2
from tfbigbatch.models import bert, bert_checkpoints

REASON = "tf-models-official is not installed: make setup"
networks = pytest.importorskip("official.nlp.modeling.networks", reason=REASON)
layers = pytest.importorskip("official.nlp.modeling.layers", reason=REASON)
STEPS = 20


def their_pretrainer():
    """Of its encoder and its head of the masked words, with drawn weights."""
    encoder = networks.BertEncoderV2(
        vocab_size=SIZES["vocabulary_size"],
        hidden_size=SIZES["hidden_units"],
        num_layers=SIZES["layers"],
        num_attention_heads=SIZES["heads"],
        inner_dim=SIZES["inner_units"],
        max_sequence_length=SIZES["max_positions"],
        type_vocab_size=2,
        output_dropout=0.0,
        attention_dropout=0.0,
        name="encoder",
    )
    inputs = {name: tf_keras.Input((None,), dtype=tf.int32, name=name) for name in inputs_of("bert pretrainer")}
    encoded = encoder({name: value for name, value in inputs.items() if name != "masked_lm_positions"})
    activation = lambda values: tf_keras.activations.gelu(values, approximate=True)
    head = layers.MaskedLM(encoder.get_embedding_table(), activation, name="cls/predictions")
    words = head(encoded["sequence_output"], inputs["masked_lm_positions"])
    network = tf_keras.Model(inputs, {"masked_lm": words, "pooled_output": encoded["pooled_output"]})
    for place, variable in enumerate(network.variables):
        drawn = np.random.default_rng(place).normal(0.0, 0.3, variable.shape)
        variable.assign(drawn + 1.0 if "gamma" in variable.name else drawn)
    return network


def our_pretrainer(theirs, folder):
    """With the weights of a checkpoint of theirs."""
    prefix = tf.train.Checkpoint(model=theirs).write(str(folder / "bert_model.ckpt"))
    network = bert.pretrainer(**SIZES, next_sentence=False)
    assert bert_checkpoints.assign(network, bert_checkpoints.read(prefix)) == []
    return network


def trained(network, optimizer, variables):
    """The masked words' logits, and the variables after steps of their cross entropy."""
    x = {name: tf.constant(value) for name, value in inputs_of("bert pretrainer").items()}
    labels = tf.constant(np.random.default_rng(1).integers(0, SIZES["vocabulary_size"], (4, 4)))
    optimizer.build(variables)

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            logits = network(x, training=True)["masked_lm"]
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
        values = [getattr(variable, "value", variable) for variable in variables]
        values = values if isinstance(values[0], tf.Variable) else variables
        optimizer.apply_gradients(zip(tape.gradient(loss, values), variables))
        return logits

    first = [step() for _ in range(STEPS)][0]
    return first.numpy(), [np.asarray(variable) for variable in variables]


@pytest.mark.slow
def test_outputs_and_steps_of_lamb_are_theirs(tmp_path):
    theirs = their_pretrainer()
    ours = our_pretrainer(theirs, tmp_path)
    their_variables = {
        bert_checkpoints.google_name(each.name.split(":")[0]): each
        for each in theirs.trainable_variables
        # Nothing reads the pooled output.
        if "pooler" not in each.name
    }
    ordered = [their_variables[bert_checkpoints.google_name(each.path)] for each in ours.trainable_variables]
    assert len(ordered) == len(their_variables)
    found, after = trained(ours, LAMB(0.01, weight_decay=0.01), ours.trainable_variables)
    expected, expected_after = trained(theirs, keras2.LAMB(0.01, weight_decay=0.01), ordered)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    for variable, value, reference in zip(ours.trainable_variables, after, expected_after):
        # The key's bias has a gradient of rounding alone, which LAMB scales to the size of any other.
        if not variable.path.endswith("key/bias"):
            np.testing.assert_allclose(value, reference, rtol=1e-3, atol=1e-3, err_msg=variable.path)
