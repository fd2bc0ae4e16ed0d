"""Records in any order, each by itself."""

import numpy as np

from tfbigbatch.data.records import tfrecord
from tfbigbatch.data.records.manifest import Split
from tfbigbatch.data.records.random_access import NO_RECORD, RandomAccessReader

RECORDS = [bytes([number]) * (number * 7 % 90 + 1) for number in range(20)]
COUNTS = (0, 8, 0, 12)


def write(folder):
    files, offsets, first = [], [], 0
    for file, count in enumerate(COUNTS):
        frames = list(map(tfrecord.framed, RECORDS[first : first + count]))
        files.append(folder / f"records-{file}")
        files[-1].write_bytes(b"".join(frames))
        offsets.append(np.cumsum([0, *map(len, frames)])[:-1])
        first += count
    return Split.of_files("train", [str(path) for path in files], offsets, [path.stat().st_size for path in files])


def test_any_records_are_read_in_any_order(tmp_path):
    reader, numbers = RandomAccessReader(write(tmp_path)), [19, 3, 3, NO_RECORD, 0, 8, 7, NO_RECORD]
    found = reader.read(np.array(numbers, np.int64))
    assert found.tolist() == [b"" if number == NO_RECORD else RECORDS[number] for number in numbers]
    assert reader.read(np.arange(20)).tolist() == RECORDS and reader.read(np.zeros(0, np.int64)).tolist() == []


def test_what_is_damaged_or_gone_is_empty(tmp_path):
    split = write(tmp_path)
    with open(split.files[1], "r+b") as file:
        file.seek(int(split.offsets[5]) + tfrecord.HEADER_BYTES)
        file.write(b"?")
        file.seek(int(split.offsets[6]))
        file.write(b"?")
        file.truncate(split.bytes[1] - 1)
    (tmp_path / "records-3").unlink()
    found = RandomAccessReader(split).read(np.arange(20)).tolist()
    assert found == [*RECORDS[:5], *[b""] * 15]
