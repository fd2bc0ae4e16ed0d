"""WordPiece tokenizer of BERT: the ids of the reference code, a hundred times as fast.

The rules are those of google-research/bert's tokenization.py, as in tf-models-official's FullTokenizer: control
characters are dropped, CJK and punctuation characters are words of their own, uncased models lower-case words and strip
accents, and a word is split greedily into the longest tokens from the left. No rule looks beyond a word between white
space, so the ids of each word are computed once and cached.

Own code, not the `tokenizers` package: that gives the same ids on WikiText-2 and SQuAD, but with two threads takes 2 to
5 times as long as this with one, and it differs from the reference code on private-use characters and on newer Unicode
(results/measurements/speed.md). Importing this module does not import TensorFlow.
"""

from __future__ import annotations

import functools
import io
import itertools
import re
import unicodedata
from collections.abc import Callable, Iterable

from tfbigbatch.data import text_files
from tfbigbatch.errors import InputError
from tfbigbatch.utils.files import read_bytes
from tfbigbatch.utils.home import expanded

PADDING, UNKNOWN, CLASSIFY, SEPARATE, MASK = "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"
SPECIAL = (PADDING, UNKNOWN, CLASSIFY, SEPARATE, MASK)
CONTINUES = "##"
# Longer words are unknown: the limit of tf-models-official; the `tokenizers` package has 100.
LONGEST_WORD = 400
# Words cached, and their maximum length; a full cache is cleared, so that it does not grow with the corpus.
_REMEMBERED, _LONGEST_REMEMBERED = 1 << 18, 64
# Control characters at which str.split() splits, but BERT does not: it drops them.
_DROPPED_SPACES = re.compile("[\x0b\x0c\x1c-\x1f\x85]")
_CJK = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)


class Vocabulary:
    """The tokens of a model and their ids.

    Args:
      tokens: in id order; the later id of a duplicate counts.
      source: their origin, for errors.

    Attributes:
      tokens: in id order.
      padding, unknown, classify, separate, mask: ids of the special tokens.

    Raises:
      ValueError: a special token is missing, or [PAD] is not the first.
    """

    def __init__(self, tokens: Iterable[str], source: str = "the vocabulary") -> None:
        self.tokens = tuple(tokens)
        self._ids = {token: number for number, token in enumerate(self.tokens)}
        missing = [token for token in SPECIAL if token not in self._ids]
        if missing or self._ids[PADDING] != 0:
            raise InputError(
                f"{source} has {len(self.tokens):,} lines, "
                + (f"but no {' and no '.join(missing)}" if missing else f"and {PADDING} is not the first")
                + f"; expected a vocabulary as BERT's vocab.txt: a token a line, {PADDING} first, with "
                f"{', '.join(SPECIAL[1:])} anywhere."
            )
        self.padding, self.unknown, self.classify, self.separate, self.mask = (self._ids[token] for token in SPECIAL)

    @classmethod
    def load(cls, path: str) -> Vocabulary:
        """The vocabulary of a vocab.txt, a token per line.

        Raises:
          ValueError: it cannot be read, or is not one.
        """
        path = expanded(path)
        try:
            text = text_files.decoded(read_bytes(path), f"--vocab_file={path}")
        except OSError as error:
            raise InputError(f"--vocab_file={path} cannot be read: {error}.") from None
        # Universal newlines would also split at a lone carriage return, which shifts all ids.
        return cls([line.strip() for line in io.StringIO(text, newline="\n")], path)

    def __len__(self) -> int:
        return len(self.tokens)

    def get(self, token: str) -> int | None:
        """The id of a token, or None."""
        return self._ids.get(token)

    @property
    def continues(self) -> list[bool]:
        """For each token whether it continues a word."""
        return [token.startswith(CONTINUES) for token in self.tokens]


