"""Scores are of all held-out examples together, each once, whatever the batches and replicas."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from tests.conftest import mirrored
from tfbigbatch import train
from tfbigbatch.data.finetuning import fake
from tfbigbatch.tasks.base import Task
from tfbigbatch.training.evaluate import evaluate
from tfbigbatch.training.train_step import TrainingModel


class ScoredTask(Task):
    """Its scores are the outputs themselves."""

    has_scores = True

    def __init__(self):
        pass

    def scores(self, held_out, outputs):
        return {"outputs": outputs, "labels": held_out.labels}


@pytest.mark.parametrize("replicas, batch_size", [(1, 20), (1, 8), (4, 12)])
def test_outputs_come_in_the_order_of_the_examples_without_padding(replicas, batch_size):
    held_out = fake.pairs(3)[1]
    strategy = mirrored(replicas) if replicas > 1 else tf.distribute.get_strategy()
    with strategy.scope():
        ids = tf_keras.Input((None,), dtype=tf.int32)
        # The first word of an example tells it from others.
        model = TrainingModel(tf_keras.Model({"input_word_ids": ids}, tf.cast(ids[:, 1:3], tf.float32)))
        model.compile()
    batches = strategy.distribute_datasets_from_function(
        lambda context: held_out.evaluation_batches(context, batch_size=batch_size).map(
            lambda x, y, mask: ({"input_word_ids": x["input_word_ids"]}, y, mask)
        )
    )
    found = evaluate(model, ScoredTask(), held_out, batches, held_out.evaluation_steps(batch_size))
    np.testing.assert_array_equal(found["outputs"], held_out.features["input_word_ids"][:, 1:3])


def test_texts_are_kept_where_the_task_has_such():
    class Translates(ScoredTask):
        def texts(self, outputs):
            return [str(row[0]) for row in outputs]

    kept, held_out = [], fake.pairs(3)[1]
    ids = tf_keras.Input((None,), dtype=tf.int32)
    model = TrainingModel(tf_keras.Model({"input_word_ids": ids}, ids[:, 1:3]))
    model.compile()
    batches = held_out.evaluation_batches(tf.distribute.InputContext(), batch_size=20)
    batches = batches.map(lambda x, y, mask: ({"input_word_ids": x["input_word_ids"]}, y, mask))
    for task in (ScoredTask(), Translates()):
        evaluate(model, task, held_out, batches, 1, on_texts=kept.append)
    assert kept == [[str(row[1]) for row in held_out.features["input_word_ids"]]]


def test_several_workers_are_refused(tmp_path, monkeypatch):
    from tfbigbatch import experiment
    from tfbigbatch.training import strategy

    monkeypatch.setattr(strategy, "is_multi_worker", lambda chosen: True)
    config = experiment.new("bert_glue", model="bert_tiny")
    with pytest.raises(ValueError, match="bert_glue is scored by all outputs together"):
        train.run(config, model_dir=str(tmp_path / "run"), use_fake_data=True)
    assert not (tmp_path / "run").exists()
