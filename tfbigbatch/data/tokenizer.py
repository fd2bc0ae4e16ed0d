"""WordPiece tokens of a text: the ids that BERT's own tokenizer gives, a hundred times as fast.

The rules are those of google-research/bert's tokenization.py, as tf-models-official's FullTokenizer has them:
control characters are dropped, CJK characters stand alone, words are lower-cased and lose their accents where
the vocabulary is uncased, punctuation stands alone, and a word is cut into the longest pieces of the
vocabulary from its left. Each rule looks at a character or at a word that white space bounds, never beyond.
So what such a word becomes is worked out once and then looked up. Nothing here needs TensorFlow.
"""

import functools
import itertools
import re
import unicodedata

from tfbigbatch.errors import InputError

PADDING, UNKNOWN, CLASSIFY, SEPARATE, MASK = "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"
SPECIAL = (PADDING, UNKNOWN, CLASSIFY, SEPARATE, MASK)
CONTINUES = "##"
# Words that are longer are unknown: the limit of tf-models-official; the `tokenizers` package has 100.
LONGEST_WORD = 400
# A full memory is emptied, so that it does not grow with the corpus.
_REMEMBERED, _LONGEST_REMEMBERED = 1 << 18, 64
# Python's split() would cut at these control characters; BERT drops them, and what is beside them is one word.
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
    """The tokens of a model, by number.

    Args:
      tokens: in the order of their ids; of a token that is there twice the later id counts.
      source: where they come from, for errors.

    Attributes:
      tokens: tuple of them.
      padding, unknown, classify, separate, mask: the ids of the special tokens.

    Raises:
      ValueError: a special token is missing, or [PAD] is not the first.
    """

    def __init__(self, tokens, source="the vocabulary"):
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
    def load(cls, path):
        """The Vocabulary of a vocab.txt, a token a line.

        Raises:
          ValueError: it cannot be read, or is not one.
        """
        try:
            # The universal newlines would also break a line at a lone carriage return, which shifts all ids.
            with open(path, encoding="utf-8", newline="\n") as file:
                return cls([line.strip() for line in file], path)
        except (OSError, ValueError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"--vocab_file={path} cannot be read: {error}.") from None

    def __len__(self):
        return len(self.tokens)

    def get(self, token):
        """The id of a token; None where there is none."""
        return self._ids.get(token)

    @property
    def continues(self):
        """List of bool: whether the token goes on with a word that another began."""
        return [token.startswith(CONTINUES) for token in self.tokens]


class Tokenizer:
    """Turns text into ids.

    Args:
      vocabulary: Vocabulary.
      lower_case: whether words are lower-cased and lose their accents, as for BERT's uncased models.
    """

    def __init__(self, vocabulary, lower_case=True):
        self.vocabulary, self.lower_case = vocabulary, lower_case
        self._known = _Words(self._ids_of_word)

    def ids(self, text):
        """The ids of a text, as a list; without [CLS] or [SEP]."""
        if _DROPPED_SPACES.search(text):
            text = _DROPPED_SPACES.sub("", text)
        return list(itertools.chain.from_iterable(map(self._known.__getitem__, text.split())))

    def _ids_of_word(self, word):
        """What becomes of the characters between two white spaces; a tuple of ids."""
        found = []
        for part in _cleaned(word).split():
            if self.lower_case:
                part = _without_accents(part.lower())
            for piece in _apart(part):
                found += self._pieces(piece)
        return tuple(found)

    def _pieces(self, word):
        """The longest tokens from the left, or [UNK] where they do not cover the word."""
        if len(word) > LONGEST_WORD:
            return [self.vocabulary.unknown]
        found, start = [], 0
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


def normalised(text, lower_case):
    """A text's characters as words have them, without any white space; a str."""
    text = "".join(_cleaned(text).split())
    return _without_accents(text.lower()) if lower_case else text


def parts(word):
    """The words between two white spaces of a text: punctuation and CJK characters stand alone."""
    return [piece for part in _cleaned(word).split() for piece in _apart(part)]


class _Words(dict):
    """Remembers what a function gave for a word."""

    def __init__(self, function):
        super().__init__()
        self._function = function

    def __missing__(self, word):
        found = self._function(word)
        if len(word) <= _LONGEST_REMEMBERED:
            if len(self) >= _REMEMBERED:
                self.clear()
            self[word] = found
        return found


def _cleaned(word):
    """Without control characters, with spaces for the rarer spaces, and with CJK characters apart."""
    if word.isascii() and word.isprintable():
        return word
    return "".join(map(cleaned_character, word))


@functools.lru_cache(1 << 16)
def cleaned_character(character):
    """The character; nothing for a control character, a space for a rarer one, and a CJK character between spaces."""
    code, category = ord(character), unicodedata.category(character)
    if code in (0, 0xFFFD) or category in ("Cc", "Cf"):
        return ""
    if category == "Zs":
        return " "
    return f" {character} " if any(first <= code <= last for first, last in _CJK) else character


def _without_accents(word):
    if word.isascii():
        return word
    return "".join(c for c in unicodedata.normalize("NFD", word) if unicodedata.category(c) != "Mn")


def _apart(word):
    """The words in a word, with each punctuation character a word of its own."""
    if word.isalnum() and word.isascii():
        return [word]
    # An accent's removal may leave a space behind; it bounds words too.
    return "".join(f" {c} " if is_punctuation(c) else c for c in word).split()


@functools.lru_cache(1 << 16)
def is_punctuation(character):
    """Whether a character stands alone."""
    # All ASCII that is neither letter, digit, space nor control counts, also "$", "^" and "`".
    if character.isascii():
        return character.isprintable() and not character.isalnum() and character != " "
    return unicodedata.category(character).startswith("P")
