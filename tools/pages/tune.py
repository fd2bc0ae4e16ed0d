"""The tables of docs/results/tune.md, of the rows of benchmarks/tune: a line a task, a column a method; choices."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from tfbigbatch.reports.table import Table
from tfbigbatch.run_directory.metric import Metric
from tools.pages import headline
from tools.pages.stored_rows import ROOT

PATH = "results/tune/runs.jsonl"
SMALL, BY_HAND = "small batch", "by hand"
# The method that fills the column `by hand` of a task without a page.
_EIGHT = "8 rates"
# Tasks of the benchmark: title, batch sizes, and the page that the columns `small batch` and `by hand` come from.
TASKS = {
    "digits": ("digits, LSTM: accuracy", "32 → 512", "digits.md"),
    "mnist_lenet": ("MNIST, LeNet-5: accuracy", "64 → 4,096", "mnist_lenet.md"),
    "mnist_lstm": ("MNIST, LSTM: accuracy", "128 → 8,192", "mnist_lstm.md"),
    "alexnet_bn": ("tiny-imagenet, AlexNet-BN: accuracy", "128 → 2,048", "alexnet_bn.md"),
    "bert": ("WikiText-2, BERT: accuracy", "64 → 2,048", "bert_pretraining.md"),
    "ptb": ("Penn Treebank, LSTM: perplexity", "20 → 640", "ptb.md"),
    "resnet": ("tiny-imagenet, ResNet: accuracy", "128 → 2,048", "tiny_imagenet_resnet.md"),
    "multi30k": ("Multi30k, GNMT: BLEU", "64 → 1,024", "multi30k.md"),
    "sst2": ("SST-2, Transformer: accuracy", "32 → 512", None),
    "characters": ("WikiText-2, characters: nats", "32 → 512", None),
}
_METRICS = {"ptb": Metric("perplexity", False), "multi30k": Metric("bleu"), "characters": Metric("nats", False)}


def table(methods: Sequence[str], names: Mapping[str, str]) -> Table:
    """The test metric of methods, mean and standard deviation over seeds; `-` where a method did not run.

    A task has a line where one of the methods after the first ran.

    Args:
      methods: columns, as in benchmarks/tune.
      names: other words for them.
    """
    stored = _stored()
    cells = []
    for task, (title, batches, page) in TASKS.items():
        best = _of_page(page) if page else {BY_HAND: _value(task, stored.get((task, _EIGHT), []))}
        values = [best.get(method) or _value(task, stored.get((task, method), [])) for method in methods]
        if any((task, method) in stored for method in methods[1:]):
            cells.append([title, batches, *values])
    return Table(("task", "batch", *(names.get(each, each) for each in methods)), cells, frozenset({"task", "batch"}))


def choices(methods: Sequence[str]) -> Table:
    """What some methods chose, with one seed: the numbers without dimensions, and the cost in runs."""
    headings = ("task", "method", "optimizer", "rate", "half-life", "decay", "warm-up", "runs", "minutes")
    cells = []
    for (task, method), rows in _stored().items():
        if method in methods:
            row = min(rows, key=lambda each: each["seed"])
            point = row["point"]
            numbers = [f"x{point['rate']:.2g}", f"{point['half_life']:.2f}", f"x{point['decay']:.2g}"]
            spent = [f"{point['warmup']:.0%}", f"{row['cost']:.2f}", f"{row['seconds'] / 60:.1f}"]
            cells.append([TASKS[task][0].partition(":")[0], method, point["optimizer"], *numbers, *spent])
    order = [words.partition(":")[0] for words, *_ in TASKS.values()]
    cells.sort(key=lambda line: (order.index(line[0]), methods.index(line[1])))
    return Table(headings, cells, frozenset({"task", "method", "optimizer"}))


def _stored() -> dict[tuple[str, str], list[dict[str, Any]]]:
    """The rows by task and method."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for line in (ROOT / PATH).read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        found.setdefault((row["task"], row["method"]), []).append(row)
    return found


def _value(task: str, rows: Sequence[Mapping[str, Any]]) -> str:
    if not rows:
        return "-"
    values = [row["test"] for row in rows]
    metric = _METRICS.get(task, Metric("accuracy"))
    spread = f" ± {metric.shown(statistics.stdev(values))}" if len(values) > 1 else ""
    return metric.shown(statistics.fmean(values)).removesuffix("%" if spread else "") + spread


def _of_page(page: str) -> dict[str, str]:
    """The best row at the small batch, and of this package at the large one, of a page of docs/results."""
    task = next(each for each in headline.TASKS if each.page == page)
    (small, _), _, (ours, _) = task.columns()
    return {name: row.value.replace("% ±", " ±") for name, row in ((SMALL, small), (BY_HAND, ours))}
