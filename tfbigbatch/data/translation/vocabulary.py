"""Vocabulary of subword pieces, shared by both languages: byte-pair encoding by `sentencepiece`.

Sennrich et al. 2016 (arXiv:1508.07909); Kudo and Richardson 2018 (arXiv:1808.06226). The first ids are PAD, UNKNOWN,
BEGIN and END. In a vocabulary of `prepare.vocabulary.learn`, characters without a piece become bytes: `text` then
restores any `normalised` line exactly.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from typing import Any

from tfbigbatch.errors import InputError, missing_extra
from tfbigbatch.utils.files import atomic_write, read_bytes
from tfbigbatch.utils.home import expanded

PAD, UNKNOWN, BEGIN, END = range(4)
# sentencepiece's symbol for a space, which it also reads as one.
_SPACE = "\u2581"


def normalised(line: str) -> str:
    """A line with runs of white space (Unicode's, and U+2581) as single spaces, and none at either end."""
    return " ".join(line.replace(_SPACE, " ").split())


class Vocabulary:
    """A vocabulary of pieces; picklable.

    Args:
      model: content of a sentencepiece model file.
      source: its origin, for errors.

    Raises:
      ValueError: it is not a sentencepiece model, its first ids differ, or the package is not installed.
    """

    def __init__(self, model: bytes, source: str = "the vocabulary") -> None:
        try:
            import sentencepiece
        except ImportError:
            raise missing_extra("sentencepiece", "text") from None
        self._model, self._source = model, source
        try:
            self._pieces = sentencepiece.SentencePieceProcessor(model_proto=model)
            size = self._pieces.get_piece_size() if model else 0
        except RuntimeError:
            size = 0
        if not size:
            raise InputError(
                f"{source} is not a sentencepiece model. Expected the .model file that sentencepiece writes, such as "
                "the vocabulary.model of a prepared folder."
            )
        found = [getattr(self._pieces, name)() for name in ("pad_id", "unk_id", "bos_id", "eos_id")]
        if found != [PAD, UNKNOWN, BEGIN, END]:
            raise InputError(
                f"{source}: padding, unknown, begin and end have the ids {found}; expected [0, 1, 2, 3]. Train the "
                "model with --pad_id=0 --unk_id=1 --bos_id=2 --eos_id=3."
            )

    @classmethod
    def load(cls, path: str) -> Vocabulary:
        """The vocabulary in a file.

        Raises:
          ValueError: it cannot be read, or as above.
        """
        path = expanded(path)
        try:
            return cls(read_bytes(path), path)
        except OSError as error:
            raise InputError(f"{path} cannot be read: {error.strerror or error}. Expected a vocabulary.") from None

    def __reduce__(self) -> tuple[Any, ...]:
        return Vocabulary, (self._model, self._source)

    def __len__(self) -> int:
        return self._pieces.get_piece_size()

    @property
    def model(self) -> bytes:
        """Content of the model file."""
        return self._model

    @property
    def digest(self) -> str:
        """SHA-256 of the model, in hexadecimal."""
        return hashlib.sha256(self._model).hexdigest()

    def ids(self, lines: list[str]) -> list[list[int]]:
        """The ids of some `normalised` lines, without BEGIN and END."""
        return self._pieces.encode(lines, num_threads=1)

    def text(self, ids: Iterable[int]) -> str:
        """The detokenised line; BEGIN, padding, and everything from END on are dropped."""
        kept = []
        for number in ids:
            if number == END:
                break
            if number not in (PAD, BEGIN):
                kept.append(int(number))
        return self._pieces.decode(kept)


def save(vocabulary: Vocabulary, folder: str, name: str) -> str:
    """Writes a vocabulary into a folder, atomically; returns its path.

    Raises:
      ValueError: the folder cannot be written.
    """
    path = os.path.join(folder, name)
    try:
        atomic_write(path, lambda file: file.write(vocabulary.model))
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror or error}.") from None
    return path
