"""BERT's tokens: words cut into the pieces of a vocab.txt, with the characters that each piece covers.

The pieces are those of the reference tokenizer, FullTokenizer of BERT's repository and of tf-models-official
(Devlin et al. 2019, section 3): control characters go, white space and punctuation separate words, each CJK
character is a word, an uncased vocabulary gets lower case without accents, and a word is the longest pieces from
its left, or [UNK] where there are none. Special tokens that stand in a text, as "[SEP]", are text.

Texts repeat themselves, so each stretch without white space is cut once and remembered.
"""

import dataclasses
import functools
import re
import unicodedata

import numpy as np

from tfbigbatch.errors import InputError

_SPECIAL = {"pad": "[PAD]", "unknown": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
# Characters of a word beyond which the reference tokenizer gives [UNK].
_LONGEST_WORD = 400
_REMEMBERED = 1 << 18
# Unicode's spaces (Zs), tab, line feed, carriage return, and the separators of lines and paragraphs.
_STRETCH = re.compile("[^ \t\n\r\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+")
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


@dataclasses.dataclass(frozen=True, eq=False)
class Pieces:
    """A text's pieces.

    Attributes:
      ids: int32 array of [pieces].
      offsets: int32 array of [pieces, 2]: a piece is text[start:end]. Accents that are characters of their own
        belong to the piece of the letter before them.
    """

    ids: np.ndarray
    offsets: np.ndarray

    def __len__(self):
        return len(self.ids)


class WordPiece:
    """A tokenizer.

    Attributes:
      tokens: tuple of the vocabulary's tokens, in the order of their ids.
      pad, unknown, cls, sep, mask: the ids of the special tokens.

    Args:
      vocabulary: path of a vocab.txt, a token a line; a piece inside a word begins with ##.
      lower_case: whether the vocabulary is uncased.

    Raises:
      ValueError: the file cannot be read, holds a token twice, or lacks a special token.
    """

    def __init__(self, vocabulary, *, lower_case=True):
        self._ids = _read(vocabulary)
        self.tokens = tuple(self._ids)
        missing = [token for token in _SPECIAL.values() if token not in self._ids]
        if missing:
            raise InputError(
                f"{vocabulary} lacks {', '.join(missing)}; expected a vocabulary of BERT's form, "
                f"a token a line, with {', '.join(_SPECIAL.values())}."
            )
        self.pad, self.unknown, self.cls, self.sep, self.mask = (self._ids[token] for token in _SPECIAL.values())
        self._lower_case = lower_case
        self._longest_piece = max(map(len, self._ids))
        self._cut = functools.lru_cache(_REMEMBERED)(self._cut_stretch)

    def ids(self, text):
        """The ids of a text's pieces, a list of int."""
        found = []
        for stretch in _STRETCH.findall(text):
            found.extend(self._cut(stretch)[0])
        return found

    def encode(self, texts):
        """The list of the texts' Pieces."""
        return [self._encode(text) for text in texts]

    def _encode(self, text):
        ids, offsets = [], []
        for match in _STRETCH.finditer(text):
            found, ranges = self._cut(match[0])
            first = match.start()
            ids.extend(found)
            offsets.extend([(first + start, first + end) for start, end in ranges])
        return Pieces(np.array(ids, np.int32), np.array(offsets, np.int32).reshape(-1, 2))

    def _cut_stretch(self, stretch):
        """(ids, ranges of characters) of what stands between white space, as tuples."""
        ids, ranges = [], []
        for word in _words(stretch, self._lower_case):
            for number, first, last in self._pieces("".join(letter for letter, _, _ in word)):
                ids.append(number)
                ranges.append((word[first][1], word[last][2]))
        return tuple(ids), tuple(ranges)

    def _pieces(self, word):
        """A list of (id, first and last letter), of the longest pieces from the left."""
        found, start = [], 0
        while start < len(word) <= _LONGEST_WORD:
            prefix = "##" if start else ""
            for end in range(min(len(word), start + self._longest_piece), start, -1):
                number = self._ids.get(prefix + word[start:end])
                if number is not None:
                    found.append((number, start, end - 1))
                    start = end
                    break
            else:
                break
        return found if start == len(word) else [(self.unknown, 0, len(word) - 1)]


def _read(path):
    """Dictionary from the tokens to their ids, in the order of the ids."""
    try:
        with open(path, encoding="utf-8", newline="\n") as file:
            lines = file.read().split("\n")
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}. Expected BERT's vocab.txt.") from None
    except ValueError as error:
        raise InputError(f"{path} is not UTF-8 ({error}). Expected BERT's vocab.txt.") from None
    if lines[-1] == "":
        lines.pop()
    ids = {}
    for number, token in enumerate(map(str.strip, lines)):
        if ids.setdefault(token, number) != number:
            raise InputError(
                f"{path}: line {number + 1} is {token!r} as line {ids[token] + 1}; expected each token once."
            )
    return ids


def _words(stretch, lower_case):
    """The words of a stretch, each a list of (letter, start, end): normalised, and where in the stretch it stood."""
    words = []
    for run in _runs(stretch):
        word = []
        for letter in _lowered(run) if lower_case else run:
            if _is_punctuation(letter[0]):
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
        if character == "\ufffd" or unicodedata.category(character) in ("Cc", "Cf"):
            continue
        letter = (character, index, index + 1)
        if any(first <= ord(character) <= last for first, last in _CJK):
            runs += [[letter], []]
        else:
            runs[-1].append(letter)
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


def _is_punctuation(character):
    """Unicode's punctuation, and ASCII's symbols, which Unicode counts apart."""
    code = ord(character)
    if code < 128:
        return 33 <= code <= 126 and not character.isalnum()
    return unicodedata.category(character).startswith("P")
