"""SQuAD, versions 1.1 and 2: questions read from JSON, BERT's windows of question and paragraph, answers from logits.

A paragraph longer than a window is read in overlapping windows. All rules are those of BERT's run_squad.py (Devlin et
al. 2019, sections 4.2 and 4.3), but an answer's text is a slice of the paragraph by token offsets, where that code
aligns two texts. Importing this module does not import TensorFlow.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from tfbigbatch.data.finetuning import text_pairs
from tfbigbatch.data.tokenizer import Tokenizer
from tfbigbatch.errors import InputError
from tfbigbatch.utils import files

UNKNOWN = -1
"""The position of an answer that is not known."""


@dataclasses.dataclass(frozen=True)
class Question:
    """A question about a paragraph.

    Attributes:
      id: unique id.
      text: the question.
      context: the paragraph, shared by its questions.
      answers: (text, start) of each, `start` an index into the context; empty for a question without an answer (v2)
        or with withheld answers.
      impossible: True if v2 marks the question as having no answer.
    """

    id: str
    text: str
    context: str
    answers: tuple[tuple[str, int], ...]
    impossible: bool = False


def read(path: str, first_article: int = 0, last_article: int | None = None) -> list[Question]:
    """The questions of a SQuAD file, in file order.

    Args:
      path: JSON file of version 1.1 or 2.
      first_article, last_article: read the articles [first, last) only; None: to the end.

    Raises:
      ValueError: the file cannot be read, has another structure, has no question in this range, or repeats an id.
    """
    content, questions = files.read_json(path), []
    try:
        for article in content["data"][first_article:last_article]:
            for paragraph in article["paragraphs"]:
                questions += [_question(paragraph["context"], entry) for entry in paragraph["qas"]]
    # OverflowError: Python's JSON reader accepts infinity.
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        before = f" behind question {questions[-1].id!r}" if questions else ""
        raise InputError(
            f"{path} is not of SQuAD's form{before} ({error!r}); expected 'data' of articles with 'paragraphs' of "
            "'context' and 'qas', each with 'id', 'question' and 'answers' of 'text' and 'answer_start'."
        ) from None
    if not questions:
        raise InputError(f"{path} holds no question in its articles {first_article} to {last_article or 'the last'}.")
    [(most, count)] = collections.Counter(question.id for question in questions).most_common(1)
    if count > 1:
        raise InputError(f"{path}: question id {most!r} occurs {count} times; ids must be unique.")
    return questions


def _question(context: str, entry: Any) -> Question:
    # v2 stores plausible wrong answers of impossible questions under another key.
    answers = tuple((answer["text"], int(answer["answer_start"])) for answer in entry.get("answers", ()))
    texts = (entry["id"], entry["question"], context, *(text for text, _ in answers))
    strange = [text for text in texts if not isinstance(text, str)]
    if strange:
        raise TypeError(f"{str(strange[0])[:60]} in place of a text")
    return Question(entry["id"], entry["question"], context, answers, bool(entry.get("is_impossible", False)))


def answer_texts(questions: Sequence[Question]) -> dict[str, list[str]]:
    """The texts of the answers by question id, as `tasks.scores.squad` takes them."""
    return {question.id: [text for text, _ in question.answers] for question in questions}


@dataclasses.dataclass(frozen=True, eq=False)
class Windows:
    """n windows over the paragraphs of some questions, grouped by question.

    Attributes:
      questions: the questions.
      inputs: 'input_word_ids', 'input_mask' and 'input_type_ids', int32 [n, T].
      start_positions, end_positions: int32 [n], positions of the answer's first and last token in the window; both 0,
        [CLS], where the window does not contain the whole answer or there is none; -1 where it is unknown.
      question: int32 [n], index into `questions`.
      first_token: int32 [n], index in the paragraph of the first of its tokens in the window.
      most_context: bool [n, T], True for the tokens that have their maximum context in this window.
      offsets: for each question int32 [tokens of the paragraph, 2], character ranges.
      lost: ids of the questions whose answer is not found at the place that the file names.
    """

    questions: list[Question]
    inputs: dict[str, np.ndarray]
    start_positions: np.ndarray
    end_positions: np.ndarray
    question: np.ndarray
    first_token: np.ndarray
    most_context: np.ndarray
    offsets: list[np.ndarray]
    lost: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.question)


def windows(
    questions: Sequence[Question],
    tokenizer: Tokenizer,
    *,
    max_seq_length: int = 384,
    doc_stride: int = 128,
    max_query_length: int = 64,
) -> Windows:
    """The windows of questions.

    An answer's tokens are all that share a character with it, so a token may extend beyond it ("Japan" in "Japanese").
    The first of several answers gives the positions.

    Args:
      questions: the questions.
      tokenizer: WordPiece tokenizer.
      max_seq_length: T, tokens in a window, with the question and three special tokens.
      doc_stride: tokens from the start of one window to the start of the next.
      max_query_length: tokens of the question that are kept.

    Raises:
      ValueError: there is no room for the paragraph, or doc_stride is less than 1.
    """
    if max_seq_length < max_query_length + 4 or doc_stride < 1 or max_query_length < 1:
        raise InputError(
            f"max_seq_length={max_seq_length}, max_query_length={max_query_length}, doc_stride={doc_stride}: expected "
            "max_seq_length to hold the question, three special tokens and one more token, and the others 1 or more."
        )
    contexts = list(dict.fromkeys(question.context for question in questions))
    encoded = {context: tokenizer.encode(context) for context in contexts}
    queries, parts, rows, lost = [], [], [], []
    most_context: list[np.ndarray] = []
    for index, question in enumerate(questions):
        query = tokenizer.ids(question.text)[:max_query_length]
        ids, offsets = encoded[question.context]
        answer = _answer_span(question, offsets)
        if answer is None and question.answers:
            lost.append(question.id)
        first_position = len(query) + 2
        spans = _spans(len(ids), max_seq_length - len(query) - 3, doc_stride)
        most_context.extend(_most_context(spans, len(ids), first_position, max_seq_length))
        for first, length in spans:
            queries.append(query)
            parts.append(ids[first : first + length])
            start, end = answer or (UNKNOWN, UNKNOWN)
            if answer:
                inside = first <= start and end < first + length
                start, end = (place - first + first_position if inside else 0 for place in answer)
            rows.append((start, end, index, first))
    names = ("start_positions", "end_positions", "question", "first_token")
    return Windows(
        questions=list(questions),
        inputs=text_pairs.pack(tokenizer.vocabulary, queries, parts, max_seq_length),
        **dict(zip(names, np.array(rows, np.int32).reshape(-1, len(names)).T)),
        most_context=np.array(most_context).reshape(-1, max_seq_length) > 0,
        offsets=[encoded[question.context][1] for question in questions],
        lost=tuple(lost),
    )


def _answer_span(question: Question, offsets: np.ndarray) -> tuple[int, int] | None:
    """First and last token of the answer in the paragraph; (-1, -1) for no answer; None where it is unknown."""
    if question.impossible:
        return -1, -1
    if not question.answers:
        return None
    text, start = question.answers[0]
    if start < 0 or question.context[start : start + len(text)] != text:
        return None
    first = int(np.searchsorted(offsets[:, 1], start, side="right"))
    last = int(np.searchsorted(offsets[:, 0], start + len(text), side="left")) - 1
    return (first, last) if first <= last else None


def _spans(tokens: int, room: int, stride: int) -> list[tuple[int, int]]:
    """The windows over a paragraph as (first token, number of tokens)."""
    spans, first = [], 0
    while first < tokens:
        length = min(tokens - first, room)
        spans.append((first, length))
        if first + length == tokens:
            break
        first += min(length, stride)
    return spans


def _most_context(spans: list[tuple[int, int]], tokens: int, first_position: int, max_seq_length: int) -> np.ndarray:
    """bool [windows, T]: True for the tokens that no other window gives more context.

    Context is the smaller number of tokens to the left or right, plus 1% of the window's length, so that the longer of
    two equal windows wins; the earlier one wins a tie.
    """
    context = np.full((len(spans), tokens), -1.0)
    for row, (first, length) in enumerate(spans):
        index = np.arange(length)
        context[row, first : first + length] = np.minimum(index, length - 1 - index) + 0.01 * length
    best = np.zeros((len(spans), max_seq_length), bool)
    for row, (first, length) in enumerate(spans):
        most = context[:, first : first + length].argmax(axis=0) == row
        best[row, first_position : first_position + length] = most
    return best


def decode(
    windows: Windows,
    start_logits: np.ndarray,
    end_logits: np.ndarray,
    *,
    n_best_size: int = 20,
    max_answer_length: int = 30,
    no_answer: bool = False,
    threshold: float = 0.0,
) -> tuple[dict[str, str], dict[str, float]]:
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

    Returns:
      The answers by question id, empty for none; and with `no_answer` the odds of none, its score minus the answer's.

    Raises:
      ValueError: the logits are not [n, T] or not finite, or a size is less than 1.
    """
    start_logits, end_logits = (np.asarray(logits, np.float64) for logits in (start_logits, end_logits))
    expected = windows.most_context.shape
    for name, logits in (("start", start_logits), ("end", end_logits)):
        if logits.shape != expected or not np.isfinite(logits).all():
            raise InputError(
                f"{name} logits of {list(logits.shape)}, or not finite; expected finite ones of {list(expected)}, a "
                "row per window, in order."
            )
    if n_best_size < 1 or max_answer_length < 1:
        raise InputError(
            f"n_best_size={n_best_size}, max_answer_length={max_answer_length}: expected 1 or more of both."
        )
    last = np.cumsum(np.bincount(windows.question, minlength=len(windows.questions)))
    predictions, odds = {}, {}
    for number, question in enumerate(windows.questions):
        rows = range(last[number - 1] if number else 0, last[number])
        found = [
            _of_window(windows, row, start_logits[row], end_logits[row], n_best_size, max_answer_length) for row in rows
        ]
        text, score = _best(question, np.concatenate([np.zeros((0, 3)), *found]), windows.offsets[number])
        if no_answer:
            none = min((float(start_logits[row, 0] + end_logits[row, 0]) for row in rows), default=0.0)
            odds[question.id] = none - score
            text = "" if none - score > threshold else text
        predictions[question.id] = text
    return predictions, odds


def _of_window(
    windows: Windows, row: int, starts: np.ndarray, ends: np.ndarray, n_best_size: int, max_answer_length: int
) -> np.ndarray:
    """float64 [pairs, 3]: first and last token in the paragraph, and the sum of the logits, of the valid pairs."""
    # Stable: the earlier of equal logits wins.
    start, end = (np.argsort(-logits, kind="stable")[:n_best_size] for logits in (starts, ends))
    # The paragraph is the second text, before the last [SEP].
    types = windows.inputs["input_type_ids"][row]
    first = types.argmax()
    start = start[windows.most_context[row, start]]
    end = end[(end >= first) & (end < first + types.sum() - 1)]
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
