"""Programs of benchmarks/few_steps_jax on small data, checked against the networks that they train.

`KERAS_BACKEND=jax python -m tests.helpers.few_steps_program FOLDER`, a process of its own: the backend is JAX. FOLDER
holds ptb_prepared and mnist.
"""

import os
import sys

import keras
import numpy as np

from tests.helpers.repository import ROOT
from tfbigbatch.config import load_config

sys.path += [os.path.join(ROOT, "benchmarks"), os.path.join(ROOT, "benchmarks", "few_steps_jax")]
import mnist
import programs
import ptb


def config_of(name, batch_size, duration, rate):
    config = load_config(name)
    config.batch_size = config.schedule.batch_size = batch_size
    config.duration, config.schedule.learning_rate = duration, rate
    config.schedule.warmup_epochs, config.schedule.decay, config.schedule.start = 0.0, "linear", "0 epochs"
    config.optimizer = {"name": "lamb", "global_clipnorm": 1.0}
    return config


def check_lanes(task, config, rate):
    """Lanes of equal seeds are equal, others differ, and the loss of each falls; returns the curve of seed 5."""
    program = programs.Program(task, config, 3)
    program.compile()
    validation, test, curves, _ = program([rate] * 3, [4, 4, 5], held_out=False)
    assert np.isfinite([validation, test]).all() and (curves[:, -1] < curves[:, 0]).all(), curves
    np.testing.assert_array_equal(curves[0], curves[1])
    assert (curves[0] != curves[2]).all()
    return curves[2]


def check_alone(task, config, rate, found):
    """A program of one lane gives what the lane of seed 5 gave beside others."""
    program = programs.Program(task, config, 1)
    program.compile()
    np.testing.assert_allclose(program([rate], [5], held_out=False)[2][0], found, rtol=1e-3)


def check_first_loss(task, found):
    """The first loss of a run of a language model is that of the network with the seed's values."""
    weights, _ = task.variables(5, "uniform")
    network = task.build()
    for variable, value in zip(network.trainable_variables, weights, strict=True):
        variable.assign(value)
    carried, tokens = task.batch(task.carried(64), None, 0, 64)
    logits, *_ = network([keras.ops.convert_to_tensor(tokens[:, :-1]), *carried])
    losses = keras.ops.sparse_categorical_crossentropy(tokens[:, 1:], logits, from_logits=True)
    np.testing.assert_allclose(found, np.mean(losses), rtol=1e-5)


def check_masks(task):
    """Lanes have dropout masks of their own, also from the same weights, and each pass another."""
    weights, others = task.variables(4)
    _, others_of_another = task.variables(5)
    batch = task.batch(None, np.arange(20), 0, 20)
    one, (after, _) = task.loss(weights, others, batch, None)
    two, _ = task.loss(weights, others_of_another, batch, None)
    three, _ = task.loss(weights, after, batch, None)
    assert len({float(one), float(two), float(three)}) == 3


def main(folder):
    task = ptb.PTB(os.path.join(folder, "ptb_prepared"))
    config = config_of("ptb/small", 64, "2 epochs", 0.02)
    curve = check_lanes(task, config, 0.02)
    check_alone(task, config, 0.02, curve)
    check_first_loss(task, curve[0])
    task = mnist.MNISTLSTM(os.path.join(folder, "mnist"))
    check_masks(task)
    # In passes, which each draw masks of their own.
    task.micro_batch = 25
    check_lanes(task, config_of("mnist/lstm_small_batch", 50, "6 epochs", 0.01), 0.01)


if __name__ == "__main__":
    main(sys.argv[1])
