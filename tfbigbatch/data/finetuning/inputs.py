"""GLUE, RACE and SQuAD as BERT's inputs: examples in memory, of 'input_word_ids', 'input_mask' and 'input_type_ids'."""

from __future__ import annotations

import numpy as np
from absl import logging

from tfbigbatch.data.finetuning import glue, race, squad, text_pairs
from tfbigbatch.data.in_memory.arrays import Arrays
from tfbigbatch.data.tokenizer import Tokenizer
from tfbigbatch.errors import InputError

# Bad rows and lost answers that a log names.
_SHOWN = 5


def of_glue(name: str, split: str, data_dir: str | None, tokenizer: Tokenizer, *, max_seq_length: int = 128) -> Arrays:
    """A split of a task of GLUE. Rows left out are logged.

    Args:
      name: task, as 'MRPC'.
      split: 'train', 'dev' or 'test'; for MNLI also 'dev_matched', 'dev_mismatched', 'test_matched', ...
      data_dir: GLUE's folder.
      tokenizer: WordPiece tokenizer.
      max_seq_length: T; the longer text of a row is cut first.

    Returns:
      Arrays, int32 [n, T]. Labels are [n]: int32 class numbers, or for STS-B float32 from 0 to 5; all -1, or NaN,
      where the test set has none.

    Raises:
      ValueError: as `glue.read`; or max_seq_length is too small.
    """
    rows, source = glue.read(data_dir, name, split), glue.path(data_dir, name, split)
    _log(source, "rows", len(rows.texts) + len(rows.bad), rows.bad)
    firsts, *seconds = ([tokenizer.ids(text) for text in texts] for texts in zip(*rows.texts))
    packed = text_pairs.pack(tokenizer.vocabulary, firsts, seconds[0] if seconds else None, max_seq_length)
    classes = glue.TASKS[name].classes
    dtype, unknown = (np.float32, np.nan) if classes is None else (np.int32, -1)
    labels = np.full(len(rows.texts), unknown, dtype) if rows.labels is None else np.array(rows.labels, dtype)
    return Arrays(packed, labels, None if classes is None else len(classes), source)


def of_race(
    split: str,
    data_dir: str | None,
    tokenizer: Tokenizer,
    *,
    max_seq_length: int = 512,
    level: str = "all",
    questions: int = 0,
) -> tuple[Arrays, np.ndarray]:
    """A split of RACE, and the level of each question.

    The first text is the passage; the second is the question with one option, which fills the question's blank or else
    follows it (as ALBERT's code does, Lan et al. 2020). Longer pairs lose the end of the passage.

    Args:
      split: 'train', 'dev' or 'test'.
      data_dir: `source` of `race.read`.
      tokenizer: WordPiece tokenizer.
      max_seq_length: T.
      level: 'middle', 'high' or 'all'.
      questions: how many to take, evenly spaced; 0: all.

    Returns:
      Arrays, int32 [n, 4, T], labelled with the right option, int32 [n]; and the levels, an array of [n] texts.

    Raises:
      ValueError: as `race.read`; max_seq_length is too small; or there are fewer questions.
    """
    chosen = race.read(data_dir, split, level)
    if not 0 <= questions <= len(chosen):
        raise InputError(
            f"{questions:,} questions of RACE, {split}, {level}: there are {len(chosen):,}. Give 0 for all, or fewer."
        )
    if questions:
        chosen = [chosen[number * len(chosen) // questions] for number in range(questions)]
    articles = {article: np.array(tokenizer.ids(article), np.int32) for article in {each.article for each in chosen}}
    passages = [articles[question.article] for question in chosen for _ in question.options]
    choices = [tokenizer.ids(question.filled(option)) for question in chosen for option in question.options]
    packed = text_pairs.pack(tokenizer.vocabulary, passages, choices, max_seq_length)
    shape = (len(chosen), len(race.OPTIONS), max_seq_length)
    inputs = {name: array.reshape(shape) for name, array in packed.items()}
    answers = np.array([question.answer for question in chosen], np.int32)
    levels = np.array([question.level for question in chosen])
    return Arrays(inputs, answers, len(race.OPTIONS), f"RACE, {split}"), levels


def to_train(windows: squad.Windows, source: str) -> Arrays:
    """The windows of SQuAD with a known answer; labels are 'start_positions' and 'end_positions'.

    The other questions are left out; those whose answer is not where the file says are logged.

    Raises:
      ValueError: no answer is known.
    """
    known = np.flatnonzero(windows.start_positions != squad.UNKNOWN)
    if len(windows) and not len(known):
        raise InputError(
            f"{source}: no question is left to train on; expected 'answer_start' to be the place of the answer in "
            "'context', counted in characters from 0."
        )
    bad = tuple(f"question {each!r}: the answer is not where the file says" for each in windows.lost)
    _log(source, "questions", len(windows.questions), bad)
    return _features(windows, known, source)


def to_evaluate(windows: squad.Windows, source: str) -> Arrays:
    """All windows of SQuAD in order, as `squad.decode` expects their logits."""
    return _features(windows, np.arange(len(windows)), source)


def _features(windows: squad.Windows, chosen: np.ndarray, source: str) -> Arrays:
    labels = {name: getattr(windows, name)[chosen] for name in ("start_positions", "end_positions")}
    inputs = {name: array[chosen] for name, array in windows.inputs.items()}
    return Arrays(inputs, labels, inputs["input_word_ids"].shape[1], source)


def _log(source: str, unit: str, count: int, bad: tuple[str, ...]) -> None:
    """Logs the first of what was bad, and how many of all were."""
    for words in bad[:_SHOWN]:
        logging.warning("%s: left out %s", source, words)
    if bad:
        logging.warning("%s: %d of %d %s left out", source, len(bad), count, unit)
