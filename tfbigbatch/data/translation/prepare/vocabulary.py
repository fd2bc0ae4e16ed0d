"""A vocabulary of both languages, learnt from the training text by the `sentencepiece` package."""

import io
import itertools

from tfbigbatch.data.translation import vocabulary
from tfbigbatch.data.translation.prepare import texts
from tfbigbatch.errors import InputError, missing_extra

# The share of the text whose characters have pieces of their own; the others become bytes.
_CHARACTER_COVERAGE = 0.99995
_ERRORS = 2


def learn(lines, size):
    """Learns a byte-pair encoding of `size` pieces.

    The text stays as it is but for its white space, and characters without a piece become bytes: nothing is lost.

    Args:
      lines: iterable of texts, of both languages. The package holds them in memory.
      size: pieces, the special ones and the 256 bytes included.

    Returns:
      translation_vocabulary.Vocabulary.

    Raises:
      ValueError: the text does not have so many pieces, or has more characters; or the package is not installed.
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
        # The package tells the number that would do, after where in its sources it was found out.
        reason = str(error).rpartition("] ")[2]
        raise InputError(f"--vocabulary_size={size} does not fit the training text: {reason}") from None
    return vocabulary.Vocabulary(found.getvalue(), "the vocabulary that was learnt")


def sample(pairs, step):
    """Every `step`-th line of all sources, and then of all targets.

    Args:
      pairs: list of (source, target), paths.
      step: 1 for all lines.
    """
    for side in range(2):
        all_lines = itertools.chain.from_iterable(texts.lines(pair[side]) for pair in pairs)
        yield from itertools.islice(all_lines, 0, None, step)
