"""The networks in this package: its models, its losses, and the training step of its trainer, eager graph or XLA."""

import math

import keras
import networks
import tensorflow as tf

from tfbigbatch import __version__ as VERSION  # noqa: F401
from tfbigbatch import optimizers
from tfbigbatch.models import bert, gnmt, lstm_language_model, resnet, small_classifiers
from tfbigbatch.tasks import losses
from tfbigbatch.training.step import TrainingSteps
from tfbigbatch.training.streams import StreamStates


def _mnist_lstm(sizes):
    network = small_classifiers.row_classifier(
        shape=(sizes["rows"], sizes["columns"]),
        classes=sizes["classes"],
        brightest=255,
        hidden_units=sizes["hidden"],
        projection_units=sizes["hidden"],
        unroll=True,
    )
    return network, losses.classification_loss()


def _language_model(sizes):
    network = lstm_language_model.lstm_language_model(
        vocabulary_size=sizes["vocabulary"],
        window=sizes["window"],
        hidden_units=sizes["hidden"],
        embedding_units=sizes["hidden"],
        layers=sizes["layers"],
    )
    return network, losses.SmoothedCrossEntropy()


def _resnet50(sizes):
    return resnet.resnet(blocks=(3, 4, 6, 3), bottleneck=True, **sizes), losses.classification_loss()


def _bert(sizes):
    network = bert.pretrainer(
        vocabulary_size=sizes["vocabulary"],
        layers=sizes["layers"],
        hidden_units=sizes["hidden"],
        heads=sizes["heads"],
        inner_units=4 * sizes["hidden"],
        dropout=0.0,
        attention_dropout=0.0,
        max_positions=sizes["positions"],
    )
    return network, {
        name: losses.SmoothedTokenCrossEntropy(0.0, "tokens", name=f"{name}_nats") for name in network.output
    }


def _gnmt(sizes):
    network = gnmt.gnmt(
        vocabulary_size=sizes["vocabulary"],
        hidden_units=sizes["hidden"],
        encoder_layers=1,
        decoder_layers=2,
        dropout=0.0,
    )
    return network, losses.SmoothedTokenCrossEntropy(networks.LABEL_SMOOTHING)


_BUILDERS = {
    "mnist_lstm": _mnist_lstm,
    "lstm_language_model": _language_model,
    "resnet50": _resnet50,
    "bert": _bert,
    "gnmt": _gnmt,
}


def _batch(network):
    """The batch as the tasks' data sets give it."""
    batch = networks.batch(network)
    if network.family == "lstm_language_model":
        n = network.batch_size
        streams = {"stream": tf.range(n), "fresh": tf.zeros([n], bool)}
        return {"tokens": batch["tokens"], **streams}, batch["labels"], tf.ones(batch["labels"].shape)
    if network.family == "bert":
        inputs = {
            "input_word_ids": batch["words"],
            "input_mask": batch["mask"],
            "input_type_ids": batch["types"],
            "masked_lm_positions": batch["masked_positions"],
        }
        labels = {"masked_lm": batch["masked_labels"], "next_sentence": batch["next_labels"]}
        return inputs, labels, {name: tf.ones(label.shape) for name, label in labels.items()}
    if network.family == "gnmt":
        inputs = {"source_ids": batch["source"], "source_lengths": batch["lengths"], "target_ids": batch["target"]}
        return inputs, batch["labels"], tf.ones(batch["labels"].shape)
    return batch["images"], batch["labels"]


def _fill(variables):
    for variable in variables:
        vector = len(variable.shape) < 2 or variable.name == "bias"
        # Of attention's matrices the heads are axes of their own, in the same order.
        shape = list(variable.shape)
        if len(shape) == 3:
            shape = [shape[0] * shape[1], shape[2]] if "output" in variable.path else [shape[0], shape[1] * shape[2]]
        variable.assign(networks.pattern(shape, vector).reshape(variable.shape))


class Step:
    """`run(steps)` gives the mean loss; `parameters` is the number of those trained."""

    def __init__(self, network, compiled=False):
        if network.dtype != "float32":
            keras.config.set_dtype_policy(f"mixed_{network.dtype}")
        model, loss = _BUILDERS[network.family](network.sizes)
        _fill(model.trainable_variables)
        self.parameters = sum(math.prod(variable.shape) for variable in model.trainable_variables)
        fields = {"momentum": networks.MOMENTUM} if network.optimizer == "momentum" else networks.ADAMW
        optimizer = optimizers.get(network.optimizer, keras="keras3", learning_rate=networks.LEARNING_RATE, **fields)
        model.compile(optimizer=optimizer, loss=loss, jit_compile=False)
        model.optimizer.build(model.trainable_variables)
        is_text = network.family == "lstm_language_model"
        self._batches = iter(tf.data.Dataset.from_tensors(_batch(network)).repeat())
        self._steps = TrainingSteps(
            model,
            strategy=tf.distribute.get_strategy(),
            jit_compile=compiled,
            streams=StreamStates(model, network.batch_size) if is_text else None,
        )

    def run(self, steps):
        self._steps.begin_window()
        self._steps(self._batches, 0, steps)
        return self._steps.means()["loss"]
