"""SQuAD's scores, by the rules of the official scripts evaluate-v1.1.py and evaluate-v2.0.py.

Sources: Rajpurkar et al. 2016, section 6.1 (exact match and F1); Rajpurkar, Jia and Liang 2018, section 5
(questions without an answer). All scores are in percent. A question without a prediction counts 0, as in the
script of v1.1; that of v2 leaves it out.
"""

from __future__ import annotations

import collections
import re
import string
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from tfbigbatch.errors import InputError

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalised(text: str) -> str:
    """An answer without case, ASCII punctuation, English articles and extra white space."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_WITHOUT_PUNCTUATION)).split())


def scores(
    answers: Mapping[str, Sequence[str]],
    predictions: Mapping[str, str],
    *,
    no_answer: bool = False,
    odds: Mapping[str, float] | None = None,
) -> dict[str, float]:
    """The best match of each question's answers, averaged over all questions.

    Args:
      answers: for each question's id, the texts of its answers; empty where there is none, as in v2.
      predictions: for each question's id, the predicted text; in v2 empty for a question without an answer.
      no_answer: score by the rules of v2.
      odds: v2: for each question's id, a number that increases with the probability of no answer; or None.

    Returns:
      'exact_match' and 'f1' in percent; 'total', the number of questions; 'unanswered', the number of those without
      a prediction, which count 0. In v2 the first three also with the prefixes 'has_answer_' and 'no_answer_', over the
      questions of either kind, where there are any; with `odds` also 'best_exact_match' and 'best_f1', at the best
      thresholds for these questions, and the thresholds, 'best_exact_match_threshold' and 'best_f1_threshold'. The
      script names them exact, HasAns_exact, NoAns_exact, best_exact and best_exact_thresh, and so on. Like the script,
      the search for the best threshold takes equal odds one at a time, in their order.

    Raises:
      ValueError: there is no question; one has no answer, by the rules of v1.1; a prediction is not a text; the
        predictions are of other questions; or a predicted question is missing from `odds`.
    """
    _check(answers, predictions, no_answer, odds)
    exact: dict[str, float] = {}
    overlap: dict[str, float] = {}
    for question, texts in answers.items():
        if question in predictions:
            # By v2's rule an answer of only articles and punctuation is none.
            texts = [text for text in texts if normalised(text)] or [""] if no_answer else texts
            exact[question] = float(normalised(predictions[question]) in map(normalised, texts))
            overlap[question] = max(_f1(predictions[question], text, no_answer) for text in texts)
    unanswered = len(answers) - len(exact)
    if not no_answer:
        return {**_means(exact, overlap, answers), "unanswered": unanswered}
    result: dict[str, float] = {**_means(exact, overlap, answers), "unanswered": unanswered}
    for name, wanted in (("has_answer_", True), ("no_answer_", False)):
        some = [question for question in answers if bool(answers[question]) == wanted]
        if some:
            result |= {name + key: value for key, value in _means(exact, overlap, some).items()}
    if odds is not None:
        for name, each in (("exact_match", exact), ("f1", overlap)):
            result[f"best_{name}"], result[f"best_{name}_threshold"] = _best(each, answers, predictions, odds)
    return result


def _f1(predicted: str, answer: str, no_answer: bool) -> float:
    """F1 of the two bags of words; 0 where either is empty, but 1 in v2 where both are."""
    words, expected = normalised(predicted).split(), normalised(answer).split()
    if no_answer and not (words and expected):
        return float(words == expected)
    common = sum((collections.Counter(words) & collections.Counter(expected)).values())
    if common == 0:
        return 0.0
    precision, recall = common / len(words), common / len(expected)
    return 2 * precision * recall / (precision + recall)


def _means(exact: Mapping[str, float], overlap: Mapping[str, float], questions: Collection[str]) -> dict[str, float]:
    named = (("exact_match", exact), ("f1", overlap))
    means = {name: 100.0 * sum(each.get(question, 0.0) for question in questions) for name, each in named}
    return {**{name: total / len(questions) for name, total in means.items()}, "total": len(questions)}


def _best(
    scored: Mapping[str, float],
    answers: Mapping[str, Sequence[str]],
    predictions: Mapping[str, str],
    odds: Mapping[str, float],
) -> tuple[float, float]:
    """(best score in percent, its threshold), from all predictions empty to all as predicted."""
    score = best = float(sum(not answers[question] for question in scored))
    threshold = 0.0
    # In the order of `odds`, where these are equal.
    for question in sorted((q for q in odds if q in scored), key=lambda q: odds[q]):
        if answers[question]:
            score += scored[question]
        elif predictions[question]:
            score -= 1
        if score > best:
            best, threshold = score, odds[question]
    return 100.0 * best / len(answers), threshold


def _check(
    answers: Mapping[str, Sequence[str]],
    predictions: Mapping[str, Any],
    no_answer: bool,
    odds: Mapping[str, Any] | None,
) -> None:
    if not answers:
        raise InputError("the data hold no question.")
    nothing = [question for question, texts in answers.items() if not texts]
    if nothing and not no_answer:
        raise InputError(
            f"question {nothing[0]!r} has no answer ({len(nothing)} such questions), so these are data of SQuAD v2: "
            "score them by the rules of v2."
        )
    if not any(question in predictions for question in answers):
        raise InputError(
            f"none of the {len(predictions)} predictions is of one of the {len(answers)} questions: "
            f"expected ids such as {next(iter(answers))!r}. The two files do not belong together."
        )
    for question, predicted in predictions.items():
        if not isinstance(predicted, str):
            raise InputError(f"the prediction for {question!r} is {predicted!r}; expected a text.")
        number = 0.0 if odds is None or question not in answers else odds.get(question)
        # Only NaN differs from itself; math.isnan fails for large integers, which JSON may hold.
        if isinstance(number, bool) or not isinstance(number, (int, float)) or number != number:
            raise InputError(f"the odds of no answer of {question!r} are {str(number)[:60]}; expected a number.")
