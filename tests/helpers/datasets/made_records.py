"""Splits of made-up records, for the tests."""

import itertools

from tfbigbatch.data.records import tfrecord
from tfbigbatch.data.records.manifest import Split


def write(folder, records, counts, name="train"):
    """A Split of records in files of so many each."""
    files, left = [str(folder / f"{name}-{file}") for file in range(len(counts))], iter(records)
    for path, count in zip(files, counts):
        with open(path, "wb") as file:
            file.writelines(map(tfrecord.framed, itertools.islice(left, count)))
    return Split.of_files(name, files, list(map(tfrecord.offsets, files)))
