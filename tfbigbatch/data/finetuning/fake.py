"""Fake fine-tuning data: the first word of a text determines the label."""

from __future__ import annotations

from typing import Any

import numpy as np

from tfbigbatch.data import tokenizer as wordpiece
from tfbigbatch.data.finetuning import text_pairs
from tfbigbatch.data.finetuning.squad import Question
from tfbigbatch.data.in_memory.arrays import Arrays

MAX_SEQ_LENGTH = 32
_WORDS = tuple(f"word{number}" for number in range(12))
_SIZES = {"train": 64, "test": 20}
_LONGEST = 10
_BEST = 5.0


def tokenizer() -> wordpiece.Tokenizer:
    """A tokenizer of the special tokens and 12 words."""
    return wordpiece.Tokenizer(wordpiece.Vocabulary([*wordpiece.SPECIAL, *_WORDS], "made-up words"))


def pairs(classes: int | None) -> tuple[Arrays, ...]:
    """64 training and 20 test pairs of sentences; the first word is word<class>.

    Args:
      classes: number of them, at most 12; None for similarities from 0 to 5, float32.
    """
    random, made = np.random.RandomState(0), []
    for name, size in _SIZES.items():
        drawn = random.randint(0, classes or len(_WORDS), size)
        firsts = [_sentence(random, first) for first in drawn]
        inputs = _packed(firsts, [_sentence(random) for _ in drawn])
        labels: np.ndarray = drawn if classes else drawn * np.float32(_BEST / (len(_WORDS) - 1))
        labels = labels.astype(np.int32 if classes else np.float32)
        made.append(Arrays(inputs, labels, classes, f"fake texts, {name}"))
    return tuple(made)


def choices(number: int) -> tuple[Arrays, ...]:
    """64 training and 20 test passages with `number` options each; the right option begins with word0."""
    random, made = np.random.RandomState(0), []
    for name, size in _SIZES.items():
        right = random.randint(0, number, size).astype(np.int32)
        passages = [passage for passage in (_sentence(random) for _ in right) for _ in range(number)]
        begins = random.randint(1, len(_WORDS), (size, number))
        begins[np.arange(size), right] = 0
        packed = _packed(passages, [_sentence(random, first) for first in begins.flat])
        shaped = {key: array.reshape(size, number, MAX_SEQ_LENGTH) for key, array in packed.items()}
        made.append(Arrays(shaped, right, number, f"fake texts, {name}"))
    return tuple(made)


def questions(*, no_answer: bool) -> tuple[list[Question], ...]:
    """64 training and 20 test questions in SQuAD's form; the answer to a word is the next word.

    Args:
      no_answer: ask some questions that have no answer, as in v2: a word that is not in the paragraph.
    """
    random, made = np.random.RandomState(0), []
    for name, size in _SIZES.items():
        made.append([_question(random, f"{name}-{number}", no_answer and number % 4 == 0) for number in range(size)])
    return tuple(made)


def _question(random: np.random.RandomState, name: str, impossible: bool) -> Question:
    words = [_WORDS[number] for number in random.permutation(len(_WORDS))]
    *words, absent = words
    context = " ".join(words)
    if impossible:
        return Question(name, absent, context, (), True)
    asked = random.randint(len(words) - 1)
    start = sum(len(word) + 1 for word in words[: asked + 1])
    return Question(name, words[asked], context, ((words[asked + 1], start),))


def _sentence(random: np.random.RandomState, *first: Any) -> list[int]:
    words = random.randint(0, len(_WORDS), random.randint(1, _LONGEST))
    return [len(wordpiece.SPECIAL) + int(word) for word in (*first, *words)]


def _packed(firsts: list[list[int]], seconds: list[list[int]]) -> dict[str, np.ndarray]:
    return text_pairs.pack(tokenizer().vocabulary, firsts, seconds, MAX_SEQ_LENGTH)
