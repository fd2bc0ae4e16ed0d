"""Published TPU runs, and the calibration of a plan's estimates to them."""

from __future__ import annotations

import typing
from collections.abc import Mapping, Sequence

import numpy as np

from tfbigbatch.tpu import planning, topologies


class Part(typing.NamedTuple):
    """Steps of one kind in a run.

    Attributes:
      step: name of the check that plans them, a file in results/tpu.
      batch_size, updates: of the run; the number of updates may be fractional.
    """

    step: str
    batch_size: int
    updates: float


class Run(typing.NamedTuple):
    """A published run.

    Attributes:
      name: in a table.
      topology: the slice's name.
      seconds: its published duration.
      parts: its steps.
      source: where it is published, and the assumptions made about it.
      fits: whether the estimate of its generation is fitted to it; so are two of each generation.
    """

    name: str
    topology: str
    seconds: float
    parts: tuple[Part, ...]
    source: str
    fits: bool = False


class Compared(typing.NamedTuple):
    """A published run and the estimate of its plan.

    Attributes:
      run: the run.
      estimate: in seconds.
      error: (estimate - published) / published.
      is_fitted: whether the estimate was fitted to it.
    """

    run: Run
    estimate: float
    error: float
    is_fitted: bool


class Calibration(typing.NamedTuple):
    """The fit of a generation to published runs.

    Attributes:
      fit: efficiency and fixed time.
      fitted_on: generation of the runs that it is fitted to; another one if none of its own are published.
      compared: published runs and their estimates.
    """

    fit: planning.Fit
    fitted_on: str
    compared: list[Compared]


FALLBACK = "v3"
_IMAGES = 1_281_167
_RESNET, _RESNET_V4 = "imagenet_resnet50_lars_32k_v3-512", "imagenet_resnet50_lars_8k_v4-128"
_SHORT, _LONG = (f"bert_lamb_64k_32k_phase{phase}_v3-2048" for phase in (1, 2))
_BERT_V4 = "bert_mlperf_256_v4-16"
_GNMT, _PAIRS = "wmt_gnmt_legw_4k_v3-64", 3_534_981
_LOGS = "github.com/mlcommons/training_results_{}, Google/results: the median over the runs of each run's median block"
_V06, _V07 = _LOGS.format("v0.6"), _LOGS.format("v0.7")
_LAMB = "You et al. 2020, arXiv:1904.00962v1, table 1"


def _resnet(
    topology: str, batch_size: int, seconds: float, step: str = _RESNET, source: str = _V06, fits: bool = False
) -> Run:
    """Four epochs of ResNet-50; MLPerf's include an evaluation."""
    parts = (Part(step, batch_size, 4 * _IMAGES / batch_size),)
    return Run(f"ResNet-50 at {batch_size:,}, 4 epochs", topology, seconds, parts, source, fits)


def _bert(topology: str, batch_size: int, updates: int, seconds: float, step: str = _BERT_V4) -> Run:
    """Steps of MLPerf's BERT-Large, at length 512."""
    return Run(
        f"BERT-Large at {batch_size:,}, {updates:,} updates",
        topology,
        seconds,
        (Part(step, batch_size, updates),),
        _V07,
    )


def _gnmt(topology: str, batch_size: int, seconds: float) -> Run:
    """An epoch of MLPerf's GNMT, with the number of pairs in its submission, padded to 48 tokens."""
    parts = (Part(_GNMT, batch_size, _PAIRS / batch_size),)
    return Run(f"GNMT at {batch_size:,}, an epoch", topology, seconds, parts, _V06)


