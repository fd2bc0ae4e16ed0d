"""SQuAD's scores, by the rules of the official scripts evaluate-v1.1.py and evaluate-v2.0.py.

Sources: Rajpurkar et al. 2016, section 6.1 (exact match and F1); Rajpurkar, Jia and Liang 2018, section 5
(questions without an answer). All scores are in percent. A question without a prediction counts 0, as in the
script of v1.1; that of v2 leaves such a question out.
"""

import collections
import math
import re
import string

from tfbigbatch.errors import InputError

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalised(text):
    """An answer without case, ASCII punctuation, English articles and surplus white space."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_WITHOUT_PUNCTUATION)).split())


def scores(answers, predictions):
    """The scores of v1.1: the best of a question's answers counts, and the mean is over all questions.

    Args:
      answers: dictionary from a question's id to the list of its answers' texts, one at least.
      predictions: dictionary from a question's id to the predicted text.

    Returns:
      Dictionary: 'exact_match' and 'f1' in percent; 'total', the questions; 'unanswered', those of them without
      a prediction, which count 0.

    Raises:
      ValueError: there is no question; one has no answer, as in v2; a prediction is no text; or the predictions
        are of other questions.
    """
    _check(answers, predictions)
    nothing = [question for question, texts in answers.items() if not texts]
    if nothing:
        raise InputError(
            f"question {nothing[0]!r} has no answer ({len(nothing)} such questions), so these are data of SQuAD v2: "
            "score them by the rules of v2."
        )
    exact, overlap = {}, {}
    for question, texts in answers.items():
        if question in predictions:
            predicted = predictions[question]
            exact[question] = max(_exact(predicted, text) for text in texts)
            overlap[question] = max(_f1(predicted, text) for text in texts)
    return {**_means(exact, overlap, answers), "unanswered": len(answers) - len(exact)}


def scores_with_no_answer(answers, predictions, no_answer_odds=None, threshold=math.inf):
    """The scores of v2, in which the right prediction for a question without an answer is the empty text.

    Args:
      answers: dictionary from a question's id to the list of its answers' texts; empty where there is none.
      predictions: dictionary from a question's id to the predicted text.
      no_answer_odds: dictionary from a question's id to a number that is the greater, the likelier it has no
        answer; or None.
      threshold: a prediction counts as the empty text where its number in `no_answer_odds` is greater. The script
        has 1.0, which for probabilities changes nothing either.

    Returns:
      Dictionary: 'exact_match', 'f1', 'total' and 'unanswered' as those of `scores`; the first three again with
      'has_answer_' and 'no_answer_' before them, over the questions of either kind, where there are any; and
      with `no_answer_odds` also 'best_exact_match' and 'best_f1', at the best thresholds for just these
      questions, which are 'best_exact_match_threshold' and 'best_f1_threshold'. The script names them exact,
      HasAns_exact, NoAns_exact, best_exact and best_exact_thresh, and so on. Like the script, the search for
      the best threshold takes equal odds one by one, in their order.

    Raises:
      ValueError: there is no question; a prediction is no text; the predictions are of other questions; or a
        predicted question is missing from `no_answer_odds`.
    """
    _check(answers, predictions)
    exact, overlap = {}, {}
    for question, texts in answers.items():
        if question in predictions:
            # An answer of articles and punctuation alone is none by the script's rule.
            texts = [text for text in texts if normalised(text)] or [""]
            predicted = predictions[question]
            exact[question] = max(_exact(predicted, text) for text in texts)
            overlap[question] = max(_f1_with_no_answer(predicted, text) for text in texts)
    if no_answer_odds is not None:
        _check_odds(no_answer_odds, exact)
    held = no_answer_odds or {}
    counted = [
        {q: float(not answers[q]) if q in held and held[q] > threshold else score for q, score in each.items()}
        for each in (exact, overlap)
    ]
    result = {**_means(*counted, answers), "unanswered": len(answers) - len(exact)}
    for name, wanted in (("has_answer_", True), ("no_answer_", False)):
        some = [question for question in answers if bool(answers[question]) == wanted]
        if some:
            result |= {name + key: value for key, value in _means(*counted, some).items()}
    if no_answer_odds is not None:
        for name, each in (("exact_match", exact), ("f1", overlap)):
            best = _best_threshold(each, answers, predictions, no_answer_odds)
            result[f"best_{name}"], result[f"best_{name}_threshold"] = best
    return result


def _exact(predicted, answer):
    return float(normalised(predicted) == normalised(answer))


def _f1(predicted, answer):
    """F1 of the two bags of words; 0 where either is empty."""
    predicted, answer = normalised(predicted).split(), normalised(answer).split()
    common = sum((collections.Counter(predicted) & collections.Counter(answer)).values())
    if common == 0:
        return 0.0
    precision, recall = common / len(predicted), common / len(answer)
    return 2 * precision * recall / (precision + recall)


def _f1_with_no_answer(predicted, answer):
    """The same, but 1 where both are empty."""
    if not (normalised(predicted) and normalised(answer)):
        return _exact(predicted, answer)
    return _f1(predicted, answer)


def _means(exact, overlap, questions):
    total = len(questions)
    return {
        "exact_match": 100.0 * sum(exact.get(question, 0.0) for question in questions) / total,
        "f1": 100.0 * sum(overlap.get(question, 0.0) for question in questions) / total,
        "total": total,
    }


def _best_threshold(scored, answers, predictions, no_answer_odds):
    """(best score in percent, its threshold), from all questions empty to all as predicted."""
    score = best = float(sum(not answers[question] for question in scored))
    threshold = 0.0
    for question in sorted((q for q in no_answer_odds if q in scored), key=no_answer_odds.get):
        if answers[question]:
            score += scored[question]
        elif predictions[question]:
            score -= 1
        if score > best:
            best, threshold = score, no_answer_odds[question]
    return 100.0 * best / len(answers), threshold


def _check(answers, predictions):
    if not answers:
        raise InputError("the data hold no question.")
    if not any(question in predictions for question in answers):
        raise InputError(
            f"none of the {len(predictions)} predictions is of one of the {len(answers)} questions: "
            f"expected ids such as {next(iter(answers))!r}. The two files do not belong together."
        )
    for question, predicted in predictions.items():
        if not isinstance(predicted, str):
            raise InputError(f"the prediction for {question!r} is {predicted!r}; expected a text.")


def _check_odds(no_answer_odds, predicted):
    missing = [question for question in predicted if question not in no_answer_odds]
    if missing:
        raise InputError(
            f"the odds of no answer lack question {missing[0]!r} ({len(missing)} such questions); "
            "expected a number for each prediction."
        )
    for question, odds in no_answer_odds.items():
        # NaN alone differs from itself; math.isnan refuses large integers, which JSON may hold.
        if isinstance(odds, bool) or not isinstance(odds, (int, float)) or odds != odds:
            raise InputError(f"the odds of no answer of {question!r} are {str(odds)[:60]}; expected a number.")
