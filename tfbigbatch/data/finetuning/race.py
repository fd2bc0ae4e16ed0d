"""RACE as arrays of the texts' pieces, in memory: a passage with each of four answers."""

import re

import numpy as np

from tfbigbatch.data.finetuning import race_passages, text_pairs
from tfbigbatch.data.in_memory.features import Features
from tfbigbatch.errors import InputError, nearest

_BLANK = re.compile("_+")


def load(split, data_dir, tokenizer, *, max_seq_length=512, level="all", questions=0):
    """(Features, levels) of a split.

    The first text is the passage, the second the question with one option: in the question's blank, where it has
    one, and else after it (as in ALBERT's code for RACE, Lan et al. 2020). Of longer pairs the passage is cut, since
    it is the longer text.

    Args:
      split: 'train', 'dev' or 'test'.
      data_dir: RACE's folder or tar file, as race_passages.read takes it.
      tokenizer: wordpiece.Tokenizer.
      max_seq_length: T.
      level: 'middle' or 'high' for the questions of such schools alone, or 'all'.
      questions: how many are taken, evenly spaced; 0: all.

    Returns:
      Features of 'input_word_ids', 'input_mask' and 'input_type_ids', int32 [n, 4, T], whose labels are the right
      options, int32 [n]; and the questions' levels, 'middle' or 'high', an array of [n].

    Raises:
      ValueError: as race_passages.read; max_seq_length is too small; the level is unknown; or there are fewer
        questions.
    """
    questions = _chosen(race_passages.read(data_dir, split), split, level, questions)
    articles = {
        article: np.array(tokenizer.ids(article), np.int32) for article in {question.article for question in questions}
    }
    passages = [articles[question.article] for question in questions for _ in question.options]
    choices = [tokenizer.ids(_filled(question.text, option)) for question in questions for option in question.options]
    packed = text_pairs.pack(tokenizer.vocabulary, passages, choices, max_seq_length)
    shape = (len(questions), len(race_passages.OPTIONS), max_seq_length)
    features = Features(
        {name: array.reshape(shape) for name, array in packed.items()},
        np.array([question.answer for question in questions], np.int32),
        len(race_passages.OPTIONS),
        f"RACE, {split}",
    )
    return features, np.array([question.level for question in questions])


def _chosen(questions, split, level, count):
    levels = ("all", *race_passages.LEVELS)
    if level not in levels:
        raise InputError(f"RACE has no level {level!r}. {nearest(level, levels)}")
    of_level = [question for question in questions if level in ("all", question.level)]
    if not 0 <= count <= len(of_level):
        raise InputError(
            f"{count:,} questions of RACE, {split}, {level}: there are {len(of_level):,}. Give 0 for all, or fewer."
        )
    return [of_level[i * len(of_level) // count] for i in range(count)] if count else of_level


def _filled(question, option):
    # By a function, since an option may hold a backslash.
    filled, blanks = _BLANK.subn(lambda _: option, question)
    return filled if blanks else f"{question} {option}"
