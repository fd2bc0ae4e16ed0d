"""SQuAD's questions, read from the JSON of v1.1 or v2. Nothing here needs TensorFlow."""

import dataclasses

from tfbigbatch.errors import InputError
from tfbigbatch.utils import files


@dataclasses.dataclass(frozen=True)
class Question:
    """A question about a paragraph.

    Attributes:
      id: the question's id.
      text: the question.
      context: the paragraph; the questions about one paragraph share it.
      answers: tuple of (text, start), `start` the character of the context at which the text begins; empty
        where the question has no answer (v2) or the answers are held back.
      impossible: true where v2 says that the context holds no answer.
    """

    id: str
    text: str
    context: str
    answers: tuple
    impossible: bool = False


def read(path, first_article=0, last_article=None):
    """The questions of a file, in its order.

    Args:
      path: the file.
      first_article, last_article: of its articles those of [first, last) alone; None: to the end.

    Raises:
      ValueError: the file cannot be read, is not of SQuAD's form, holds no question there, or one id twice.
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
                raise InputError(f"{path}: the question {question.id!r} is there twice; ids name one question each.")
            seen.add(question.id)
            questions.append(question)
    if not questions:
        raise InputError(f"{path} holds no question in its articles {first_article} to {last_article or 'the last'}.")
    return questions


def answer_texts(questions):
    """Dictionary from the questions' ids to the list of their answers' texts, as the scores take it."""
    return {question.id: [text for text, _ in question.answers] for question in questions}


def _of_paragraph(path, paragraph):
    try:
        context = paragraph["context"]
        for entry in paragraph["qas"]:
            # v2 also gives wrong, plausible answers to questions without one, under a name of their own.
            answers = tuple((answer["text"], int(answer["answer_start"])) for answer in entry.get("answers", ()))
            texts = (entry["id"], entry["question"], context, *(text for text, _ in answers))
            strange = [text for text in texts if not isinstance(text, str)]
            if strange:
                raise TypeError(f"{str(strange[0])[:60]} where a text belongs")
            yield Question(entry["id"], entry["question"], context, answers, bool(entry.get("is_impossible", False)))
    # OverflowError: JSON as Python reads it has infinity.
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise InputError(
            f"{path}: a question about {str(paragraph)[:60]!r}... is not of SQuAD's form ({error!r}); expected "
            "'id', 'question' and 'answers' of 'text' and 'answer_start'."
        ) from None
