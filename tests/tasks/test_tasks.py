"""Walks the registry: a task that is left out, or lacks a part, fails."""

import json

import numpy as np
import pytest
import tensorflow as tf

from tfbigbatch import tasks


def outputs_of(task):
    """(name, loss, metrics) of each output; the name is None where there is one."""
    loss, metrics = task.loss(), task.metrics()
    if not isinstance(loss, dict):
        return [(None, loss, metrics)]
    assert loss.keys() == metrics.keys()
    return [(name, loss[name], metrics[name]) for name in loss]


@pytest.mark.parametrize("name", tasks.names())
def test_a_task_has_every_part_and_runs_on_fake_data(name):
    cls = tasks.get(name)
    model = tasks.model_defaults(name, cls.models[0] if cls.models else None)
    model.update(cls.smoke_model(model))
    # Where it can hold out training examples it does, so that each of its splits is there.
    data = {**cls.data_defaults, **({"minival": 8} if "minival" in cls.data_defaults else {})}
    task = cls(model=model, data=data, data_dir=None, use_fake_data=True)
    network = task.network()
    batch = next(
        iter(task.train.training_batches(tf.distribute.InputContext(), batch_size=4, seed=0, first_step=0, last_step=1))
    )
    x, y, *_ = task.batch_slices[-1](batch) if task.batch_slices else batch
    if cls.carries_state:
        states = [tf.zeros([4, *state.shape[1:]]) for state in network.inputs[1:]]
        predicted, *after = network([x["tokens"], *states])
        assert [state.shape for state in after] == [state.shape for state in states]
    else:
        inputs = network.input
        for given, wanted in zip(tf.nest.flatten(x), tf.nest.flatten(inputs), strict=True):
            assert given.dtype == wanted.dtype and given.shape[1:].is_compatible_with(wanted.shape[1:])
        predicted = network(x)
    names = []
    for output, loss, metrics in outputs_of(task):
        label, logits = (y, predicted) if output is None else (y[output], predicted[output])
        assert np.isfinite(loss(label, logits).numpy())
        mask = np.ones(label.shape, np.float32)
        mask[2:] = 0
        for metric in metrics:
            metric.update_state(label, logits, sample_weight=mask)
            assert np.isfinite(metric.result().numpy())
            # As Keras names them.
            names.append(metric.name if output is None else f"{output}_{metric.name}")
    if task.has_scores:
        held_out = task.held_out(cls.evaluates_on[0])
        x, *_ = next(iter(held_out.evaluation_batches(tf.distribute.InputContext(), batch_size=len(held_out))))
        outputs = task.predictions(network, x)
        names += task.scores(held_out, tf.nest.map_structure(np.asarray, outputs))
    assert task.data_signature and task.metrics_in_training in (True, False)
    assert task.target in names and task.higher_is_better in (True, False)
    for check in task.checks:
        check()
    # A run directory is enough to build the network.
    assert task.network_facts or task.data_signature == "nothing"
    if task.network_facts:
        rebuilt = cls.network_from(model, json.loads(json.dumps(task.network_facts)))
        assert [each.shape for each in rebuilt.weights] == [each.shape for each in network.weights]
    assert cls.training_examples is None or cls.training_examples >= 1
    for split in (task.train, *map(task.held_out, cls.evaluates_on)):
        assert split.contents


def test_an_unknown_task_is_told_the_nearest():
    with pytest.raises(ValueError, match="'mnist_lstn' is unknown. Did you mean 'mnist_lstm'"):
        tasks.get("mnist_lstn")
