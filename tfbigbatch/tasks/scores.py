"""Official scores of data sets, from predictions and answers, in percent; they need only NumPy, and BLEU sacrebleu.

- `bleu`: by sacrebleu (Post 2018, arXiv:1804.08771).
- `glue`: Wang et al. 2019, table 1 and section 4. The score of a task with two metrics is their mean, as on GLUE's
  leaderboard.
- `race`: Lai et al. 2017, section 5; 'all' is over the questions, not the mean of middle and high school.
- `squad`: the rules of the official scripts evaluate-v1.1.py and evaluate-v2.0.py: Rajpurkar et al. 2016, section 6.1
  (exact match and F1); Rajpurkar, Jia and Liang 2018, section 5 (questions without an answer). A question without a
  prediction counts 0, as in the script of v1.1; that of v2 leaves it out.
"""

from __future__ import annotations

import collections
import re
import string
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tfbigbatch.errors import InputError, missing_extra, nearest

RACE_LEVELS = ("middle", "high")
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


def bleu(
    hypotheses: Sequence[str], references: Sequence[str], *, lowercase: bool = False, tokenize: str = "13a"
) -> dict[str, Any]:
    """Corpus BLEU of detokenised text, with sacrebleu's signature, which a comparison needs.

    MLPerf's GNMT is scored with lowercase=True and tokenize='intl'.

    Args:
      hypotheses, references: n texts each.
      lowercase: ignore case.
      tokenize: sacrebleu's tokeniser; '13a' is WMT's.

    Returns:
      'score' in [0, 100], and 'signature', sacrebleu's.

    Raises:
      ValueError: there are no texts, their numbers differ, the tokeniser is unknown, or sacrebleu is not installed.
    """
    try:
        from sacrebleu.metrics import BLEU
    except ImportError:
        raise missing_extra("sacrebleu", "text") from None
    if len(hypotheses) != len(references) or not len(hypotheses):
        raise InputError(
            f"{len(hypotheses):,} hypotheses and {len(references):,} references; expected one reference for each "
            "hypothesis, and at least one."
        )
    if tokenize not in BLEU.TOKENIZERS:
        raise InputError(f"tokenize={tokenize!r}: expected one of sacrebleu's, {', '.join(sorted(BLEU.TOKENIZERS))}.")
    # force: no warning about texts that look tokenised.
    metric = BLEU(lowercase=lowercase, tokenize=tokenize, force=True)
    found = metric.corpus_score(list(hypotheses), [list(references)])
    return {"score": found.score, "signature": str(metric.get_signature())}


def accuracy(labels: np.ndarray, predictions: np.ndarray) -> float:
    """The fraction of equal entries of two arrays [n]."""
    return float(np.mean(labels == predictions))


def f1(labels: np.ndarray, predictions: np.ndarray) -> float:
    """F1 of class 1, for arrays [n] of 0 and 1; 0 where no 1 was predicted correctly."""
    right = np.sum((labels == 1) & (predictions == 1))
    named = np.sum(labels == 1) + np.sum(predictions == 1)
    return float(2 * right / named) if right else 0.0


def pearson(labels: np.ndarray, predictions: np.ndarray) -> float:
    """Pearson correlation of arrays [n], in [-1, 1]; 0 where either is constant, where SciPy gives NaN."""
    return float(np.corrcoef(labels, predictions)[0, 1]) if np.ptp(labels) and np.ptp(predictions) else 0.0


def spearman(labels: np.ndarray, predictions: np.ndarray) -> float:
    """Spearman correlation of arrays [n], with mean ranks for ties; 0 where either is constant."""

    def ranks(values: np.ndarray) -> np.ndarray:
        _, indices, counts = np.unique(values, return_inverse=True, return_counts=True)
        return (np.cumsum(counts) - (counts - 1) / 2)[indices]

    return pearson(ranks(labels), ranks(predictions))


METRICS: dict[str, Callable[[np.ndarray, np.ndarray], float]] = {
    "accuracy": accuracy,
    "f1": f1,
    # For two classes Matthews' coefficient is the Pearson correlation of the labels (the phi coefficient).
    "matthews": pearson,
    "pearson": pearson,
    "spearman": spearman,
}
GLUE_TASKS: dict[str, tuple[str, ...]] = {
    "CoLA": ("matthews",),
    "MRPC": ("f1", "accuracy"),
    "STS-B": ("pearson", "spearman"),
    "QQP": ("f1", "accuracy"),
    **dict.fromkeys(("SST-2", "MNLI", "QNLI", "RTE", "WNLI"), ("accuracy",)),
}


