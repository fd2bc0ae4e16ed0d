"""Published runs on TPUs, and the share of the peak rates that they reached: what a plan's estimate goes by."""

import typing

from tfbigbatch.tpu import planning, topologies


class Part(typing.NamedTuple):
    """Updates of one kind in a run.

    Attributes:
      step: the name of the check that they are planned with, that of its file in docs/results/tpu.
      batch_size, updates: the run's own.
    """

    step: str
    batch_size: int
    updates: int


class Run(typing.NamedTuple):
    """A published run.

    Attributes:
      name: in a table.
      topology: the slice's name.
      seconds: that it took.
      parts: its `Part`s.
      source: where it is published, and what is assumed of it.
    """

    name: str
    topology: str
    seconds: float
    parts: tuple
    source: str


class Compared(typing.NamedTuple):
    """A published run beside its plan.

    Attributes:
      run: Run.
      estimate: in seconds.
      error: (estimate - published) / published.
      is_fitted: whether the efficiency was fitted to it.
    """

    run: Run
    estimate: float
    error: float
    is_fitted: bool


_LAMB = "You et al. 2020, arXiv:1904.00962v1, table 1"
_SHORT, _LONG = (f"bert_lamb_64k_32k_phase{phase}_v3-2048" for phase in (1, 2))
_RESNET = "imagenet_resnet50_lars_32k_v3-512"
# The efficiency is fitted to the first whose steps are compiled; the others tell how far it carries.
RUNS = (
    Run(
        "BERT-Large, LAMB 64K/32K",
        "v3:32x32",
        76.19 * 60,
        (Part(_SHORT, 65_536, 7_037), Part(_LONG, 32_768, 1_562)),
        f"{_LAMB}: 1,024 TPUs, 76.19 minutes; 8,599 updates",
    ),
    Run(
        "BERT-Large, LAMB 32K",
        "v3:32x32",
        101.2 * 60,
        (Part(_SHORT, 32_768, 14_063), Part(_LONG, 32_768, 1_562)),
        f"{_LAMB}: 1,024 TPUs, 101.2 minutes; 15,625 updates, of which nine tenths are taken as of length 128",
    ),
    Run(
        "BERT-Large, 512",
        "v3:4x4",
        81.4 * 3600,
        (Part(_SHORT, 512, 900_000), Part(_LONG, 512, 100_000)),
        f"{_LAMB}: 16 TPUs, 81.4 hours; 1,000,000 updates, of which nine tenths are taken as of length 128",
    ),
    Run(
        "ResNet-50, LEGW 32K",
        "v3:32x32",
        2 * 60,
        (Part(_RESNET, 32_768, 3_519),),
        "You et al. 2019, arXiv:1901.08256, abstract: 1,024 TPU v3, 2 minutes; taken as 90 epochs",
    ),
)


def seconds(run, steps, efficiency):
    """The estimate of a run's seconds.

    Args:
      run: Run.
      steps: dictionary from the names in its parts to `planning.Step`s.
      efficiency: see `planning.plan`.
    """
    topology = topologies.parse(run.topology)
    total = 0.0
    for part in run.parts:
        step = steps[part.step]._replace(batch_size=part.batch_size, updates=part.updates)
        total += planning.plan(step, topology, efficiency).run
    return total


def fitted(run, steps):
    """The efficiency at which the estimate of a run is what was published, between 0.01 and 1."""
    low, high = 0.01, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if seconds(run, steps, middle) > run.seconds:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def compare(steps, runs=RUNS):
    """(efficiency, list of `Compared`) of the runs whose steps are there, fitted to the first; None where none is."""
    known = [run for run in runs if all(part.step in steps for part in run.parts)]
    if not known:
        return None, []
    efficiency = fitted(known[0], steps)
    found = []
    for run in known:
        estimate = seconds(run, steps, efficiency)
        found.append(Compared(run, estimate, estimate / run.seconds - 1.0, run is known[0]))
    return efficiency, found
