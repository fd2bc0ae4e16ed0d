"""GLUE's rows, read from the .tsv files of its folder. Nothing here needs TensorFlow.

The folder is that of GLUE's download script: CoLA/, SST-2/, MRPC/, STS-B/, QQP/, MNLI/, QNLI/, RTE/ and WNLI/,
each with train.tsv, dev.tsv and test.tsv, but MNLI with dev_matched.tsv, dev_mismatched.tsv and so on.
"""

import dataclasses
import os

from tfbigbatch.errors import InputError, nearest

_MAX_BAD_SHARE = 0.01
_SHOWN = 3


@dataclasses.dataclass(frozen=True)
class Task:
    """How a task's files are read.

    Attributes:
      texts: the column or the two columns of the texts.
      label: the column of the label; the test set does not have it.
      classes: the labels' names, in the order of their numbers; None for a similarity from 0 to 5.
      columns: the columns of a file without a header; none where every file has one.
    """

    texts: tuple
    label: str
    classes: tuple | None
    columns: tuple = ()


_YES_OR_NO = ("0", "1")
_ENTAILS = ("entailment", "not_entailment")
TASKS = {
    "CoLA": Task(("sentence",), "label", _YES_OR_NO, columns=("source", "label", "mark", "sentence")),
    "SST-2": Task(("sentence",), "label", _YES_OR_NO),
    "MRPC": Task(("#1 String", "#2 String"), "Quality", _YES_OR_NO),
    "STS-B": Task(("sentence1", "sentence2"), "score", None),
    "QQP": Task(("question1", "question2"), "is_duplicate", _YES_OR_NO),
    "MNLI": Task(("sentence1", "sentence2"), "gold_label", ("contradiction", "entailment", "neutral")),
    "QNLI": Task(("question", "sentence"), "label", _ENTAILS),
    "RTE": Task(("sentence1", "sentence2"), "label", _ENTAILS),
    "WNLI": Task(("sentence1", "sentence2"), "label", _YES_OR_NO),
}


@dataclasses.dataclass(frozen=True)
class Rows:
    """The rows of a file, in its order.

    Attributes:
      texts: list of tuples of one or two texts.
      labels: list of int, the label's number; or of float, the similarity. None where the file has no labels.
      bad: tuple of words about the rows that were left out, each with its line and reason.
    """

    texts: list
    labels: list | None
    bad: tuple


def task(name):
    """The Task of a name.

    Raises:
      ValueError: GLUE has no such task.
    """
    if name not in TASKS:
        raise InputError(f"{name!r} is not a task of GLUE. {nearest(name, TASKS)}")
    return TASKS[name]


def splits(name):
    """The names of a task's splits, which are those of its files."""
    kinds = ("_matched", "_mismatched") if name == "MNLI" else ("",)
    return ("train", *(part + kind for part in ("dev", "test") for kind in kinds))


def path(data_dir, name, split):
    """Where a split lies.

    Raises:
      ValueError: the task or the split is unknown, or data_dir is None.
    """
    task(name)
    if split not in splits(name):
        raise InputError(f"{name} has no split {split!r}. {nearest(split, splits(name))}")
    if data_dir is None:
        raise InputError(f"--data_dir is missing: give GLUE's folder, with {', '.join(TASKS)} in it.")
    return os.path.join(data_dir, name, f"{split}.tsv")


