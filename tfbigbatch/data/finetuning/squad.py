"""SQuAD, versions 1.1 and 2: questions read from JSON, and BERT's windows of question and paragraph.

A paragraph longer than a window is read in overlapping windows. The windows and the maximum-context rule are those of
BERT's run_squad.py (Devlin et al. 2019, section 4.2). Importing this module does not import TensorFlow.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
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
    content = files.read_json(path)
    try:
        articles = content["data"][first_article:last_article]
        paragraphs = [paragraph for article in articles for paragraph in article["paragraphs"]]
    except (KeyError, TypeError) as error:
        raise InputError(
            f"{path} is not of SQuAD's form ({error!r}); expected a 'data' list of articles with 'paragraphs'."
        ) from None
    questions, seen = [], set()
    for paragraph in paragraphs:
        for question in _of_paragraph(path, paragraph):
            if question.id in seen:
                raise InputError(f"{path}: question id {question.id!r} occurs twice; ids must be unique.")
            seen.add(question.id)
            questions.append(question)
    if not questions:
        raise InputError(f"{path} holds no question in its articles {first_article} to {last_article or 'the last'}.")
    return questions


def answer_texts(questions: Sequence[Question]) -> dict[str, list[str]]:
    """The texts of the answers by question id, as `tasks.scores.squad` takes them."""
    return {question.id: [text for text, _ in question.answers] for question in questions}


def _of_paragraph(path: str, paragraph: Any) -> Iterator[Question]:
    try:
        context = paragraph["context"]
        for entry in paragraph["qas"]:
            # v2 stores plausible wrong answers of impossible questions under another key.
            answers = tuple((answer["text"], int(answer["answer_start"])) for answer in entry.get("answers", ()))
            texts = (entry["id"], entry["question"], context, *(text for text, _ in answers))
            strange = [text for text in texts if not isinstance(text, str)]
            if strange:
                raise TypeError(f"{str(strange[0])[:60]} in place of a text")
            yield Question(entry["id"], entry["question"], context, answers, bool(entry.get("is_impossible", False)))
    # OverflowError: Python's JSON reader accepts infinity.
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise InputError(
            f"{path}: a question about {str(paragraph)[:60]!r}... is not of SQuAD's form ({error!r}); expected "
            "'id', 'question' and 'answers' of 'text' and 'answer_start'."
        ) from None


@dataclasses.dataclass(frozen=True, eq=False)
class Windows:
    """n windows over the paragraphs of some questions, grouped by question.

    Attributes:
      questions: the questions.
      inputs: 'input_word_ids', 'input_mask' and 'input_type_ids', int32 [n, T].
      start_positions, end_positions: int32 [n], positions of the answer's first and last token in the window; both 0,
        [CLS], where the window does not contain the whole answer or there is none; -1 where it is unknown.
      question: int32 [n], index into `questions`.
      first_position: int32 [n], position in the window of the first token of the paragraph.
      first_token: int32 [n], index of that token in the paragraph.
      tokens: int32 [n], number of the paragraph's tokens in the window.
      most_context: bool [n, T], True for the tokens that have their maximum context in this window.
      offsets: for each question int32 [tokens of the paragraph, 2], character ranges.
      lost: ids of the questions whose answer is not found at the place that the file names.
    """

    questions: list[Question]
    inputs: dict[str, np.ndarray]
    start_positions: np.ndarray
    end_positions: np.ndarray
    question: np.ndarray
    first_position: np.ndarray
    first_token: np.ndarray
    tokens: np.ndarray
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
    queries, parts, rows, most_context, lost = [], [], [], [], []
    for index, question in enumerate(questions):
        query = tokenizer.ids(question.text)[:max_query_length]
        ids, offsets = encoded[question.context]
        span = _answer_span(question, offsets)
        if span is None and question.answers:
            lost.append(question.id)
        first_position = len(query) + 2
        spans = _spans(len(ids), max_seq_length - len(query) - 3, doc_stride)
        for (first, length), most in zip(spans, _most_context(spans, len(ids), first_position, max_seq_length)):
            queries.append(query)
            parts.append(ids[first : first + length])
            rows.append((index, first_position, first, length, *_positions(span, first_position, first, length)))
            most_context.append(most)
    columns = np.array(rows, np.int32).reshape(-1, 6).T
    return Windows(
        list(questions),
        text_pairs.pack(tokenizer.vocabulary, queries, parts, max_seq_length),
        start_positions=columns[4],
        end_positions=columns[5],
        question=columns[0],
        first_position=columns[1],
        first_token=columns[2],
        tokens=columns[3],
        most_context=np.array(most_context, bool).reshape(-1, max_seq_length),
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


def _positions(span: tuple[int, int] | None, first_position: int, first: int, length: int) -> tuple[int, int]:
    """Start and end position of an answer in the window that begins at token `first`."""
    if span is None:
        return UNKNOWN, UNKNOWN
    if span[0] < first or span[1] >= first + length:
        return 0, 0
    return span[0] - first + first_position, span[1] - first + first_position


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


def _most_context(
    spans: list[tuple[int, int]], tokens: int, first_position: int, max_seq_length: int
) -> Iterator[np.ndarray]:
    """For each window bool [T]: True for the tokens that no other window gives more context.

    Context is the smaller number of tokens to the left or right, plus 1% of the window's length, so that the longer of
    two equal windows wins; the earlier one wins a tie.
    """
    context = np.full((len(spans), tokens), -1.0)
    for row, (first, length) in enumerate(spans):
        index = np.arange(length)
        context[row, first : first + length] = np.minimum(index, length - 1 - index) + 0.01 * length
    for row, (first, length) in enumerate(spans):
        best = np.zeros(max_seq_length, bool)
        best[first_position : first_position + length] = context[:, first : first + length].argmax(axis=0) == row
        yield best
