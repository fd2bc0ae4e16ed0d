"""The contract of data/dataset.py, over every class that implements it."""

import dataclasses
import importlib
import pkgutil
from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf

import tfbigbatch.data
from tests.data.bert import test_dataset as bert_sets
from tests.data.translation import test_dataset as translation_pairs
from tests.helpers.datasets import made_images
from tests.helpers.datasets.compared import on_host
from tfbigbatch.data.bert.dataset import BertRecords
from tfbigbatch.data.dataset import Dataset
from tfbigbatch.data.images.dataset import ImageRecords
from tfbigbatch.data.in_memory.arrays import Arrays
from tfbigbatch.data.language_model.contiguous_batches import Streams
from tfbigbatch.data.records.dataset import RecordDataset, SplitDataset
from tfbigbatch.data.records.order import HostSlice
from tfbigbatch.data.sources import image_folder as image_folders
from tfbigbatch.data.sources.by_index import ByIndex, Indexable
from tfbigbatch.data.sources.image_folder import ImageFolder
from tfbigbatch.data.sources.tf_data import TfDataExamples
from tfbigbatch.data.translation.dataset import TranslationRecords

BATCH, STEPS = 16, 6


@dataclasses.dataclass
class Case:
    """A dataset, and what the tests know of it.

    Attributes:
      data: the dataset.
      units: what an evaluation counts: examples, or predictions of a text.
      numbers: function of (features, labels, weights) that gives the number of each counted unit, from 0; None for
        random data.
      counts: function of the weights that says which units count.
      shuffles: whether a seed changes the order.
      per_host: whether each host shuffles its slice of an epoch for itself: an epoch is the same set of examples on any
        number of hosts, a batch is not.
      made: the pipelines that the tests share, by their arguments: BERT's takes a second to trace.
    """

    data: Dataset
    units: int
    numbers: Callable | None = None
    counts: Callable = np.asarray
    shuffles: bool = True
    per_host: bool = False
    made: dict = dataclasses.field(default_factory=dict)


def in_rows(weights):
    """Which examples have any weight, where each of their tokens has one."""
    return weights.any(axis=1)


def arrays(folder):
    content = np.arange(23, dtype=np.uint8).reshape(23, 1)
    data = Arrays(content, np.arange(23, dtype=np.int32) % 5, 5, "test")
    return Case(data, 23, lambda features, labels, weights: features[:, 0])


def streams(folder):
    data = Streams(np.arange(103, dtype=np.int32), 103, 5, "test")
    return Case(data, 102, lambda features, labels, weights: labels - 1, shuffles=False)


def image_records(folder):
    split = made_images.write_split(folder, (30, 7, 64, 26))
    options = {"image_size": 16, "shuffle_window": 50, "threads": 2}
    data = ImageRecords(split, made_images.manifest_of(train=split), **options)
    return Case(data, 127, lambda features, labels, weights: np.rint(features.mean(axis=(1, 2, 3))), per_host=True)


def bert_records(folder):
    data = bert_sets.records_of(bert_sets.write(folder))
    return Case(
        data,
        bert_sets.SIZE,
        lambda features, labels, weights: (labels["masked_lm"][:, 0] - 5) // 3,
        lambda weights: in_rows(weights["masked_lm"]),
        per_host=True,
    )


def translation_records(folder):
    content = translation_pairs.translation_sets.records(folder, translation_pairs.PAIRS, translation_pairs.COUNTS)
    data = translation_pairs.records_of(content)
    return Case(data, 103, lambda features, labels, weights: features["source_ids"][:, 0] - 4, in_rows)


def named_arrays(folder):
    numbers = np.arange(23, dtype=np.int32)
    data = Arrays({"a": numbers[:, None], "b": numbers / 2}, (numbers % 5, numbers), 23, "test")
    return Case(data, 23, lambda features, labels, weights: features["a"][:, 0])


def indexable(folder):
    class Squares:
        def __len__(self):
            return 23

        def __getitem__(self, index):
            return [float(index), index**2], index % 2

    return Case(Indexable(Squares(), "test"), 23, lambda features, labels, weights: features[:, 0].astype(int))


def image_folder(folder):
    for name in ("dark", "light"):
        (folder / name).mkdir()
    for number in range(23):
        pixels = np.full([9, 8, 3], 10 * number, np.uint8)
        name = folder / ("dark" if number < 12 else "light") / f"{number:02d}.png"
        name.write_bytes(tf.io.encode_png(pixels).numpy())
    data = image_folders.splits(str(folder), 8)["train"]
    assert data.classes == 2 and data.names == ["dark", "light"]
    return Case(data, 23, lambda features, labels, weights: np.rint(features.mean(axis=(1, 2, 3)) / 10).astype(int))


def tf_data_examples(folder):
    def make(seed):
        numbers = tf.data.Dataset.range(23).shuffle(23, seed=seed) if seed else tf.data.Dataset.range(23)
        return numbers.map(lambda number: ({"number": number}, number % 5))

    # An epoch has whole batches: 16 of 23 examples, so that the table's first epoch is not that of the others.
    return Case(TfDataExamples(make, "test"), 23, counts=np.asarray)