class Tokenizer:
    """Encodes text as ids.

    Args:
      vocabulary: of the model.
      lower_case: lower-case words and strip accents, as for BERT's uncased models.
    """

    def __init__(self, vocabulary: Vocabulary, lower_case: bool = True) -> None:
        self.vocabulary, self.lower_case = vocabulary, lower_case
        self._known = _Words(self._ids_of_word)

    def ids(self, text: str) -> list[int]:
        """The ids of a text, without [CLS] and [SEP]."""
        if _DROPPED_SPACES.search(text):
            text = _DROPPED_SPACES.sub("", text)
        return list(itertools.chain.from_iterable(map(self._known.__getitem__, text.split())))

    def _ids_of_word(self, word: str) -> tuple[int, ...]:
        """The ids of the characters between white space."""
        found: list[int] = []
        for part in _cleaned(word).split():
            if self.lower_case:
                part = _without_accents(part.lower())
            for piece in _apart(part):
                found += self._pieces(piece)
        return tuple(found)

    def _pieces(self, word: str) -> list[int]:
        """The longest tokens from the left, or [UNK] if they do not cover the word."""
        if len(word) > LONGEST_WORD:
            return [self.vocabulary.unknown]
        found: list[int] = []
        start = 0
        while start < len(word):
            prefix = CONTINUES if start else ""
            for end in range(len(word), start, -1):
                number = self.vocabulary.get(prefix + word[start:end])
                if number is not None:
                    break
            else:
                return [self.vocabulary.unknown]
            found.append(number)
            start = end
        return found


def normalised(text: str, lower_case: bool) -> str:
    """A text as it is looked up in the vocabulary, without white space."""
    text = "".join(_cleaned(text).split())
    return _without_accents(text.lower()) if lower_case else text


def parts(word: str) -> list[str]:
    """The words between white space: punctuation and CJK characters are words of their own."""
    return [piece for part in _cleaned(word).split() for piece in _apart(part)]


def replacement(character: str, lower_case: bool) -> str:
    """What becomes of a character on its own before words are looked up, with spaces where words end."""
    if _DROPPED_SPACES.match(character):
        return ""
    cleaned = " " if character.isspace() else cleaned_character(character)
    if lower_case:
        cleaned = _without_accents(cleaned.lower())
    return "".join(f" {c} " if is_punctuation(c) else c for c in cleaned)


class _Words(dict[str, tuple[int, ...]]):
    """A cache of a function of words."""

    def __init__(self, function: Callable[[str], tuple[int, ...]]) -> None:
        super().__init__()
        self._function = function

    def __missing__(self, word: str) -> tuple[int, ...]:
        found = self._function(word)
        if len(word) <= _LONGEST_REMEMBERED:
            if len(self) >= _REMEMBERED:
                self.clear()
            self[word] = found
        return found


def _cleaned(word: str) -> str:
    """Without control characters, with plain spaces, and with spaces around CJK characters."""
    if word.isascii() and word.isprintable():
        return word
    return "".join(map(cleaned_character, word))


@functools.lru_cache(1 << 16)
def cleaned_character(character: str) -> str:
    """The character; '' for a control character, ' ' for any space, and a CJK character between spaces."""
    code, category = ord(character), unicodedata.category(character)
    if code in (0, 0xFFFD) or category in ("Cc", "Cf"):
        return ""
    if category == "Zs":
        return " "
    return f" {character} " if any(first <= code <= last for first, last in _CJK) else character


def _without_accents(word: str) -> str:
    if word.isascii():
        return word
    return "".join(c for c in unicodedata.normalize("NFD", word) if unicodedata.category(c) != "Mn")


def _apart(word: str) -> list[str]:
    """The word split at punctuation, each punctuation character a word of its own."""
    if word.isalnum() and word.isascii():
        return [word]
    # Stripping accents may leave a space, which separates words too.
    return "".join(f" {c} " if is_punctuation(c) else c for c in word).split()


@functools.lru_cache(1 << 16)
def is_punctuation(character: str) -> bool:
    """Whether a character counts as punctuation."""
    # All ASCII symbols count, also "$", "^" and "`".
    if character.isascii():
        return character.isprintable() and not character.isalnum() and character != " "
    return unicodedata.category(character).startswith("P")
