"""Splits of a user's data in their other forms, and what each says of itself."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfbigbatch import tasks
from tfbigbatch.data.in_memory.arrays import Arrays
from tfbigbatch.data.sources import splits
from tfbigbatch.data.sources.tf_data import TfDataExamples

NUMBERS = np.arange(10, dtype=np.float32)


def test_the_parts_of_a_cut_are_disjoint_and_the_same_in_every_run():
    whole = Arrays(NUMBERS, NUMBERS, None, "mine")
    (kept, held_out), again = whole.without(0.25, "validation"), whole.without(0.25, "validation")
    assert (len(kept), len(held_out)) == (8, 2) and len(whole) == 10
    context = tf.distribute.InputContext()
    one_epoch = {"seed": 0, "first_step": 0, "last_step": 2}
    parts = [
        sorted(
            np.concatenate([features for features, _ in part.training_batches(context, batch_size=size, **one_epoch)])
        )
        for part, size in ((kept, 4), (held_out, 1), (again[0], 4), (again[1], 1))
    ]
    assert sorted(parts[0] + parts[1]) == NUMBERS.tolist() and parts[2:] == parts[:2]
    with pytest.raises(ValueError, match="mine: one example; expected two or more"):
        Arrays(NUMBERS[:1], NUMBERS[:1], None, "mine").without(0.1, "validation")


def test_keras_batches_become_examples():
    class Batches(keras.utils.PyDataset):
        def __len__(self):
            return 3

        def __getitem__(self, index):
            part = NUMBERS[4 * index : 4 * index + 4]
            return {"a": part[:, None]}, part.astype(int)

    found = splits.dataset_of(Batches(), "mine")
    assert isinstance(found, Arrays) and len(found) == 10 and found.source == "mine (read into memory)"
    assert found.classes == 10


def test_a_tf_data_function_takes_the_fields_and_a_seed_for_each_epoch():
    seeds = []

    def factory(split, seed, data_dir, scale=2.0):
        seeds.append(seed)
        assert data_dir == "folder"
        numbers = tf.data.Dataset.from_tensor_slices(scale * NUMBERS)
        return tf.data.Dataset.zip((numbers, numbers)).filter(lambda number, _: number < 16.0)

    data = tasks.from_tf_data(factory)
    found = splits.read(data, fields={"scale": 1.0}, data_dir="folder", owner="mine", held_out=("validation",))
    train = found["train"]
    # The filter hides the number of examples: they are counted.
    assert isinstance(train, TfDataExamples) and train.contents.startswith("10 examples of tf.data")
    assert train.examples_in_epoch(4) == 8 and train.evaluation_steps(4) == 3
    batches = train.training_batches(tf.distribute.InputContext(), batch_size=4, seed=0, first_step=1, last_step=5)
    assert [batch[0].numpy()[0] for batch in batches] == [4, 0, 4, 0]
    assert len(set(seeds)) == 4
    with pytest.raises(ValueError, match="takes no .split, seed."):
        tasks.from_tf_data(lambda seed: None)


def test_a_tf_data_function_with_fewer_examples_than_it_said_fails():
    data = tasks.from_tf_data(
        lambda split, seed: tf.data.Dataset.from_tensor_slices((NUMBERS, NUMBERS)), examples={"train": 12}
    )
    train = data()["train"]
    batches = train.training_batches(tf.distribute.InputContext(), batch_size=6, seed=0, first_step=0, last_step=2)
    with pytest.raises(tf.errors.FailedPreconditionError, match="expected to contain 12 elements"):
        list(batches)
