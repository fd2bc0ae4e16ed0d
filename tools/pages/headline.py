"""The table of the README: each task at its large batch, the best of the others beside the best of this package."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from tfbigbatch.reports.table import Table
from tools.pages import stored_rows
from tools.pages.stored_rows import Row

FEW_STEPS, JAX = "results/few_steps/few_steps_", "results/few_steps/jax_"
LOST = "lost (−) or gained (+)"
Named = tuple[str, str, str]
"""(file of results, name of the row, words for the table)."""
Found = tuple[Row, str]
"""(row, its words)."""


@dataclasses.dataclass(frozen=True)
class Task:
    """What the table says of a task.

    Attributes:
      title: words for the task, with the metric.
      page: of docs/results.
      batches: the small and the large batch.
      small: rows at the small batch.
      others: rows at the large batch that need nothing of this package: the small batch's learning rate kept or scaled
        linearly, Nesterov momentum and AdamW tuned at the large batch.
      ours: rows at the large batch with its optimizers or LEGW.
      unit: of a loss in the table, such as "BLEU".
    """

    title: str
    page: str
    batches: tuple[int, int]
    small: Sequence[Named]
    others: Sequence[Named]
    ours: Sequence[Named]
    unit: str = "points"

    def columns(self) -> tuple[Found, Found, Found]:
        """The best row at the small batch, of the others, and of ours: none of them chosen in favour of ours.

        Of the first two it is the highest, of however few seeds. Of ours it is the best method's row of most seeds.
        """
        small, large = self.batches
        return best(self.small, small), best(self.others, large), best(with_most_seeds(self.ours, large), large)

    def lost(self) -> float:
        """By how much our row is worse than the small batch's, in the metric's unit, points for fractions."""
        (small, _), _, (ours, _) = self.columns()
        return (ours.metric.order(ours.mean) - small.metric.order(small.mean)) * (100 if ours.metric.is_fraction else 1)


def _named(path: str, **names: str) -> list[Named]:
    """Rows of one file: the words for the table by row name, with `_` for a space where a name has one."""
    return [(path, name, words) for words, name in names.items()]


DIGITS, MNIST, LENET = "results/digits.json", "results/mnist.json", "results/why/mnist_lenet.json"
RESNET, ALEXNET = "results/tiny_imagenet_resnet.json", "results/tiny_imagenet_alexnet_bn.json"
BERT, PTB = "results/bert.json", "results/ptb.json"
MULTI30K, WITH_BIAS = "results/multi30k.json", "results/multi30k_output_bias.json"
TASKS = (
    Task(
        "WikiText-2, BERT of 2 x 64: masked-LM accuracy",
        "bert_pretraining.md",
        (64, 2048),
        [
            *_named(JAX + "bert.json", Muon="Muon", AdamW="AdamW"),
            *_named(BERT, LAMB="LAMB, 0.01", AdamW="AdamW, 0.002"),
        ],
        [
            *_named(FEW_STEPS + "bert.json", AdamW="AdamW"),
            *_named(JAX + "bert.json", AdamW="AdamW"),
            *_named(BERT, AdamW="AdamW, LEGW x1", Nesterov="Nesterov momentum, 0.3"),
        ],
        [
            *_named(FEW_STEPS + "bert.json", Muon="Muon", LARS="LARS"),
            *_named(JAX + "bert.json", Muon="Muon", LAMB="LAMB"),
            *_named(BERT, LAMB="LAMB, LEGW x1"),
        ],
    ),
    Task(
        "tiny-imagenet, AlexNet-BN: accuracy",
        "alexnet_bn.md",
        (128, 2048),
        [
            *_named(FEW_STEPS + "alexnet_bn.json", Muon="Muon", Nesterov="Nesterov", AdamW="AdamW", LAMB="LAMB"),
            *_named(ALEXNET, Nesterov="baseline"),
        ],
        [
            *_named(FEW_STEPS + "alexnet_bn.json", Nesterov="Nesterov", AdamW="AdamW"),
            *_named(ALEXNET, Nesterov="Nesterov", AdamW="AdamW", linear="linear", kept="naive"),
        ],
        [
            *_named(FEW_STEPS + "alexnet_bn.json", Muon="Muon", LAMB="LAMB", LARS="LARS", Shampoo="Shampoo"),
            *_named(ALEXNET, LARS="LARS", LAMB="LAMB"),
        ],
    ),
    Task(
        "Penn Treebank, LSTM: perplexity (lower is better)",
        "ptb.md",
        (20, 640),
        [
            *_named(PTB, SGD="baseline"),
            *_named(JAX + "ptb.json", Muon="Muon", AdamW="AdamW"),
            *_named("results/ramp/jax_ptb.json", LAMB="LAMB, small"),
        ],
        [
            *_named(JAX + "ptb.json", AdamW="AdamW", Nesterov="Nesterov"),
            *_named(PTB, linear="linear", kept="naive"),
        ],
        [
            *_named(JAX + "ptb.json", LAMB="LAMB", LARS="LARS", Muon="Muon"),
            (PTB, "LEGW", "SGD by LEGW"),
        ],
        "perplexity",
    ),
    Task(
        "digits, LSTM: accuracy",
        "digits.md",
        (32, 512),
        _named(DIGITS, momentum="lstm_small_batch"),
        _named(DIGITS, AdamW="lstm_adamw", Nesterov="lstm_nesterov", kept="lstm_naive"),
        _named(DIGITS, LAMB="lstm_lamb", LEGW="lstm_legw"),
    ),
    Task(
        "tiny-imagenet, ResNet: accuracy",
        "tiny_imagenet_resnet.md",
        (128, 2048),
        [*_named(FEW_STEPS + "resnet.json", Muon="Muon"), *_named(RESNET, Nesterov="baseline")],
        _named(RESNET, Nesterov="Nesterov", AdamW="AdamW", linear="linear", kept="naive"),
        [*_named(FEW_STEPS + "resnet.json", Muon="Muon", LARS="LARS"), *_named(RESNET, LARS="LARS", LAMB="LAMB")],
    ),
    Task(
        "MNIST, LSTM: accuracy",
        "mnist_lstm.md",
        (128, 8192),
        _named(MNIST, momentum="baseline"),
        [
            *_named(MNIST, Nesterov="Nesterov", AdamW="AdamW", linear="linear", sqrt="sqrt", kept="naive"),
            *_named(JAX + "mnist_lstm.json", Nesterov="Nesterov", AdamW="AdamW"),
        ],
        [
            *_named(MNIST, LEGW="LEGW"),
            (MNIST, "LEGW + LAMB", "LAMB by LEGW"),
            (MNIST, "LEGW + LARS", "LARS by LEGW"),
            *_named(JAX + "mnist_lstm.json", LARS="LARS", LAMB="LAMB", Muon="Muon"),
        ],
    ),
    Task(
        "MNIST, LeNet-5: accuracy",
        "mnist_lenet.md",
        (64, 4096),
        _named(LENET, momentum="small batch"),
        _named(LENET, Nesterov="Nesterov", AdamW="AdamW", kept="naive"),
        _named(LENET, LARS="LARS", LAMB="LAMB", Adasum="Adasum", LEGW="LEGW, clipped"),
    ),
    Task(
        "Multi30k, GNMT: BLEU",
        "multi30k.md",
        (64, 1024),
        [*_named(MULTI30K, AdamW="baseline", LAMB="LAMB"), *_named(WITH_BIAS, AdamW="AdamW", Muon="Muon")],
        [
            # LEGW's learning rate is the best of three that were tried at 1,024.
            (MULTI30K, "LEGW", "AdamW"),
            *_named(MULTI30K, AdamW="LEGW x 0.5", Nesterov="Nesterov", linear="linear", kept="naive"),
            *_named(WITH_BIAS, AdamW="AdamW"),
        ],
        [
            *_named(WITH_BIAS, Muon="Muon"),
            (MULTI30K, "LEGW", "AdamW by LEGW"),
            (MULTI30K, "LEGW + LAMB", "LAMB by LEGW"),
        ],
        "BLEU",
    ),
)


def table(folder: str) -> Table:
    """The table.

    Args:
      folder: of the pages, relative to the page that has the table.
    """
    headings = ("task", "batch", "steps", "small batch", "others, large batch", "tfbigbatch, large batch", LOST)
    cells = []
    for task in TASKS:
        small, large = task.batches
        columns = task.columns()
        (first, _), _, (ours, _) = columns
        cells.append(
            [
                f"[{task.title}]({folder}{task.page})",
                f"{small:,} → {large:,}",
                f"{first.steps:,} → {ours.steps:,}",
                *(_shown(row, words) for row, words in columns),
                f"{-task.lost():+.2f} {task.unit}".replace("-", "−"),
            ]
        )
    return Table(headings, cells, frozenset({"task", "batch", "steps"}))


def best(named: Sequence[Named], batch_size: int) -> Found:
    """The row with the best mean at a batch size, and its words."""
    found = [(stored_rows.find(path, name, batch_size), words) for path, name, words in named]
    return min(found, key=lambda each: each[0].metric.order(each[0].mean))


def with_most_seeds(named: Sequence[Named], batch_size: int) -> list[Named]:
    """Of the rows of one method, those of the most seeds."""
    seeds = [stored_rows.find(path, name, batch_size).ended for path, name, _ in named]
    most = {words: max(count for each, count in zip(named, seeds) if each[2] == words) for *_, words in named}
    return [each for each, count in zip(named, seeds) if count == most[each[2]]]


def _shown(row: Row, words: str) -> str:
    seeds = f"{row.ended} seed{'s' if row.ended > 1 else ''}"
    value = row.value if not row.metric.is_fraction else row.value.replace("% ±", " ±")
    return f"{value} ({words}, {seeds})"
