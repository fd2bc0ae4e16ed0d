"""A WordPiece vocabulary, learnt from a corpus by the `tokenizers` package."""

import collections

from tfbigbatch.data import tokenizer
from tfbigbatch.errors import InputError, missing_extra

# Characters that a vocabulary has at most, the most frequent ones.
_ALPHABET = 1000


def train(documents, size, lower_case):
    """Learns a vocabulary: pieces are joined by their frequency, beginning with characters.

    Args:
      documents: corpus.Documents to learn from.
      size: tokens, the special ones included.
      lower_case: as in wordpiece.Tokenizer.

    Returns:
      wordpiece.Vocabulary; smaller than `size` where the text has no more pieces that occur twice.

    Raises:
      ValueError: the package is not installed; or the text has more characters than `size`.
    """
    try:
        from tokenizers import BertWordPieceTokenizer
    except ImportError:
        raise missing_extra("tokenizers", "text") from None
    # Known beforehand, the pieces of one character have fixed ids, and equal frequencies are told apart by ids:
    # else the package would give another vocabulary each time.
    inside = [f"{tokenizer.CONTINUES}{character}" for character in _characters(documents, lower_case)]
    sentences = (
        _with_short_words(sentence)
        for text, layout, _ in documents.texts()
        for sentence in layout.sentences(text, False)
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
    return tokenizer.Vocabulary(sorted(found, key=found.get), "the vocabulary that was trained")


def _with_short_words(sentence):
    """A sentence without the words that the tokenizer takes for unknown: the package would pore over them for hours."""
    if len(sentence) <= tokenizer.LONGEST_WORD:
        return sentence
    kept = []
    for word in sentence.split():
        whole = len(word) <= tokenizer.LONGEST_WORD
        kept += [word] if whole else [part for part in tokenizer.parts(word) if len(part) <= tokenizer.LONGEST_WORD]
    return " ".join(kept)


def _characters(documents, lower_case):
    """The most frequent characters of the documents' words, by code point."""
    raw, counts = collections.Counter(), collections.Counter()
    for text, _, _ in documents.texts():
        raw.update(text)
    for character, count in raw.items():
        for kept in tokenizer.normalised(character, lower_case):
            if not tokenizer.is_punctuation(kept):
                counts[kept] += count
    ranked = sorted(counts, key=lambda character: (-counts[character], character))
    return sorted(ranked[:_ALPHABET])
