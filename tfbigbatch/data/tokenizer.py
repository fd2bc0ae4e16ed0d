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
from typing import Any

import numpy as np

from tfbigbatch.data import text_files
from tfbigbatch.errors import InputError
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
# The characters between white space: Unicode's spaces (Zs), tab, line feed, carriage return, and the separators of
# lines and paragraphs.
_STRETCH = re.compile("[^ \t\n\r\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+")
_CJK = re.compile(
    "[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0002a6df\U0002a700-\U0002b73f\U0002b740-\U0002b81f\U0002b820-\U0002ceaf\U0002f800-\U0002fa1f]"
)
# A normalised character, and its range in the text.
_Letter = tuple[str, int, int]


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
        # Universal newlines would also split at a lone carriage return, which shifts all ids.
        return cls([line.strip() for line in io.StringIO(text_files.read(path), newline="\n")], path)

    @property
    def content(self) -> bytes:
        """The content of its vocab.txt."""
        return "".join(f"{token}\n" for token in self.tokens).encode()

    def __len__(self) -> int:
        return len(self.tokens)

    def get(self, token: str) -> int | None:
        """The id of a token, or None."""
        return self._ids.get(token)

    @property
    def continues(self) -> list[bool]:
        """True for each token that continues a word."""
        return [token.startswith(CONTINUES) for token in self.tokens]


class Tokenizer:
    """Encodes text as ids.

    Args:
      vocabulary: of the model.
      lower_case: lower-case words and strip accents, as for BERT's uncased models.
    """

    def __init__(self, vocabulary: Vocabulary, lower_case: bool = True) -> None:
        self.vocabulary, self.lower_case = vocabulary, lower_case
        self._known = _Cache(lambda stretch: tuple(number for number, _, _ in self._tokens(stretch)))
        self._placed = _Cache(self._tokens)

    def ids(self, text: str) -> list[int]:
        """The ids of a text, without [CLS] and [SEP]."""
        if _DROPPED_SPACES.search(text):
            text = _DROPPED_SPACES.sub("", text)
        return list(itertools.chain.from_iterable(map(self._known.__getitem__, text.split())))

    def encode(self, text: str) -> tuple[np.ndarray, np.ndarray]:
        """The ids of a text, int32 [tokens], and their offsets, int32 [tokens, 2]: a token is text[start:end].

        Combining accents belong to the letter before them.
        """
        tokens = [
            (number, match.start() + start, match.start() + end)
            for match in _STRETCH.finditer(text)
            for number, start, end in self._placed[match[0]]
        ]
        table = np.array(tokens, np.int32).reshape(-1, 3)
        return table[:, 0], table[:, 1:]

    def _tokens(self, stretch: str) -> list[tuple[int, int, int]]:
        """(id, first character, behind the last) of each token in the characters between white space."""
        found: list[tuple[int, int, int]] = []
        for word in _words(stretch, self.lower_case):
            first = 0
            for number, end in self._pieces("".join(letter for letter, _, _ in word)):
                found.append((number, word[first][1], word[end - 1][2]))
                first = end
        return found

    def _pieces(self, word: str) -> list[tuple[int, int]]:
        """(id, end) of the longest tokens from the left, or of [UNK] if they do not cover the word."""
        unknown = [(self.vocabulary.unknown, len(word))]
        if len(word) > LONGEST_WORD:
            return unknown
        found: list[tuple[int, int]] = []
        start = 0
        while start < len(word):
            prefix = CONTINUES if start else ""
            for end in range(len(word), start, -1):
                number = self.vocabulary.get(prefix + word[start:end])
                if number is not None:
                    break
            else:
                return unknown
            found.append((number, end))
            start = end
        return found


def words(stretch: str, lower_case: bool) -> list[str]:
    """The normalised words in characters without white space; punctuation and CJK characters are words of their own."""
    return ["".join(letter for letter, _, _ in word) for word in _words(stretch, lower_case)]


class _Cache(dict[str, Any]):
    """A cache of a function of the characters between white space."""

    def __init__(self, function: Callable[[str], Any]) -> None:
        super().__init__()
        self._function = function

    def __missing__(self, stretch: str) -> Any:
        found = self._function(stretch)
        if len(stretch) <= _LONGEST_REMEMBERED:
            if len(self) >= _REMEMBERED:
                self.clear()
            self[stretch] = found
        return found


def _words(stretch: str, lower_case: bool) -> list[list[_Letter]]:
    """The words of a stretch, as normalised letters."""
    if stretch.isascii() and stretch.isprintable():
        normal = stretch.lower() if lower_case else stretch
        runs = [[(letter, index, index + 1) for index, letter in enumerate(normal)]]
        if normal.isalnum():
            return runs
    else:
        runs = [_lowered(run) if lower_case else run for run in _runs(stretch)]
    found: list[list[_Letter]] = []
    for run in runs:
        word: list[_Letter] = []
        for letter in run:
            if is_punctuation(letter[0]):
                found += [word, [letter]]
                word = []
            else:
                word.append(letter)
        found.append(word)
    return [word for word in found if word]


def _runs(stretch: str) -> list[list[_Letter]]:
    """The stretch without control characters, split at CJK characters."""
    runs: list[list[_Letter]] = [[]]
    for index, character in enumerate(stretch):
        letter = character, index, index + 1
        if _CJK.match(character):
            runs += [[letter], []]
        elif character not in "\0\ufffd" and unicodedata.category(character) not in ("Cc", "Cf"):
            runs[-1].append(letter)
    return [run for run in runs if run]


def _lowered(run: list[_Letter]) -> list[_Letter]:
    """The letters in lower case and without accents."""
    # As a whole, since the lower case of sigma depends on its position; one character may become several.
    lower = iter("".join(character for character, _, _ in run).lower())
    letters: list[_Letter] = []
    for character, start, end in run:
        small = "".join(next(lower) for _ in character.lower())
        for part in unicodedata.normalize("NFD", small):
            if unicodedata.category(part) != "Mn":
                letters.append((part, start, end))
            elif letters:
                letters[-1] = (*letters[-1][:2], end)
    return letters


@functools.lru_cache(1 << 16)
def is_punctuation(character: str) -> bool:
    """True for a character that counts as punctuation."""
    # All ASCII symbols count, also "$", "^" and "`".
    if character.isascii():
        return character.isprintable() and not character.isalnum() and character != " "
    return unicodedata.category(character).startswith("P")
