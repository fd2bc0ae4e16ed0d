"""What the pictures show of each task: its files, and the method behind the name of a row."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from tools.pages import stored_rows
from tools.pages.stored_rows import Row

KEPT, LEGW, LARS, LAMB, MUON = "learning rate kept", "LEGW", "LARS", "LAMB", "Muon"
NESTEROV, ADAMW, LINEAR = "Nesterov momentum", "AdamW", "linear rule"
SMALL = "small batch"
FEW_STEPS_RUNS = "results/few_steps/runs.jsonl.gz"


@dataclasses.dataclass(frozen=True)
class Source:
    """A file of results.

    Attributes:
      path: of the JSON file of rows.
      methods: the method of each row that is shown, by the row's name.
      runs: of the JSON Lines file with the evaluations of its runs; empty where there is none.
      has_steps: whether it is known when its runs reach a target.
    """

    path: str
    methods: Mapping[str, str]
    runs: str = ""
    has_steps: bool = True


@dataclasses.dataclass(frozen=True)
class Task:
    """A panel.

    Attributes:
      title: of the panel.
      label: of the metric.
      small: (file, row, batch) of the small batch's result, the line to hold.
      sources: files with the other rows.
      target: value of the metric for the picture of steps; None where there are no curves.
      small_of_steps: as `small`, for that picture, where it is not known when the best small batch reaches the target.
    """

    title: str
    label: str
    small: tuple[str, str, int]
    sources: Sequence[Source]
    target: float | None = None
    small_of_steps: tuple[str, str, int] | None = None

    @property
    def baseline(self) -> Row:
        """The small batch's row."""
        return stored_rows.find(*self.small)

    def points(self, with_steps: bool = False) -> Iterator[tuple[str, Row, str]]:
        """(method, row, file of runs) of the best row of each method at each batch size.

        Args:
          with_steps: of the files alone that tell when a run reaches a target.
        """
        best: dict[tuple[str, int], tuple[Row, str]] = {}
        for source in self.sources:
            if with_steps and not source.has_steps:
                continue
            for row in stored_rows.rows(source.path):
                method = source.methods.get(row.name)
                if method is None:
                    continue
                key = (method, row.batch_size)
                if key not in best or row.metric.order(row.mean) < row.metric.order(best[key][0].mean):
                    best[key] = (row, source.runs)
        for (method, _), (row, runs) in sorted(best.items(), key=lambda item: item[0][1]):
            yield method, row, runs


_MNIST = {
    "naive": KEPT,
    "linear": LINEAR,
    "LEGW": LEGW,
    "LEGW + LAMB": LAMB,
    "LEGW + LARS": LARS,
    "Nesterov": NESTEROV,
    "AdamW": ADAMW,
}
_TINY = {"naive": KEPT, "linear": LINEAR, "LARS": LARS, "LAMB": LAMB, "Nesterov": NESTEROV, "AdamW": ADAMW}
_FEW_STEPS = {"Muon": MUON, "AdamW": ADAMW, "LAMB": LAMB, "LARS": LARS, "Nesterov": NESTEROV}
TASKS = (
    Task(
        "digits, LSTM",
        "test accuracy",
        ("results/digits.json", "lstm_small_batch", 32),
        [
            Source(
                "results/digits.json",
                {
                    "lstm_naive": KEPT,
                    "lstm_legw": LEGW,
                    "lstm_lamb": LAMB,
                    "lstm_nesterov": NESTEROV,
                    "lstm_adamw": ADAMW,
                },
            ),
            Source("results/ramp/digits.json", {"Muon, large": MUON}),
        ],
    ),
    Task(
        "MNIST, LSTM",
        "test accuracy",
        ("results/mnist.json", "baseline", 128),
        [
            Source("results/mnist.json", _MNIST),
            Source("results/few_steps/jax_mnist_lstm.json", _FEW_STEPS, has_steps=False),
        ],
        0.98,
    ),
    Task(
        "MNIST, LeNet-5",
        "test accuracy",
        ("results/why/mnist_lenet.json", "small batch", 64),
        [
            Source(
                "results/why/mnist_lenet.json",
                {
                    "naive": KEPT,
                    "LEGW, clipped": LEGW,
                    "LARS": LARS,
                    "LAMB": LAMB,
                    "Nesterov": NESTEROV,
                    "AdamW": ADAMW,
                },
            )
        ],
    ),
    Task(
        "tiny-imagenet, ResNet",
        "validation accuracy",
        ("results/few_steps/few_steps_resnet.json", "Muon", 128),
        [
            Source("results/tiny_imagenet_resnet.json", _TINY, "results/runs.jsonl.gz"),
            Source("results/few_steps/few_steps_resnet.json", _FEW_STEPS, FEW_STEPS_RUNS),
        ],
        0.4,
    ),
    Task(
        "tiny-imagenet, AlexNet-BN",
        "validation accuracy",
        ("results/few_steps/few_steps_alexnet_bn.json", "Muon", 128),
        [
            Source("results/few_steps/few_steps_alexnet_bn.json", _FEW_STEPS, FEW_STEPS_RUNS),
            Source("results/tiny_imagenet_alexnet_bn.json", _TINY, "results/runs.jsonl.gz"),
        ],
        0.25,
    ),
    Task(
        "WikiText-2, BERT of 2 x 64",
        "masked-LM accuracy",
        ("results/few_steps/jax_bert.json", "Muon", 64),
        [
            Source("results/few_steps/jax_bert.json", _FEW_STEPS, has_steps=False),
            Source("results/few_steps/few_steps_bert.json", _FEW_STEPS, FEW_STEPS_RUNS),
            Source(
                "results/bert.json",
                {
                    "LAMB, naive": KEPT,
                    "LAMB, LEGW x1": LAMB,
                    "AdamW, LEGW x1": ADAMW,
                    "Nesterov momentum, 0.3": NESTEROV,
                    "LAMB, 0.01": LAMB,
                    "AdamW, 0.002": ADAMW,
                },
                "results/runs.jsonl.gz",
            ),
        ],
        0.25,
        ("results/bert.json", "LAMB, 0.01", 64),
    ),
    Task(
        "Multi30k, GNMT",
        "BLEU",
        ("results/multi30k_output_bias.json", "Muon", 64),
        [
            Source(
                "results/multi30k.json",
                {"naive": KEPT, "linear": LINEAR, "LEGW": LEGW, "LEGW + LAMB": LAMB, "Nesterov": NESTEROV},
                "results/runs.jsonl.gz",
            ),
            Source(
                "results/multi30k_output_bias.json",
                {"Muon": MUON, "AdamW": ADAMW},
                "results/runs.jsonl.gz",
            ),
        ],
        30.0,
    ),
    Task(
        "Penn Treebank, LSTM",
        "test perplexity (log scale)",
        ("results/ramp/jax_ptb.json", "LAMB, small", 20),
        [
            Source("results/few_steps/jax_ptb.json", _FEW_STEPS, has_steps=False),
            Source(
                "results/ptb.json",
                {"naive": KEPT, "linear": LINEAR, "LEGW": LEGW},
                "results/runs.jsonl.gz",
            ),
        ],
        150.0,
        small_of_steps=("results/ptb.json", "baseline", 20),
    ),
)
