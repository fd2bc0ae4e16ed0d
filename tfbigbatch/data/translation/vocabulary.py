"""The pieces that sentences are cut into, shared by both languages: byte-pair encoding by the `sentencepiece` package.

Sennrich et al. 2016 (arXiv:1508.07909); Kudo and Richardson 2018 (arXiv:1808.06226). The ids begin with PAD, UNKNOWN,
BEGIN and END. In a vocabulary that `prepare_translation.vocabulary` learnt, characters without a piece become bytes:
`text` then gives back any line that is `normalised`, character for character.
"""

import hashlib
import os

from tfbigbatch.errors import InputError, missing_extra
from tfbigbatch.utils.files import atomic_write

PAD, UNKNOWN, BEGIN, END = range(4)
# What sentencepiece writes for a space: it reads it as one too.
_SPACE = "\u2581"


def normalised(line):
    """A line with single spaces for its white space (Unicode's, and U+2581), and none at either end."""
    return " ".join(line.replace(_SPACE, " ").split())


class Vocabulary:
    """A vocabulary of pieces. It pickles.

    Args:
      model: the bytes of a sentencepiece model.
      source: where it comes from, for errors.

    Raises:
      ValueError: it is no such model, or its first ids are others; or the package is not installed.
    """

    def __init__(self, model, source="the vocabulary"):
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
    def load(cls, path):
        """The Vocabulary in a file.

        Raises:
          ValueError: it cannot be read, or as above.
        """
        try:
            with open(path, "rb") as file:
                return cls(file.read(), path)
        except OSError as error:
            raise InputError(f"{path} cannot be read: {error.strerror or error}. Expected a vocabulary.") from None

    def __reduce__(self):
        return Vocabulary, (self._model, self._source)

    def __len__(self):
        return self._pieces.get_piece_size()

    @property
    def model(self):
        """The bytes of the sentencepiece model."""
        return self._model

    @property
    def digest(self):
        """The SHA-256 of the model, as text."""
        return hashlib.sha256(self._model).hexdigest()

    def ids(self, lines):
        """The pieces of some lines.

        Args:
          lines: list of texts, each `normalised`.

        Returns:
          list of lists of int, without BEGIN and END; an empty line has none.
        """
        return self._pieces.encode(lines, num_threads=1)

    def text(self, ids):
        """The line that ids stand for, detokenised.

        Args:
          ids: iterable of int in [0, len(self)), perhaps with BEGIN, and with END and anything after it.
        """
        kept = []
        for number in ids:
            if number == END:
                break
            if number not in (PAD, BEGIN):
                kept.append(int(number))
        return self._pieces.decode(kept)


def save(vocabulary, folder, name):
    """Writes a vocabulary into a folder, whole or not at all; gives its path.

    Raises:
      ValueError: the folder cannot be written.
    """
    path = os.path.join(folder, name)
    try:
        atomic_write(path, lambda file: file.write(vocabulary.model))
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror or error}.") from None
    return path
