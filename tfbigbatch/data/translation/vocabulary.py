"""Vocabulary of subword pieces, shared by both languages: byte-pair encoding by `sentencepiece`.

Sennrich et al. 2016 (arXiv:1508.07909); Kudo and Richardson 2018 (arXiv:1808.06226). The first ids are PAD, UNKNOWN,
BEGIN and END. In a vocabulary of `learn`, characters without a piece become bytes: `text` then
restores any `normalised` line exactly.
"""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterable
from typing import Any

from tfbigbatch.errors import InputError, missing_extra
from tfbigbatch.utils.files import read_bytes, reading_errors
from tfbigbatch.utils.home import expanded

PAD, UNKNOWN, BEGIN, END = range(4)
# sentencepiece's symbol for a space, which it also reads as one.
_SPACE = "\u2581"
# Fraction of the text's characters that have their own pieces; the others become bytes.
_CHARACTER_COVERAGE = 0.99995
# sentencepiece's level of messages.
_ERRORS = 2


def normalised(line: str) -> str:
    """A line with runs of white space (Unicode's, and U+2581) as single spaces, and none at either end."""
    return " ".join(line.replace(_SPACE, " ").split())


class Vocabulary:
    """A vocabulary of pieces.

    Args:
      model: content of a sentencepiece model file.
      source: its origin, for errors.

    Raises:
      ValueError: it is not a sentencepiece model, its first ids differ, or the package is not installed.
    """

    def __init__(self, model: bytes, source: str = "the vocabulary") -> None:
        self._model = model
        try:
            self._pieces = _sentencepiece().SentencePieceProcessor(model_proto=model)
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
        with reading_errors(path):
            return cls(read_bytes(path), path)

    def __len__(self) -> int:
        return self._pieces.get_piece_size()

    @property
    def content(self) -> bytes:
        """Content of the model file."""
        return self._model

    def ids(self, lines: list[str]) -> list[list[int]]:
        """The ids of some `normalised` lines, without BEGIN and END."""
        return self._pieces.encode(lines, num_threads=1)

    def text(self, ids: Iterable[int]) -> str:
        """The detokenised line; BEGIN, padding, and everything from END on are dropped."""
        before = itertools.takewhile(lambda number: number != END, ids)
        return self._pieces.decode([int(number) for number in before if number not in (PAD, BEGIN)])


def learn(lines: Iterable[str], size: int) -> Vocabulary:
    """Trains a byte-pair encoding.

    Only white space is normalised, and characters without a piece become bytes, so encoding is lossless.

    Args:
      lines: texts of both languages; sentencepiece holds them in memory.
      size: number of pieces, with the special ones and the 256 bytes.

    Raises:
      ValueError: the text has fewer pieces or more characters, or the package is not installed.
    """
    found = io.BytesIO()
    try:
        _sentencepiece().SentencePieceTrainer.train(
            sentence_iterator=map(normalised, lines),
            model_writer=found,
            model_type="bpe",
            vocab_size=size,
            pad_id=PAD,
            unk_id=UNKNOWN,
            bos_id=BEGIN,
            eos_id=END,
            byte_fallback=True,
            character_coverage=_CHARACTER_COVERAGE,
            normalization_rule_name="identity",
            remove_extra_whitespaces=False,
            minloglevel=_ERRORS,
        )
    except RuntimeError as error:
        # The message names a size that would fit, after the place in sentencepiece's sources.
        reason = str(error).rpartition("] ")[2]
        raise InputError(f"--vocabulary_size={size} does not fit the training text: {reason}") from None
    return Vocabulary(found.getvalue(), "the trained vocabulary")


def _sentencepiece() -> Any:
    try:
        import sentencepiece
    except ImportError:
        raise missing_extra("sentencepiece", "text") from None
    return sentencepiece
