"""Training a WordPiece vocabulary with the `tokenizers` package."""

from __future__ import annotations

import collections

from tfbigbatch.data import tokenizer
from tfbigbatch.data.bert.prepare import corpus
from tfbigbatch.data.bert.prepare.corpus import Documents
from tfbigbatch.errors import InputError, missing_extra

# Maximum characters in a vocabulary, the most frequent ones.
_ALPHABET = 1000


def train(documents: Documents, size: int, lower_case: bool) -> tokenizer.Vocabulary:
    """Trains a vocabulary of at most `size` tokens; fewer if no further pair of tokens occurs twice.

    Args:
      documents: to train on.
      size: number of tokens, with the special ones.
      lower_case: as in tokenizer.Tokenizer.

    Raises:
      ValueError: the package is not installed, or the text has more characters than `size`.
    """
    try:
        from tokenizers import BertWordPieceTokenizer
    except ImportError:
        raise missing_extra("tokenizers", "text") from None
    # Single characters get fixed ids, by which the package breaks ties: otherwise each training would give another
    # vocabulary.
    inside = [f"{tokenizer.CONTINUES}{character}" for character in _characters(documents, lower_case)]
    sentences = (
        _with_short_words(sentence)
        for text, layout, _ in documents.texts()
        for sentence in corpus.paragraphs(layout, text)
        if sentence
    )
    learner = BertWordPieceTokenizer(lowercase=lower_case)
    learner.train_from_iterator(
        sentences,
        vocab_size=size,
        special_tokens=[*tokenizer.SPECIAL, *inside],
        wordpieces_prefix=tokenizer.CONTINUES,
        limit_alphabet=_ALPHABET,
        show_progress=False,
    )
    found = learner.get_vocab()
    if len(found) > size:
        raise InputError(f"--train_vocab_size={size}: the text's characters alone are {len(found):,}. Choose more.")
    return tokenizer.Vocabulary(sorted(found, key=found.get), "the trained vocabulary")


def _with_short_words(sentence: str) -> str:
    """A sentence without words too long for the tokenizer, on which the package would spend hours."""
    if len(sentence) <= tokenizer.LONGEST_WORD:
        return sentence
    parts = (part for stretch in sentence.split() for part in tokenizer.words(stretch, False))
    return " ".join(part for part in parts if len(part) <= tokenizer.LONGEST_WORD)


def _characters(documents: Documents, lower_case: bool) -> list[str]:
    """The most frequent characters in words, sorted."""
    raw: collections.Counter[str] = collections.Counter()
    counts: collections.Counter[str] = collections.Counter()
    for text, _, _ in documents.texts():
        raw.update(text)
    for character, count in raw.items():
        for kept in "".join(tokenizer.words(character, lower_case)).strip():
            if not tokenizer.is_punctuation(kept):
                counts[kept] += count
    ranked = sorted(counts, key=lambda character: (-counts[character], character))
    return sorted(ranked[:_ALPHABET])
