"""Training examples held out to choose a recipe on."""

import numpy as np
import pytest

from tests.helpers.datasets import made_records
from tfbigbatch import tasks
from tfbigbatch.data.in_memory.arrays import Arrays
from tfbigbatch.data.records import reader
from tfbigbatch.data.records.manifest import with_minival
from tfbigbatch.data.records.order import HostSlice


def test_the_last_of_the_arrays_are_split_off():
    rest, last = Arrays(np.arange(20).reshape(10, 2), np.arange(10) % 3, 3, "made up").split_off(4)
    assert (len(rest), len(last)) == (6, 4)
    assert rest.features[:, 0].tolist() == [0, 2, 4, 6, 8, 10] and last.features[0].tolist() == [12, 13]
    assert last.labels.tolist() == [0, 1, 2, 0] and last.source == "made up, the last 4"


def records_of(split):
    own = HostSlice(5, 1, 0)
    runs = reader.records_in_order(reader.RecordReader(split), own)
    return [record.decode() for records, *_ in runs for record in records.numpy() if record]


@pytest.mark.parametrize("held_out", [3, 7, 12])
def test_the_last_records_are_split_off_within_a_file_and_across_files(tmp_path, held_out):
    whole = made_records.write(tmp_path, (str(number).encode() for number in range(13)), (6, 7))
    splits = with_minival({"train": whole}, held_out)
    everything = records_of(whole)
    assert len(everything) == 13
    assert records_of(splits["train"]) == everything[:-held_out]
    assert records_of(splits["minival"]) == everything[-held_out:]
    assert with_minival({"train": whole}, 0) == {"train": whole}


@pytest.mark.parametrize("examples", [-1, 10, 2.5])
def test_a_number_that_leaves_nothing_is_refused(examples):
    with pytest.raises(ValueError, match="data.minival=.*made up has 10 training examples; expected 0, or fewer"):
        Arrays(np.arange(10), np.arange(10), 10, "made up").split_off(examples)


def test_the_epoch_of_a_task_is_without_its_minival():
    assert tasks.get("mnist_cnn").count_examples({"minival": 5_000}, None) == 55_000
