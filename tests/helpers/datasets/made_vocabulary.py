"""A small vocabulary of BERT's form for the tests."""

from tfbigbatch.data.tokenizer import SPECIAL, Tokenizer, Vocabulary


def write(path, words):
    """Writes the special tokens, the words, and all ASCII letters, digits and signs as words and as inner pieces."""
    signs = [chr(code) for code in range(33, 127) if not chr(code).isupper()]
    tokens = dict.fromkeys([*SPECIAL, *words, *signs, *(f"##{sign}" for sign in signs)])
    path.write_text("".join(f"{token}\n" for token in tokens), encoding="utf-8")
    return str(path)


def tokenizer(path, words=()):
    """The tokenizer of such a vocabulary."""
    return Tokenizer(Vocabulary.load(write(path, words)))
