"""SQuAD's questions as BERT reads them: a question and a window of its paragraph, and where the answer lies.

A paragraph that does not fit is read in windows that overlap. Source: Devlin et al. 2019, section 4.2, and its
reference code, run_squad.py, whose windows and rule of the most context these are.
"""

import dataclasses

import numpy as np

from tfbigbatch.data import token_offsets
from tfbigbatch.data.finetuning import text_pairs
from tfbigbatch.errors import InputError

_UNKNOWN = -1


@dataclasses.dataclass(frozen=True, eq=False)
class Windows:
    """n windows of the paragraphs of some questions, those of one question in a row.

    Attributes:
      questions: list of Question.
      inputs: dictionary of 'input_word_ids', 'input_mask' and 'input_type_ids', int32 [n, T].
      start_positions, end_positions: int32 [n], where in the window the answer's first and last piece stand; both
        0, at [CLS], where the window does not hold the whole answer or there is none; -1 where it is not known.
      question: int32 [n], a window's question, as an index into `questions`.
      first_position: int32 [n], where in the window the paragraph's pieces begin.
      first_piece: int32 [n], which piece of the paragraph stands there.
      pieces: int32 [n], how many of its pieces the window holds.
      most_context: bool [n, T], true where a piece has more context here than in the question's other windows.
      offsets: for each question, int32 [paragraph's pieces, 2]: the characters of each piece.
      lost: ids of the questions whose answer is not in the paragraph where the data say so.
    """

    questions: list
    inputs: dict
    start_positions: np.ndarray
    end_positions: np.ndarray
    question: np.ndarray
    first_position: np.ndarray
    first_piece: np.ndarray
    pieces: np.ndarray
    most_context: np.ndarray
    offsets: list
    lost: tuple

    def __len__(self):
        return len(self.question)

    def training_features(self, source):
        """Features of the windows whose answer is known; labels are 'start_positions' and 'end_positions'.

        Args:
          source: where the questions come from, for errors and the run's banner.

        Raises:
          ValueError: no answer is known.
        """
        return self._features(np.flatnonzero(self.start_positions != _UNKNOWN), source)

    def evaluation_features(self, source):
        """Features of all windows in their order, as `squad_decoding.decode` takes their logits."""
        return self._features(slice(None), source)

    def _features(self, chosen, source):
        # Here, so that reading needs no TensorFlow.
        from tfbigbatch.data.in_memory.features import Features

        labels = {name: getattr(self, name)[chosen] for name in ("start_positions", "end_positions")}
        inputs = {name: array[chosen] for name, array in self.inputs.items()}
        return Features(inputs, labels, inputs["input_word_ids"].shape[1], source)


def windows(questions, tokenizer, *, max_seq_length=384, doc_stride=128, max_query_length=64):
    """The Windows of questions.

    An answer is the pieces that share a character with it, so a piece may reach beyond it, as in the "Japan" of
    "Japanese". Where a question has several answers, its first one is that of the positions.

    Args:
      questions: list of Question.
      tokenizer: wordpiece.Tokenizer.
      max_seq_length: T, pieces in a window, with the question and three special tokens.
      doc_stride: pieces from the beginning of one window to that of the next.
      max_query_length: pieces of the question that are kept.

    Raises:
      ValueError: no room is left for the paragraph, or doc_stride is less than 1.
    """
    _check(max_seq_length, doc_stride, max_query_length)
    contexts = list(dict.fromkeys(question.context for question in questions))
    encoded = dict(zip(contexts, token_offsets.encode(tokenizer, contexts)))
    asked, held, rows, most_context, lost = [], [], [], [], []
    for index, question in enumerate(questions):
        query = tokenizer.ids(question.text)[:max_query_length]
        context = encoded[question.context]
        span = _answer(question, context.offsets)
        if span is None and question.answers:
            lost.append(question.id)
        first_position = len(query) + 2
        spans = _spans(len(context), max_seq_length - len(query) - 3, doc_stride)
        for (first, length), most in zip(spans, _most_context(spans, len(context))):
            asked.append(query)
            held.append(context.ids[first : first + length])
            rows.append((index, first_position, first, length, *_positions(span, first_position, first, length)))
            most_context.append(most)
    columns = np.array(rows, np.int32).reshape(-1, 6).T
    return Windows(
        questions,
        text_pairs.pack(tokenizer.vocabulary, asked, held, max_seq_length),
        start_positions=columns[4],
        end_positions=columns[5],
        question=columns[0],
        first_position=columns[1],
        first_piece=columns[2],
        pieces=columns[3],
        most_context=_placed(most_context, columns[1], max_seq_length),
        offsets=[encoded[question.context].offsets for question in questions],
        lost=tuple(lost),
    )


def _check(max_seq_length, doc_stride, max_query_length):
    if max_seq_length < max_query_length + 4 or doc_stride < 1 or max_query_length < 1:
        raise InputError(
            f"max_seq_length={max_seq_length}, max_query_length={max_query_length}, doc_stride={doc_stride}: expected "
            "max_seq_length to hold the question, three special tokens and a piece more, and the others 1 or more."
        )


def _answer(question, offsets):
    """(first piece, last piece) of the answer; (-1, -1) for no answer; None where it is not known."""
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


def _positions(span, first_position, first, length):
    """(start, end) position of an answer in a window that begins at piece `first`."""
    if span is None:
        return _UNKNOWN, _UNKNOWN
    if span[0] < first or span[1] >= first + length:
        return 0, 0
    return span[0] - first + first_position, span[1] - first + first_position


def _spans(pieces, room, stride):
    """The windows over a paragraph as (first piece, pieces)."""
    spans, first = [], 0
    while first < pieces:
        length = min(pieces - first, room)
        spans.append((first, length))
        if first + length == pieces:
            break
        first += min(length, stride)
    return spans


def _most_context(spans, pieces):
    """For each window a bool array of its pieces: whether none of the others has more context for the piece.

    A piece's context is the smaller of the numbers of pieces to its left and right, and a hundredth of the
    window's length, so that of equal windows the longer wins; then the earlier.
    """
    context = np.full((len(spans), pieces), -1.0)
    for row, (first, length) in enumerate(spans):
        place = np.arange(length)
        context[row, first : first + length] = np.minimum(place, length - 1 - place) + 0.01 * length
    best = context.argmax(axis=0) if spans else None
    return [best[first : first + length] == row for row, (first, length) in enumerate(spans)]


def _placed(parts, first_positions, max_seq_length):
    """Bool [n, T] of the parts, each from its first position on."""
    placed = np.zeros((len(parts), max_seq_length), bool)
    for row, (part, first) in enumerate(zip(parts, first_positions)):
        placed[row, first : first + len(part)] = part
    return placed
