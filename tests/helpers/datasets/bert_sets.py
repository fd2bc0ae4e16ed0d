"""Small corpora and vocabularies, made up for the tests."""

import random

from tfbigbatch.data import tokenizer
from tfbigbatch.data.bert.prepare import prepare
from tfbigbatch.data.bert.prepare.prepare import Options

WORDS = ("the", "cat", "dog", "sat", "ran", "to", "big", "house", "red", "sun", "fish", "tree", "boat", "man", "end")
PIECES = ("##s", "##ing", "##er", "un", "play", "walk", "##able", "##ed")
TOKENS = (*tokenizer.SPECIAL, *WORDS, *PIECES, *".,!?-'", *"abcdefghijklmnopqrstuvwxyz")


def write_vocabulary(folder, tokens=TOKENS):
    """Writes vocab.txt; gives its path."""
    path = folder / "given_vocab.txt"
    path.write_text("".join(f"{token}\n" for token in tokens), encoding="utf-8")
    return str(path)


def sentence(choices):
    """A sentence of 3 to 14 words, some of several pieces."""
    words = [
        choices.choice(WORDS + ("walking", "player", "unplayable", "walked")) for _ in range(choices.randint(3, 14))
    ]
    return " ".join(words) + "."


def document(number, sentences=None):
    """The sentences of document `number`."""
    choices = random.Random(number)
    return [sentence(choices) for _ in range(sentences or choices.randint(1, 20))]


def plain(count, first=0):
    """A text of `count` documents, a sentence a line."""
    return "\n\n".join("\n".join(document(number)) for number in range(first, first + count)) + "\n"


def prepared(folder, text, *, name="out", processes=1, validation_fraction=0.0, **settings):
    """A prepared set of a text; (its folder, what the manifest says, whether it was there)."""
    source = folder / "text.txt"
    source.write_text(text, encoding="utf-8")
    options = Options(
        **{"max_seq_length": 32, "max_predictions_per_seq": 5, **settings},
        vocab_file=write_vocabulary(folder),
        validation_fraction=validation_fraction,
        processes=processes,
    )
    return str(folder / name), *prepare.prepare(str(source), str(folder / name), options)
