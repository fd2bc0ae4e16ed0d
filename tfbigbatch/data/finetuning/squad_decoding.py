"""Answers to SQuAD's questions from the logits of where they start and end.

The rules are those of BERT's reference code (run_squad.py; Devlin et al. 2019, sections 4.2 and 4.3); but an
answer is cut out of the paragraph by its pieces' characters, where that code aligns two texts.
"""

import dataclasses

import numpy as np

from tfbigbatch.errors import InputError


@dataclasses.dataclass(frozen=True)
class Answers:
    """What was decoded.

    Attributes:
      predictions: dictionary from the questions' ids to texts; empty for no answer.
      n_best: dictionary from the ids to lists of the best answers, best first, each a dictionary of 'text',
        'probability' (among these), 'start_logit' and 'end_logit'.
      no_answer_odds: with `no_answer`, dictionary from the ids to the score of no answer less that of the best
        answer; else empty.
    """

    predictions: dict
    n_best: dict
    no_answer_odds: dict


def decode(windows, start_logits, end_logits, *, n_best_size=20, max_answer_length=30, no_answer=False, threshold=0.0):
    """The Answers to the questions of windows.

    In each window the `n_best_size` best starts meet the `n_best_size` best ends. A pair counts where both lie in
    the paragraph, the end is not before the start, the answer is not too long, and the start has no more context in
    another window of the question. Of all its windows' pairs the one with the greatest sum of logits wins.

    Args:
      windows: squad.Windows.
      start_logits, end_logits: float arrays of [n, T], in the order of the windows.
      n_best_size: starts and ends that are looked at in each window, and answers that are kept.
      max_answer_length: pieces in an answer at most.
      no_answer: whether a question may have none, as in v2; its score is the sum of the logits at [CLS], the
        smallest of all windows.
      threshold: with `no_answer`, a question has none where its odds of no answer are greater.

    Raises:
      ValueError: the logits are not of [n, T] or not finite, or a size is less than 1.
    """
    start_logits, end_logits = (
        _checked(name, logits, windows) for name, logits in (("start", start_logits), ("end", end_logits))
    )
    if n_best_size < 1 or max_answer_length < 1:
        raise InputError(
            f"n_best_size={n_best_size}, max_answer_length={max_answer_length}: expected 1 or more of both."
        )
    last = np.cumsum(np.bincount(windows.question, minlength=len(windows.questions)))
    answers = Answers({}, {}, {})
    for number, question in enumerate(windows.questions):
        rows = range(last[number - 1] if number else 0, last[number])
        found = [
            _of_window(windows, row, start_logits[row], end_logits[row], n_best_size, max_answer_length) for row in rows
        ]
        candidates = np.concatenate([np.zeros((0, 4)), *found])
        null = _null(rows, start_logits, end_logits) if no_answer else None
        kept = _best(question, candidates, windows.offsets[number], null, n_best_size)
        answers.n_best[question.id] = _with_probabilities(kept)
        best = next((entry for entry in kept if entry[0]), None)
        text = best[0] if best else ""
        if no_answer:
            odds = sum(null) - (best[1] + best[2] if best else 0.0)
            answers.no_answer_odds[question.id] = odds
            text = "" if odds > threshold else text
        answers.predictions[question.id] = text
    return answers


def _of_window(windows, row, starts, ends, n_best_size, max_answer_length):
    """float64 [pairs, 4] of the pairs that count: first and last piece of the paragraph, and the two logits."""
    # Stable, so that of equal logits the earlier position wins.
    start, end = (np.argsort(-logits, kind="stable")[:n_best_size] for logits in (starts, ends))
    first = windows.first_position[row]
    start = start[windows.most_context[row, start]]
    end = end[(end >= first) & (end < first + windows.pieces[row])]
    length = end[np.newaxis] - start[:, np.newaxis] + 1
    one, other = np.nonzero((length >= 1) & (length <= max_answer_length))
    start, end = start[one], end[other]
    to_piece = windows.first_piece[row] - first
    return np.stack([start + to_piece, end + to_piece, starts[start], ends[end]], axis=1).astype(np.float64)


def _null(rows, start_logits, end_logits):
    """The logits of no answer (start, end), of the window where their sum is the smallest."""
    if not rows:
        return 0.0, 0.0
    row = min(rows, key=lambda row: start_logits[row, 0] + end_logits[row, 0])
    return float(start_logits[row, 0]), float(end_logits[row, 0])


def _best(question, candidates, offsets, null, n_best_size):
    """List of (text, start logit, end logit), the best first, each text once; with `null` also that of no answer."""
    if null is not None:
        candidates = np.concatenate([candidates, [[-1, -1, *null]]])
    kept, seen = [], set()
    for place in np.argsort(-(candidates[:, 2] + candidates[:, 3]), kind="stable"):
        if len(kept) == n_best_size:
            break
        first, last, start_logit, end_logit = candidates[place].tolist()
        text = "" if first < 0 else question.context[offsets[int(first), 0] : offsets[int(last), 1]]
        if text not in seen:
            seen.add(text)
            kept.append((text, start_logit, end_logit))
    if null is not None and "" not in seen:
        kept.append(("", *null))
    return kept


def _with_probabilities(kept):
    scores = np.array([start + end for _, start, end in kept])
    weights = np.exp(scores - scores.max()) if kept else scores
    return [
        {"text": text, "probability": float(weight), "start_logit": start, "end_logit": end}
        for (text, start, end), weight in zip(kept, weights / weights.sum() if kept else [])
    ]


def _checked(name, logits, windows):
    logits, expected = np.asarray(logits, np.float64), windows.most_context.shape
    if logits.shape != expected:
        raise InputError(
            f"{name} logits of {list(logits.shape)}; expected {list(expected)}, a row for each window in its order."
        )
    wrong = np.flatnonzero(~np.isfinite(logits).all(axis=1))
    if wrong.size:
        raise InputError(f"the {name} logits of window {wrong[0]} are not finite ({wrong.size} such windows).")
    return logits