CASES = (
    named_arrays,
    *(pytest.param(each, marks=pytest.mark.slow) for each in (indexable, image_folder, tf_data_examples, bert_records)),
    arrays,
    streams,
    image_records,
    translation_records,
)


@pytest.fixture(scope="module", params=CASES, ids=lambda make: make.__name__)
def case(request, tmp_path_factory):
    if request.param is translation_records:
        pytest.importorskip("sentencepiece")
    return request.param(tmp_path_factory.mktemp("data"))


def training(case, first=0, last=STEPS, *, seed=0, workers=1, worker=0, replicas=1):
    key = (first, last, seed, workers, worker, replicas)
    if key not in case.made:
        context = tf.distribute.InputContext(workers, worker, replicas)
        case.made[key] = case.data.training_batches(
            context, batch_size=BATCH, seed=seed, first_step=first, last_step=last
        )
    return case.made[key]


def evaluation(case, *, workers=1, worker=0, replicas=1):
    key = (workers, worker, replicas)
    if key not in case.made:
        context = tf.distribute.InputContext(workers, worker, replicas)
        case.made[key] = case.data.evaluation_batches(context, batch_size=BATCH)
    return case.made[key]


def equal(one, two):
    """Whether two lists of batches have the same bits."""
    same = tf.nest.map_structure(np.array_equal, one, two)
    return len(one) == len(two) and all(tf.nest.flatten(same))


def test_every_class_of_the_package_that_is_a_dataset_has_a_case():
    for module in pkgutil.walk_packages(tfbigbatch.data.__path__, "tfbigbatch.data."):
        importlib.import_module(module.name)
    covered = {ByIndex, SplitDataset, RecordDataset, Indexable, ImageFolder, TfDataExamples}
    covered |= {Arrays, Streams, ImageRecords, BertRecords, TranslationRecords}
    found, left = set(), [Dataset]
    while left:
        below = left.pop().__subclasses__()
        found.update(below)
        left += below
    assert {one for one in found if one.__module__.startswith("tfbigbatch.")} <= covered


def test_it_has_the_interface(case):
    data = case.data
    assert isinstance(data, Dataset)
    assert data.source and data.contents
    assert data.tokens_per_example is None or data.tokens_per_example > 0
    for value in (data.examples_in_epoch(BATCH), data.evaluation_steps(BATCH)):
        assert isinstance(value, int) and value > 0


def test_batches_have_static_shapes(case):
    for batches in (training(case, last=10, workers=2, replicas=2), evaluation(case, replicas=2)):
        specs = tf.nest.flatten(batches.element_spec)
        assert all(spec.shape.is_fully_defined() for spec in specs)
        # A batch may have numbers of its own, such as its bucket, beside the examples'.
        assert {spec.shape[0] for spec in specs if spec.shape.rank} == {BATCH // 2}


def test_training_is_a_function_of_seed_and_step(case):
    whole = on_host(training(case))
    assert len(whole) == STEPS
    assert equal(on_host(training(case, first=4)), whole[4:])
    assert equal(on_host(training(case, seed=1)), whole) != case.shuffles


def test_the_evaluation_batches_of_two_workers_make_up_that_of_one(case):
    # The replicas of a worker take turns.
    whole = on_host(evaluation(case, replicas=2))
    for worker in range(2):
        assert equal(on_host(evaluation(case, workers=2, worker=worker, replicas=2)), whole[worker::2])


def test_two_workers_share_each_training_batch(case):
    parts = [on_host(training(case, last=10, workers=2, worker=worker, replicas=2)) for worker in range(2)]
    if not case.per_host:
        together = [batch for step in zip(*parts) for batch in step]
        assert equal(together, on_host(training(case, last=10, replicas=2)))
    if case.numbers and case.shuffles:
        # The first epoch: each worker's slice of it, disjoint and together every example.
        numbers = [np.concatenate([np.ravel(case.numbers(*(*batch, None)[:3])) for batch in part]) for part in parts]
        slices = [HostSlice(BATCH, 2, worker).of_epoch(0, case.units) for worker in range(2)]
        first_epoch = np.concatenate([own[: stop - start] for own, (start, stop) in zip(numbers, slices)])
        assert sorted(first_epoch) == list(range(case.units))


def test_evaluation_covers_every_example_once(case):
    batches = on_host(evaluation(case, replicas=2))
    assert len(batches) == case.data.evaluation_steps(BATCH) * 2
    counted = [case.counts(weights) for _, _, weights in batches]
    assert sum(np.sum(one != 0) for one in counted) == case.units
    for _, _, weights in batches:
        for one in tf.nest.flatten(weights):
            assert one.dtype == np.float32 and set(np.unique(one)) <= {0.0, 1.0}
    if case.numbers:
        numbers = [case.numbers(*batch)[one.astype(bool)] for batch, one in zip(batches, counted)]
        assert sorted(np.concatenate(numbers)) == list(range(case.units))
