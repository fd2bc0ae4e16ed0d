"""SQuAD's answers from start and end logits.

The rules are those of BERT's run_squad.py (Devlin et al. 2019, sections 4.2 and 4.3), but an answer's text is a slice
of the paragraph by token offsets, where that code aligns two texts.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from tfbigbatch.data.finetuning.squad import Question, Windows
from tfbigbatch.errors import InputError


@dataclasses.dataclass(frozen=True)
class Answers:
    """Decoded answers, by question id.

    Attributes:
      predictions: the answer; empty for no answer.
      no_answer_odds: the score of no answer minus the best answer's; empty without `no_answer`.
    """

    predictions: dict[str, str]
    no_answer_odds: dict[str, float]


def decode(
    windows: Windows,
    start_logits: np.ndarray,
    end_logits: np.ndarray,
    *,
    n_best_size: int = 20,
    max_answer_length: int = 30,
    no_answer: bool = False,
    threshold: float = 0.0,
) -> Answers:
    """The answers to the questions of some windows.

    In each window the `n_best_size` best starts are paired with the `n_best_size` best ends. A pair counts if both are
    in the paragraph, the end is not before the start, the answer is not too long, and the start has its maximum context
    in this window. The pair with the largest sum of logits over all windows of a question wins.

    Args:
      windows: the windows.
      start_logits, end_logits: float [n, T], in the order of the windows.
      n_best_size: starts and ends considered in each window.
      max_answer_length: maximum tokens in an answer.
      no_answer: True if a question may have no answer, as in v2; the score of none is the sum of the logits at [CLS],
        the smallest over the windows.
      threshold: with `no_answer`, a question has no answer where its odds are greater.

    Raises:
      ValueError: the logits are not [n, T] or not finite, or a size is less than 1.
    """
    start_logits, end_logits = (
        _checked(name, logits, windows) for name, logits in (("start", start_logits), ("end", end_logits))
    )
    if n_best_size < 1 or max_answer_length < 1:
        raise InputError(
            f"n_best_size={n_best_size}, max_answer_length={max_answer_length}: expected 1 or more of both."
        )
    last = np.cumsum(np.bincount(windows.question, minlength=len(windows.questions)))
    answers = Answers({}, {})
    for number, question in enumerate(windows.questions):
        rows = range(last[number - 1] if number else 0, last[number])
        found = [
            _of_window(windows, row, start_logits[row], end_logits[row], n_best_size, max_answer_length) for row in rows
        ]
        text, score = _best(question, np.concatenate([np.zeros((0, 3)), *found]), windows.offsets[number])
        if no_answer:
            none = min((float(start_logits[row, 0] + end_logits[row, 0]) for row in rows), default=0.0)
            answers.no_answer_odds[question.id] = none - score
            text = "" if none - score > threshold else text
        answers.predictions[question.id] = text
    return answers


def _of_window(
    windows: Windows, row: int, starts: np.ndarray, ends: np.ndarray, n_best_size: int, max_answer_length: int
) -> np.ndarray:
    """float64 [pairs, 3]: first and last token in the paragraph, and the sum of the logits, of the valid pairs."""
    # Stable: the earlier of equal logits wins.
    start, end = (np.argsort(-logits, kind="stable")[:n_best_size] for logits in (starts, ends))
    first = windows.first_position[row]
    start = start[windows.most_context[row, start]]
    end = end[(end >= first) & (end < first + windows.tokens[row])]
    length = end[np.newaxis] - start[:, np.newaxis] + 1
    one, other = np.nonzero((length >= 1) & (length <= max_answer_length))
    start, end = start[one], end[other]
    to_token = windows.first_token[row] - first
    return np.stack([start + to_token, end + to_token, starts[start] + ends[end]], axis=1).astype(np.float64)


def _best(question: Question, candidates: np.ndarray, offsets: np.ndarray) -> tuple[str, float]:
    """The text and the score of the best candidate with a text, the first of equal ones; ('', 0) if there is none."""
    for first, last, score in candidates[np.argsort(-candidates[:, 2], kind="stable")]:
        text = question.context[offsets[int(first), 0] : offsets[int(last), 1]]
        if text:
            return text, float(score)
    return "", 0.0


def _checked(name: str, logits: np.ndarray, windows: Windows) -> np.ndarray:
    logits, expected = np.asarray(logits, np.float64), windows.most_context.shape
    if logits.shape != expected:
        raise InputError(
            f"{name} logits of {list(logits.shape)}; expected {list(expected)}, one row per window, in order."
        )
    wrong = np.flatnonzero(~np.isfinite(logits).all(axis=1))
    if wrong.size:
        raise InputError(f"the {name} logits of window {wrong[0]} are not finite ({wrong.size} such windows).")
    return logits
