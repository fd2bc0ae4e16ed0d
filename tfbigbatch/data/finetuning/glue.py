"""GLUE's nine tasks: rows read from its .tsv files.

The folder is the one that GLUE's download script makes: CoLA/, SST-2/, MRPC/, STS-B/, QQP/, MNLI/, QNLI/, RTE/ and
WNLI/, each with train.tsv, dev.tsv and test.tsv (MNLI: dev_matched.tsv, dev_mismatched.tsv, ...). Importing this module
does not import TensorFlow.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import NamedTuple

from tfbigbatch.data import text_files
from tfbigbatch.errors import InputError, nearest

_MAX_BAD_FRACTION = 0.01
# Bad rows that an error names.
_SHOWN = 3
_SCORE = re.compile(r"\d+(\.\d*)?", re.ASCII)


class Task(NamedTuple):
    """File format of a task."""

    texts: tuple[str, ...]
    """The one or two columns of texts."""
    label: str
    """The label's column, which test sets lack."""
    classes: tuple[str, ...] | None
    """The labels in the order of their numbers; None for a similarity from 0 to 5."""
    columns: tuple[str, ...] = ()
    """The columns of a file without header; empty where every file has one."""


_BINARY = ("0", "1")
_ENTAILMENT = ("entailment", "not_entailment")
TASKS = {
    "CoLA": Task(("sentence",), "label", _BINARY, columns=("source", "label", "mark", "sentence")),
    "SST-2": Task(("sentence",), "label", _BINARY),
    "MRPC": Task(("#1 String", "#2 String"), "Quality", _BINARY),
    "STS-B": Task(("sentence1", "sentence2"), "score", None),
    "QQP": Task(("question1", "question2"), "is_duplicate", _BINARY),
    "MNLI": Task(("sentence1", "sentence2"), "gold_label", ("contradiction", "entailment", "neutral")),
    "QNLI": Task(("question", "sentence"), "label", _ENTAILMENT),
    "RTE": Task(("sentence1", "sentence2"), "label", _ENTAILMENT),
    "WNLI": Task(("sentence1", "sentence2"), "label", _BINARY),
}


class Rows(NamedTuple):
    """The rows of a file, in order."""

    texts: list[tuple[str, ...]]
    """One or two texts of each row."""
    labels: list[float] | None
    """Class numbers (int) or similarities (float); None where the file has no labels."""
    bad: tuple[str, ...]
    """The rows left out, with line and reason."""


def task(name: str) -> Task:
    """The task of this name.

    Raises:
      ValueError: GLUE has no such task.
    """
    if name not in TASKS:
        raise InputError(f"{name!r} is not a task of GLUE. {nearest(name, TASKS)}")
    return TASKS[name]


def splits(name: str) -> tuple[str, ...]:
    """The names of a task's splits, which are those of its files."""
    kinds = ("_matched", "_mismatched") if name == "MNLI" else ("",)
    return ("train", *(part + kind for part in ("dev", "test") for kind in kinds))


def path(data_dir: str | None, name: str, split: str) -> str:
    """The file of a split.

    Raises:
      ValueError: the task or the split is unknown, or data_dir is None.
    """
    task(name)
    if split not in splits(name):
        raise InputError(f"{name} has no split {split!r}. {nearest(split, splits(name))}")
    if data_dir is None:
        raise InputError(f"--data_dir is missing: give GLUE's folder, with {', '.join(TASKS)} in it.")
    return os.path.join(data_dir, name, f"{split}.tsv")


def read(data_dir: str | None, name: str, split: str) -> Rows:
    """The rows of a split.

    Bad rows are left out and described: the published QQP has some. In a test set they are an error, since submitted
    predictions go by row number.

    Raises:
      ValueError: the file cannot be read, lacks a column, has no rows, more than 1% bad rows, or any in a test set.
    """
    chosen, file = task(name), path(data_dir, name, split)
    lines, test = _lines(file), split.startswith("test")
    columns: Sequence[str] = chosen.columns
    if test or not columns:
        columns = lines.pop(0)[1] if lines else ()
    if not lines:
        raise InputError(f"{file} holds no rows. Fetch the file again.")
    labelled = not test or chosen.label in columns
    wanted = (*chosen.texts, chosen.label) if labelled else chosen.texts
    missing = [column for column in wanted if column not in columns]
    if missing:
        raise InputError(f"{file} lacks the column {missing[0]!r}; expected {', '.join(wanted)} in its header.")
    indices = [columns.index(column) for column in wanted]
    texts, labels, bad = [], [], []
    for number, cells in lines:
        try:
            if len(cells) != len(columns):
                raise ValueError(f"{len(cells)} cells, expected {len(columns)}")
            row = tuple(cells[index] for index in indices)
            if labelled:
                labels.append(_label(chosen, row[-1]))
            texts.append(row[: len(chosen.texts)])
        except ValueError as reason:
            bad.append(f"line {number}: {reason}")
    if len(bad) > (0 if test else _MAX_BAD_FRACTION * len(lines)):
        raise InputError(
            f"{file}: {len(bad):,} of {len(lines):,} rows are bad; {'; '.join(bad[:_SHOWN])}. Fetch the file again."
        )
    return Rows(texts, labels if labelled else None, tuple(bad))


def _lines(file: str) -> list[tuple[int, list[str]]]:
    """(line number, cells) of each line. Quotes are ordinary characters: GLUE's texts have unbalanced ones."""
    # A text may contain a carriage return; MRPC's header begins with a byte order mark.
    lines = text_files.read(file).split("\n")
    return [(number, line.rstrip("\r").split("\t")) for number, line in enumerate(lines, 1) if line.rstrip("\r")]


def _label(chosen: Task, cell: str) -> float:
    if chosen.classes is not None:
        if cell not in chosen.classes:
            raise ValueError(f"label {cell!r}, expected {' or '.join(chosen.classes)}")
        return chosen.classes.index(cell)
    if not _SCORE.fullmatch(cell) or float(cell) > 5:
        raise ValueError(f"score {cell!r}, expected 0 to 5")
    return float(cell)
