"""The table of the README beside Keras' own Muon and Lamb: a line a task, a column a method, and seconds."""

from __future__ import annotations

import json

from tfbigbatch.reports.table import Table
from tools.pages import stored_rows
from tools.pages.stored_rows import ROOT

SMALL, LARGE = 32, 512
FILES = {
    "results/keras_own/dense.json": "dense layers: variance left, % (lower is better)",
    "results/keras_own/convnet.json": "a convnet: accuracy",
    "results/keras_own/transformer.json": "a Transformer: accuracy",
}
# (row, its batch size) by the words of the table.
COLUMNS = {
    "small batch": ("AdamW", SMALL),
    "its learning rate kept": ("AdamW, learning rate kept", LARGE),
    "AdamW": ("AdamW", LARGE),
    "Nesterov": ("Nesterov", LARGE),
    "Keras Lamb": ("Keras Lamb", LARGE),
    "our LAMB": ("LAMB", LARGE),
    "Keras Muon": ("Keras Muon", LARGE),
    "our Muon": ("Muon", LARGE),
}


def table() -> Table:
    """Mean and standard deviation of each method, and the core's seconds of an AdamW run at both batch sizes."""
    headings = (f"{SMALL} → {LARGE}", *COLUMNS, "core seconds")
    cells = []
    for path, title in FILES.items():
        rows = [stored_rows.find(path, name, batch_size) for name, batch_size in COLUMNS.values()]
        small, large = (f"{_seconds(path, batch_size):.1f}" for batch_size in (SMALL, LARGE))
        cells.append([title, *(row.value.replace("% ±", " ±") for row in rows), f"{small} → {large}"])
    return Table(headings, cells, frozenset({headings[0]}))


def _seconds(path: str, batch_size: int) -> float:
    """CPU seconds of an AdamW run's training, the median over seeds."""
    stored = json.loads((ROOT / path).read_text(encoding="utf-8"))
    return next(
        float(row["cpu_seconds"]) for row in stored["runs"] if (row["name"], row["batch_size"]) == ("AdamW", batch_size)
    )
