"""Training a vocabulary of both languages with `sentencepiece`."""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterable, Iterator, Sequence

from tfbigbatch.data.translation import vocabulary
from tfbigbatch.data.translation.prepare import texts
from tfbigbatch.errors import InputError, missing_extra

# Fraction of the text's characters that have their own pieces; the others become bytes.
_CHARACTER_COVERAGE = 0.99995
_ERRORS = 2


def learn(lines: Iterable[str], size: int) -> vocabulary.Vocabulary:
    """Trains a byte-pair encoding.

    Only white space is normalised, and characters without a piece become bytes, so encoding is lossless.

    Args:
      lines: texts of both languages; sentencepiece holds them in memory.
      size: number of pieces, with the special ones and the 256 bytes.

    Raises:
      ValueError: the text has fewer pieces or more characters, or the package is not installed.
    """
    try:
        import sentencepiece
    except ImportError:
        raise missing_extra("sentencepiece", "text") from None
    found = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=map(vocabulary.normalised, lines),
            model_writer=found,
            model_type="bpe",
            vocab_size=size,
            pad_id=vocabulary.PAD,
            unk_id=vocabulary.UNKNOWN,
            bos_id=vocabulary.BEGIN,
            eos_id=vocabulary.END,
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
    return vocabulary.Vocabulary(found.getvalue(), "the trained vocabulary")


def sample(pairs: Sequence[tuple[str, str]], step: int) -> Iterator[str]:
    """Every `step`-th line of all sources, then of all targets; `pairs` are their paths."""
    for side in range(2):
        all_lines = itertools.chain.from_iterable(texts.lines(pair[side]) for pair in pairs)
        yield from itertools.islice(all_lines, 0, None, step)
