"""The commands that prepare datasets."""

from __future__ import annotations

from collections.abc import Sequence

from tfbigbatch.errors import InputError


def shards_of(entries: Sequence[str]) -> dict[str, int]:
    """The entries of the list flag --shards, ['train:1024'], as a dictionary, {'train': 1024}.

    Raises:
      ValueError: an entry is not SPLIT:NUMBER.
    """
    found = {}
    for entry in entries:
        split, _, number = entry.partition(":")
        if split not in ("train", "validation") or not number.isdigit() or int(number) < 1:
            raise InputError(f"--shards={','.join(entries)}: expected such as train:1024,validation:128.")
        found[split] = int(number)
    return found