def read(data_dir, name, split):
    """The Rows of a task's split.

    A bad row is left out and named: QQP has some as it is handed out. In a test set it is an error, since
    predictions are handed in by the rows' numbers.

    Raises:
      ValueError: the file cannot be read, lacks a column, has no rows, more than one bad row in a hundred, or any in
        a test set.
    """
    chosen, file = task(name), path(data_dir, name, split)
    lines = _lines(file)
    test = split.startswith("test")
    columns = chosen.columns
    if test or not columns:
        columns = lines.pop(0)[1] if lines else ()
    wanted = [*chosen.texts, *([] if test and chosen.label not in columns else [chosen.label])]
    missing = [column for column in wanted if column not in columns]
    if missing:
        raise InputError(f"{file} lacks the column {missing[0]!r}; expected {', '.join(wanted)} in its header.")
    places = [columns.index(column) for column in wanted]
    texts, labels, bad = [], [], []
    for number, cells in lines:
        try:
            found = _row(chosen, cells, places, len(columns))
        except ValueError as reason:
            bad.append(f"line {number}: {reason}")
            continue
        texts.append(found[0])
        labels.append(found[1])
    if not lines:
        raise InputError(f"{file} holds no rows. Fetch the file again.")
    if len(bad) > (0 if test else _MAX_BAD_SHARE * len(lines)):
        raise InputError(
            f"{file}: {len(bad):,} of {len(lines):,} rows are bad{''.join(f'; {words}' for words in bad[:_SHOWN])}. "
            "Fetch the file again."
        )
    return Rows(texts, labels if chosen.label in wanted else None, tuple(bad))


def read_predictions(file, name):
    """Predictions in GLUE's form for handing them in: the columns 'index', from 0, and 'prediction'.

    Returns:
      List of int or float in the order of the index, as those of `Rows.labels`.

    Raises:
      ValueError: the task is unknown; the file cannot be read or lacks a column; a prediction is none of the task's;
        or the indexes are not 0, 1, 2 and so on.
    """
    chosen = task(name)
    lines = _lines(file, "Expected a file of predictions.")
    header = lines.pop(0)[1] if lines else []
    if header[:2] != ["index", "prediction"]:
        raise InputError(f"{file} begins with {' '.join(header)!r}; expected the columns 'index' and 'prediction'.")
    if not lines:
        raise InputError(f"{file} holds no prediction below its header.")
    found = {}
    for number, cells in lines:
        try:
            # A model's similarity may well be less than 0 or more than 5.
            found[int(cells[0])] = float(cells[1]) if chosen.classes is None else _label(chosen, cells[1])
        except (IndexError, ValueError) as error:
            raise InputError(f"{file}, line {number}: {error}. Expected an index and a prediction of {name}.") from None
    if len(found) != len(lines) or set(found) != set(range(len(lines))):
        raise InputError(f"{file}: the indexes of {len(lines):,} rows are not 0 to {len(lines) - 1:,}, each once.")
    return [found[index] for index in range(len(lines))]


def _lines(file, expected="Expected GLUE's folder as --data_dir."):
    """List of (number of the line, its cells). A quote is a character as any: GLUE's texts have some that never end."""
    try:
        # A text may hold a carriage return; MRPC's header begins with a byte order mark.
        with open(file, encoding="utf-8-sig", newline="\n") as content:
            lines = content.read().split("\n")
    except OSError as error:
        raise InputError(f"{file} cannot be read: {error.strerror or error}. {expected}") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{file} is not UTF-8 ({error.reason}, byte {error.start}). Fetch the file again.") from None
    return [(number, line.rstrip("\r").split("\t")) for number, line in enumerate(lines, 1) if line.rstrip("\r")]


def _row(chosen, cells, places, columns):
    """((texts), label) of a row; ValueError says what is wrong with it."""
    if len(cells) != columns:
        raise ValueError(f"{len(cells)} cells, expected {columns}")
    texts = tuple(cells[place] for place in places[: len(chosen.texts)])
    if len(places) == len(chosen.texts):
        return texts, None
    return texts, _label(chosen, cells[places[-1]])


def _label(chosen, cell):
    if chosen.classes is not None:
        if cell not in chosen.classes:
            raise ValueError(f"label {cell!r}, expected {' or '.join(chosen.classes)}")
        return chosen.classes.index(cell)
    try:
        score = float(cell)
    except ValueError:
        score = -1.0
    if not 0 <= score <= 5:
        raise ValueError(f"score {cell!r}, expected 0 to 5")
    return score
