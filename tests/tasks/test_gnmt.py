"""The translation task: buckets change nothing but the time, and translations are scored as texts."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.helpers.datasets import translation_sets
from tfbigbatch.tasks.gnmt import Gnmt
from tfbigbatch.training.build import compiled
from tfbigbatch.training.step import TrainingSteps


@pytest.fixture(scope="module")
def task():
    model = {**Gnmt.model_defaults, **Gnmt.smoke_model(Gnmt.model_defaults), "dropout": 0.0}
    return Gnmt(model=model, data=Gnmt.data_defaults, data_dir=None, use_fake_data=True)


def after_steps(task, batch_slices, accumulation_steps=1, jit_compile=False):
    keras.utils.set_random_seed(0)
    network = compiled(task, lambda: keras.optimizers.SGD(0.5))
    batches = task.train.training_batches(tf.distribute.InputContext(), batch_size=8, seed=0, first_step=0, last_step=4)
    if not batch_slices:
        batches = batches.map(lambda *batch: task.batch_slices[-1](batch))
    else:
        assert len({int(features["bucket"][0]) for features, *_ in batches}) == 2
    steps = TrainingSteps(
        network,
        strategy=tf.distribute.get_strategy(),
        accumulation_steps=accumulation_steps,
        jit_compile=jit_compile,
        metrics_in_training=False,
        batch_slices=batch_slices,
    )
    steps(iter(batches), 0, 4)
    return network.get_weights()


@pytest.mark.slow  # Half a minute: every bucket is a branch of the step, traced forward and backward.
@pytest.mark.parametrize("accumulation_steps, jit_compile", [(1, False), (2, False), (2, True)])
def test_a_batch_cut_to_its_bucket_gives_the_same_update(task, accumulation_steps, jit_compile):
    cut, whole = after_steps(task, task.batch_slices, accumulation_steps, jit_compile), after_steps(task, ())
    for one, other in zip(cut, whole):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


def test_references_score_100_and_nothing_scores_0(task):
    _, references = task._manifest.texts("test")
    pieces = [[*ids, 3, 3] for ids in task.vocabulary.ids(references)]
    rows = np.full([len(pieces), 40], 3, np.int32)
    for row, ids in zip(rows, pieces):
        row[: len(ids)] = ids
    assert task.texts(rows) == references
    assert task.scores(task.test, rows)["bleu"] == pytest.approx(100.0)
    assert task.scores(task.test, np.full_like(rows, 3)) == {"bleu": 0.0}


def test_one_held_out_set_is_enough_and_the_other_is_asked_for(tmp_path):
    pytest.importorskip("sentencepiece")
    files = [translation_sets.pair(tmp_path, "train", 40), translation_sets.pair(tmp_path, "valid", 5, first=50)]
    options = {"model": Gnmt.model_defaults, "data": Gnmt.data_defaults, "use_fake_data": False}
    folder, *_ = translation_sets.prepared(tmp_path, files[:1], files[1:])
    task = Gnmt(data_dir=folder, **options)
    assert task.held_out("validation").contents.startswith("5 ")
    with pytest.raises(ValueError, match="evaluate_on='test': no such examples are held out, but validation. Prepare"):
        task.held_out("test")
    folder, *_ = translation_sets.prepared(tmp_path, files[:1], name="alone")
    with pytest.raises(ValueError, match="neither a validation nor a test set"):
        Gnmt(data_dir=folder, **options)
