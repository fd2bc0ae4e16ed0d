"""A WordPiece vocabulary, learnt from a corpus by the `tokenizers` package."""

from tfbigbatch.data import wordpiece
from tfbigbatch.errors import InputError, missing_extra


def train(documents, size, lower_case):
    """Learns a vocabulary: pieces are joined by their frequency, beginning with characters.

    Args:
      documents: corpus.Documents to learn from.
      size: tokens, the special ones included.
      lower_case: as in wordpiece.Tokenizer.

    Returns:
      wordpiece.Vocabulary; smaller than `size` where the text has no more pieces that occur twice.

    Raises:
      ValueError: the package is not installed; or the text is too small for `size` characters.
    """
    try:
        from tokenizers import BertWordPieceTokenizer
    except ImportError:
        raise missing_extra("tokenizers", "text") from None
    sentences = (
        sentence for text, layout, _ in documents.texts() for sentence in layout.sentences(text, False) if sentence
    )
    learner = BertWordPieceTokenizer(lowercase=lower_case)
    learner.train_from_iterator(
        sentences, vocab_size=size, special_tokens=list(wordpiece.SPECIAL), wordpieces_prefix=wordpiece.CONTINUES
    )
    found = learner.get_vocab()
    if len(found) <= len(wordpiece.SPECIAL):
        raise InputError(f"--train_vocab_size={size}: the text gave no vocabulary. Is there any text?")
    return wordpiece.Vocabulary(sorted(found, key=found.get), "the vocabulary that was trained")