# The estimate of each generation is fitted to ResNet-50 on few chips and on many; the others test it.
RUNS = (
    _resnet("v3-32", 4_096, 164.12, fits=True),
    _resnet("v3-2048", 32_768, 3.95, fits=True),
    _resnet("v3-128", 16_384, 40.97),
    _resnet("v3-256", 32_768, 21.32),
    _resnet("v3-512", 32_768, 12.36),
    _resnet("v3-1024", 32_768, 6.92),
    _resnet(
        "v3-2048",
        32_768,
        4 * _IMAGES / 1.05e6,
        source="Ying et al. 2018, arXiv:1811.06992, abstract: 1,024 chips, 1.05 million images a second",
    ),
    Run(
        "ResNet-50, LEGW at 32K",
        "v3-2048",
        2 * 60,
        (Part(_RESNET, 32_768, 3_519),),
        "You et al. 2019, arXiv:1901.08256, abstract: 1,024 TPU v3, 2 minutes; taken as 90 epochs",
    ),
    _bert("v3-32", 448, 1_117, 514.43, _LONG),
    _gnmt("v3-32", 4_096, 120.28),
    _gnmt("v3-128", 8_192, 37.59),
    _gnmt("v3-256", 8_192, 27.68),
    _gnmt("v3-512", 8_192, 19.35),
    _gnmt("v3-1024", 8_192, 15.69),
    Run(
        "BERT-Large, LAMB 64K/32K",
        "v3-2048",
        76.19 * 60,
        (Part(_SHORT, 65_536, 7_037), Part(_LONG, 32_768, 1_562)),
        f"{_LAMB}: 1,024 TPUs, 76.19 minutes; 8,599 updates",
    ),
    Run(
        "BERT-Large, LAMB 32K",
        "v3-2048",
        101.2 * 60,
        (Part(_SHORT, 32_768, 14_063), Part(_LONG, 32_768, 1_562)),
        f"{_LAMB}: 1,024 TPUs, 101.2 minutes; 15,625 updates, of which nine tenths are taken as of length 128",
    ),
    Run(
        "BERT-Large at 512",
        "v3-32",
        81.4 * 3600,
        (Part(_SHORT, 512, 900_000), Part(_LONG, 512, 100_000)),
        f"{_LAMB}: 16 TPUs, 81.4 hours; 1,000,000 updates, of which nine tenths are taken as of length 128",
    ),
    _resnet("v4:4x4x4", 8_192, 24.44, _RESNET_V4, _V07, fits=True),
    _resnet("v4:4x8x8", 8_192, 8.92, _RESNET_V4, _V07, fits=True),
    _bert("v4:2x2x2", 256, 1_953, 455.63),
    _bert("v4:4x4x4", 3_072, 163, 53.93),
    _bert("v4:4x8x8", 3_072, 163, 18.05),
)


def seconds(run: Run, steps: Mapping[str, planning.Step], fit: planning.Fit) -> float:
    """The estimated duration of a run in seconds; `steps` has the checks that its parts name."""
    return sum(part.updates * each.estimate for part, each in _plans(run, steps, fit))


def fitted(runs: Sequence[Run], steps: Mapping[str, planning.Step]) -> planning.Fit:
    """The efficiency and fixed time with which the estimates of two runs equal their published durations.

    Raises:
      ValueError: there is no such efficiency above 0 and fixed time of at least 0.
    """
    # Linear in 1 / efficiency and in the fixed time.
    rows, published = [], []
    for run in runs:
        plans = _plans(run, steps, planning.PEAK)
        reduced = sum(part.updates * each.all_reduce for part, each in plans)
        updates = sum(part.updates for part, _ in plans)
        rows.append([sum(part.updates * max(each.compute, each.memory) for part, each in plans), updates])
        published.append(run.seconds - reduced)
    try:
        inverse, fixed = np.linalg.solve(rows, published)
    except np.linalg.LinAlgError:
        inverse, fixed = 0.0, 0.0
    if inverse <= 0 or fixed < 0:
        raise ValueError(f"no efficiency and fixed time give the published durations of {[run.name for run in runs]}.")
    return planning.Fit(float(1 / inverse), float(fixed))


def _plans(run: Run, steps: Mapping[str, planning.Step], fit: planning.Fit) -> list[tuple[Part, planning.Plan]]:
    topology, plans = topologies.parse(run.topology), []
    for part in run.parts:
        plan = planning.plan(steps[part.step]._replace(batch_size=part.batch_size), topology, fit)
        if plan is None:
            raise ValueError(f"{run.name}: the batch of {part.batch_size} does not divide over {run.topology}.")
        plans.append((part, plan))
    return plans


def compare(steps: Mapping[str, planning.Step], generation: str, runs: Sequence[Run] = RUNS) -> Calibration | None:
    """The calibration of a generation; None if the checks that it needs are missing.

    A generation without published runs gets the fit of `FALLBACK`, compared with the runs of all generations.
    """
    own = any(run.fits and _generation(run) == generation for run in runs)
    fitted_on = generation if own else FALLBACK
    known = [run for run in runs if all(part.step in steps for part in run.parts)]
    to_fit = [run for run in known if run.fits and _generation(run) == fitted_on]
    if len(to_fit) != 2:
        return None
    fit = fitted(to_fit, steps)
    compared = []
    for run in known:
        if not own or _generation(run) == generation:
            estimate = seconds(run, steps, fit)
            compared.append(Compared(run, estimate, estimate / run.seconds - 1.0, run in to_fit))
    return Calibration(fit, fitted_on, compared)


def _generation(run: Run) -> str:
    return topologies.parse(run.topology).generation
