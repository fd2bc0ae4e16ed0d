"""Tokens of texts with their character offsets."""

from __future__ import annotations

import dataclasses
import functools
import re
import unicodedata
from collections.abc import Callable, Sequence

import numpy as np

from tfbigbatch.data import tokenizer as wordpiece

# Unicode's spaces (Zs), tab, line feed, carriage return, and the separators of lines and paragraphs.
_STRETCH = re.compile("[^ \t\n\r\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+")
_REMEMBERED = 1 << 18
# A normalised character, and its range in the text.
_Letter = tuple[str, int, int]
_Ranges = list[tuple[int, int]]


@dataclasses.dataclass(frozen=True, eq=False)
class Encoding:
    """The tokens of a text.

    Attributes:
      ids: int32 [tokens], as Tokenizer.ids.
      offsets: int32 [tokens, 2]: a token is text[start:end]; combining accents belong to the letter before them.
    """

    ids: np.ndarray
    offsets: np.ndarray

    def __len__(self) -> int:
        return len(self.ids)


def encode(tokenizer: wordpiece.Tokenizer, texts: Sequence[str]) -> list[Encoding]:
    """The encodings of some texts."""
    # Words repeat, so each stretch between white space is split once.
    cut = functools.lru_cache(_REMEMBERED)(functools.partial(_cut, tokenizer))
    return [_encode(cut, text) for text in texts]


def _encode(cut: Callable[[str], tuple[list[int], _Ranges]], text: str) -> Encoding:
    ids: list[int] = []
    offsets: _Ranges = []
    for match in _STRETCH.finditer(text):
        found, ranges = cut(match[0])
        first = match.start()
        ids.extend(found)
        offsets.extend([(first + start, first + end) for start, end in ranges])
    return Encoding(np.array(ids, np.int32), np.array(offsets, np.int32).reshape(-1, 2))


def _cut(tokenizer: wordpiece.Tokenizer, stretch: str) -> tuple[list[int], _Ranges]:
    """(ids, character ranges) of the characters between white space."""
    ids: list[int] = []
    ranges: _Ranges = []
    for word in _words(stretch, tokenizer.lower_case):
        found, first = tokenizer.ids("".join(letter for letter, _, _ in word)), 0
        for number in found:
            # The token of an unknown word has another length than the word.
            size = len(word) if number == tokenizer.vocabulary.unknown else len(tokenizer.vocabulary.tokens[number])
            last = first + size - (len(wordpiece.CONTINUES) if first else 0)
            ranges.append((word[first][1], word[last - 1][2]))
            first = last
        ids += found
    return ids, ranges


def _words(stretch: str, lower_case: bool) -> list[list[_Letter]]:
    """The words of a stretch, as normalised letters."""
    words: list[list[_Letter]] = []
    for run in _runs(stretch):
        word: list[_Letter] = []
        for letter in _lowered(run) if lower_case else run:
            if wordpiece.is_punctuation(letter[0]):
                words += [word, [letter]]
                word = []
            else:
                word.append(letter)
        words.append(word)
    return [word for word in words if word]


def _runs(stretch: str) -> list[list[_Letter]]:
    """The stretch without control characters, split at CJK characters."""
    runs: list[list[_Letter]] = [[]]
    for index, character in enumerate(stretch):
        cleaned, letter = wordpiece.cleaned_character(character), (character, index, index + 1)
        if cleaned == character:
            runs[-1].append(letter)
        elif cleaned:
            runs += [[letter], []]
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
