"""The part that preparations of tokenised texts share: fingerprint, scan, and a vocabulary that is given or learnt."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from tfbigbatch.data import stored_tokens
from tfbigbatch.data.records import preparation
from tfbigbatch.data.records.shards import Shard
from tfbigbatch.errors import InputError


class TextPreparation(preparation.Preparation):
    """The preparation of texts in shards of ids. A subclass sets the class attributes, and defines `write` besides.

    Args:
      source: path, whose name is the source's.
      options: dataclass of flags, with `processes`, `overwrite` and `given`.
      names, paths: of the texts.
      contents: what else the result depends on; JSON.

    Attributes:
      vocabulary: the one to use; None until it is learnt.
      vocabulary_path: its file in the folder's progress, for the workers.

    Raises:
      ValueError: a text is missing, or the given vocabulary cannot be used.
    """

    given: ClassVar[str]
    """The option that is the path of a vocabulary."""
    vocabulary_file: ClassVar[str]
    vocabulary_of: Callable[[str], Any]
    """The function of a path that loads a vocabulary with `content` and `digest`."""

    def __init__(
        self, source: str, options: Any, names: Sequence[str], paths: Sequence[str], contents: Any = None
    ) -> None:
        self.options, self.paths = options, paths
        given = getattr(options, self.given)
        self.vocabulary = self.vocabulary_of(given) if given else None
        kept = dataclasses.asdict(options)
        for name in ("processes", "overwrite"):
            del kept[name]
        kept[self.given] = self.vocabulary and self.vocabulary.digest
        self.fingerprint = preparation.fingerprint(source, self.kind.what, kept, contents, rows_of(names, paths))

    def prepare(self, folder: str, say: Callable[[str], object] = lambda line: None) -> tuple[dict[str, Any], bool]:
        """`preparation.prepare` of this; the files do not depend on the number of processes."""
        options = self.options
        return preparation.prepare(self, folder, processes=options.processes, overwrite=options.overwrite, say=say)

    @staticmethod
    def write(vocabulary_path: str, options: Any, shard: Shard, tick: Callable[[], None]) -> dict[str, Any]:
        """Writes a shard; returns its record.

        Args:
          vocabulary_path: in the folder's progress; its name tells the content.
          options: of the preparation.
          shard: of `tasks`.
          tick: called for each unit; an error that it raises ends the writing.

        Raises:
          ValueError: a text cannot be read, or the folder cannot be written.
        """
        raise NotImplementedError

    @property
    def function(self) -> Callable[[Any, Callable[[], None]], Any]:
        return functools.partial(self.write, self.vocabulary_path, self.options)

    def scanned(self, scan: Callable[[str, Callable[[], None]], Any], unit: str) -> dict[str, Any]:
        """The results of `scan` by path."""
        # Starting workers takes longer than scanning a small corpus.
        several = self.options.processes if sum(map(os.path.getsize, self.paths)) > 100e6 else 1
        return preparation.run(scan, self.paths, unit=unit, processes=several)

    def set_vocabulary(self, folder: str, learn: Callable[[], Any]) -> None:
        """Sets `vocabulary` and `vocabulary_path`: the given one, that of a command that was stopped, or a new one."""
        name = f"{self.fingerprint['digest'][:16]}.{self.vocabulary_file}"
        self.vocabulary_path = preparation.progress_path(folder, name)
        if self.vocabulary or not os.path.exists(self.vocabulary_path):
            content = (self.vocabulary or learn()).content
            stored_tokens.write(os.path.dirname(self.vocabulary_path), name, content)
        self.vocabulary = self.vocabulary_of(self.vocabulary_path)


def rows_of(names: Sequence[str], paths: Sequence[str]) -> list[tuple[str, int]]:
    """(name, bytes) of each text, for a fingerprint; raises ValueError where one is missing."""
    missing = [path for path in paths if not os.path.isfile(path)]
    if missing:
        raise InputError(f"{missing[0]}: no such file. Expected the path of a text.")
    return list(zip(names, map(os.path.getsize, paths)))


def sums(results: Mapping[Shard, dict[str, Any]], names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """The sums of the shards' numbers of these names, by split."""
    found: dict[str, dict[str, Any]] = {}
    for shard, record in results.items():
        of_split = found.setdefault(shard.split, dict.fromkeys(names, 0))
        for name in names:
            of_split[name] += record[name]
    return found