def glue(task: str, labels: ArrayLike, predictions: ArrayLike) -> dict[str, float]:
    """A task's metrics.

    Args:
      task: a name in GLUE_TASKS. MNLI's matched and mismatched examples are two calls.
      labels, predictions: arrays [n] of class indices, or for STS-B of similarities.

    Returns:
      The metrics by name, and 'score', their mean, in percent.

    Raises:
      ValueError: the task is unknown; the arrays are empty, of different lengths or not finite; or a metric of two
        classes gets another label.
    """
    if task not in GLUE_TASKS:
        raise InputError(f"{task!r} is not a task of GLUE. {nearest(task, GLUE_TASKS)}")
    arrays = _of_one_length(labels=labels, predictions=predictions)
    for name, array in zip(("labels", "predictions"), arrays):
        if not np.isfinite(array).all():
            raise InputError(f"the {name} hold NaN or infinity; expected finite numbers.")
        wrong = array[(array != 0) & (array != 1)]
        if wrong.size and {"matthews", "f1"} & set(GLUE_TASKS[task]):
            raise InputError(f"{task}: found the class {wrong[0]}; expected 0 or 1.")
    found = {name: 100.0 * METRICS[name](*arrays) for name in GLUE_TASKS[task]}
    return {**found, "score": float(np.mean(list(found.values())))}


def race(labels: ArrayLike, predictions: ArrayLike, levels: ArrayLike) -> dict[str, float]:
    """Accuracies in percent.

    Args:
      labels, predictions: integer arrays [n], the correct and the chosen option of each question.
      levels: the level of each question, 'middle' or 'high', [n].

    Returns:
      'middle' and 'high', where there are such questions, and 'all', in percent; 'total', n.

    Raises:
      ValueError: the lengths differ, or there are no questions.
    """
    labels, predictions, levels = _of_one_length(labels=labels, predictions=predictions, levels=levels)
    right = labels == predictions
    found = {level: 100.0 * float(right[levels == level].mean()) for level in RACE_LEVELS if (levels == level).any()}
    return {**found, "all": 100.0 * float(right.mean()), "total": int(labels.size)}


def _of_one_length(**given: ArrayLike) -> list[np.ndarray]:
    arrays = {name: np.asarray(each) for name, each in given.items()}
    shapes = [each.shape for each in arrays.values()]
    if len(set(shapes)) > 1 or len(shapes[0]) != 1 or not shapes[0][0]:
        found = ", ".join(f"{name} of {list(each.shape)}" for name, each in arrays.items())
        raise InputError(f"{found}; expected arrays of one length, and not empty.")
    return list(arrays.values())


def normalised(text: str) -> str:
    """An answer without case, ASCII punctuation, English articles and extra white space."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_WITHOUT_PUNCTUATION)).split())


def squad(
    answers: Mapping[str, Sequence[str]],
    predictions: Mapping[str, str],
    *,
    no_answer: bool = False,
) -> dict[str, float]:
    """The best match of each question's answers, averaged over all questions.

    Args:
      answers: for each question's id, the texts of its answers; empty where there is none, as in v2.
      predictions: for each question's id, the predicted text; in v2 empty for a question without an answer.
      no_answer: score by the rules of v2.

    Returns:
      'exact_match' and 'f1' in percent; 'total', the number of questions; 'unanswered', the number of those without
      a prediction, which count 0. In v2 the first three also with the prefixes 'has_answer_' and 'no_answer_', over the
      questions of either kind, where there are any; the script names them exact, HasAns_exact, NoAns_exact, and so on.

    Raises:
      ValueError: there is no question; one has no answer, by the rules of v1.1; a prediction is not a text; or the
        predictions are of other questions.
    """
    _check_squad(answers, predictions, no_answer)
    scored: dict[str, dict[str, float]] = {"exact_match": {}, "f1": {}}
    for question, texts in answers.items():
        if question in predictions:
            # By v2's rule an answer of only articles and punctuation is none.
            texts = [text for text in texts if normalised(text)] or [""] if no_answer else texts
            scored["exact_match"][question] = float(normalised(predictions[question]) in map(normalised, texts))
            scored["f1"][question] = max(_overlap(predictions[question], text, no_answer) for text in texts)

    def means(questions: Collection[str]) -> dict[str, float]:
        sums = {name: 100.0 * sum(each.get(question, 0.0) for question in questions) for name, each in scored.items()}
        return {**{name: total / len(questions) for name, total in sums.items()}, "total": len(questions)}

    result = {**means(answers), "unanswered": len(answers) - len(scored["f1"])}
    for prefix, wanted in (("has_answer_", True), ("no_answer_", False)) if no_answer else ():
        some = [question for question in answers if bool(answers[question]) == wanted]
        if some:
            result |= {prefix + name: value for name, value in means(some).items()}
    return result


def _overlap(predicted: str, answer: str, no_answer: bool) -> float:
    """F1 of the two bags of words; 0 where either is empty, but 1 in v2 where both are."""
    words, expected = normalised(predicted).split(), normalised(answer).split()
    if no_answer and not (words and expected):
        return float(words == expected)
    common = sum((collections.Counter(words) & collections.Counter(expected)).values())
    if common == 0:
        return 0.0
    precision, recall = common / len(words), common / len(expected)
    return 2 * precision * recall / (precision + recall)


def _check_squad(answers: Mapping[str, Sequence[str]], predictions: Mapping[str, Any], no_answer: bool) -> None:
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
