"""The tokens of texts, with the characters that each covers."""

import dataclasses
import functools
import re
import unicodedata

import numpy as np

from tfbigbatch.data import tokenizer as wordpiece

# Unicode's spaces (Zs), tab, line feed, carriage return, and the separators of lines and paragraphs.
_STRETCH = re.compile("[^ \t\n\r\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+")
_REMEMBERED = 1 << 18


@dataclasses.dataclass(frozen=True, eq=False)
class Pieces:
    """A text's tokens.

    Attributes:
      ids: int32 array of [tokens], those of Tokenizer.ids.
      offsets: int32 array of [tokens, 2]: a token is text[start:end]. Accents that are characters of their own belong
        to the token of the letter before them.
    """

    ids: np.ndarray
    offsets: np.ndarray

    def __len__(self):
        return len(self.ids)


def encode(tokenizer, texts):
    """The list of the texts' Pieces.

    Args:
      tokenizer: wordpiece.Tokenizer.
      texts: list of texts.
    """
    # Texts repeat their words, so what stands between white space is cut once.
    cut = functools.lru_cache(_REMEMBERED)(functools.partial(_cut, tokenizer))
    return [_encode(cut, text) for text in texts]


def _encode(cut, text):
    ids, offsets = [], []
    for match in _STRETCH.finditer(text):
        found, ranges = cut(match[0])
        first = match.start()
        ids.extend(found)
        offsets.extend([(first + start, first + end) for start, end in ranges])
    return Pieces(np.array(ids, np.int32), np.array(offsets, np.int32).reshape(-1, 2))


def _cut(tokenizer, stretch):
    """(ids, ranges of characters) of what stands between white space."""
    ids, ranges = [], []
    for word in _words(stretch, tokenizer.lower_case):
        found, first = tokenizer.ids("".join(letter for letter, _, _ in word)), 0
        for number in found:
            # Only an unknown word is one token of another length.
            size = len(word) if number == tokenizer.vocabulary.unknown else len(tokenizer.vocabulary.tokens[number])
            last = first + size - (len(wordpiece.CONTINUES) if first else 0)
            ranges.append((word[first][1], word[last - 1][2]))
            first = last
        ids += found
    return ids, ranges


def _words(stretch, lower_case):
    """The words of a stretch, each a list of (letter, start, end): normalised, and where in the stretch it stood."""
    words = []
    for run in _runs(stretch):
        word = []
        for letter in _lowered(run) if lower_case else run:
            if wordpiece.is_punctuation(letter[0]):
                words += [word, [letter]]
                word = []
            else:
                word.append(letter)
        words.append(word)
    return [word for word in words if word]


def _runs(stretch):
    """The stretch without control characters and cut at CJK characters, as lists of (character, start, end)."""
    runs = [[]]
    for index, character in enumerate(stretch):
        cleaned, letter = wordpiece.cleaned_character(character), (character, index, index + 1)
        if cleaned == character:
            runs[-1].append(letter)
        elif cleaned:
            runs += [[letter], []]
    return [run for run in runs if run]


def _lowered(run):
    """The letters in lower case and without accents."""
    # As a whole, since a sigma's lower case depends on its place; one character may become several.
    lower = iter("".join(character for character, _, _ in run).lower())
    letters = []
    for character, start, end in run:
        small = "".join(next(lower) for _ in character.lower())
        for part in unicodedata.normalize("NFD", small):
            if unicodedata.category(part) != "Mn":
                letters.append((part, start, end))
            elif letters:
                letters[-1] = (*letters[-1][:2], end)
    return letters
