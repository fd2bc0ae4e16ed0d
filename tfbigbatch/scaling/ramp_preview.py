"""A batch ramp before any training: its stages, the steps that it saves, the throughput that it needs, and a plot."""

from __future__ import annotations

from collections.abc import Sequence

from tfbigbatch import schedules
from tfbigbatch.errors import missing_extra
from tfbigbatch.scaling.batch_ramp import BatchRamp, Stage
from tfbigbatch.utils import arguments
from tfbigbatch.utils.plot_text import plain

_POINTS = 400


def lines(
    ramp: BatchRamp, stages: Sequence[Stage], *, dataset_size: int, examples_per_second: float | None = None
) -> list[str]:
    """The stages, the steps saved, and the examples per second that keep the time of a step.

    Args:
      ramp: the ramp.
      stages: of it, in this run.
      dataset_size: examples in an epoch.
      examples_per_second: of the run at its first batch; None where it is not known.

    Raises:
      ValueError: the rate is not above 0.
    """
    first, last = stages[0].batch_size, stages[-1].batch_size
    steps, small, large = stages[-1].last_step, _steps(ramp, first, dataset_size), _steps(ramp, last, dataset_size)
    found = [
        *ramp.lines(dataset_size, stages),
        f"{small - steps:,} steps fewer than at batch {first:,} throughout, {steps - large:,} more than the "
        f"{large:,} at batch {last:,} throughout",
        "",
        "examples per second for steps as long as those of the first batch:",
    ]
    rate = examples_per_second
    if rate is not None:
        rate = arguments.number("examples_per_second", rate, above=0)
    for stage in stages:
        times = stage.batch_size / first
        needed = f"x{times:.4g}" if rate is None else f"{times * rate:,.5g} (x{times:.4g})"
        found.append(f"  batch {stage.batch_size:,}: {needed}")
    if rate is not None:
        seconds = first / rate
        found.append(
            f"so at {seconds:.3g} s a step the run takes {_time(steps * seconds)}; at {rate:,.5g} examples per second "
            f"throughout {_time(small * seconds)}, as batch {first:,} does"
        )
    return found


def plot(path: str, ramp: BatchRamp, stages: Sequence[Stage], *, dataset_size: int, title: str) -> None:
    """Plots batch size and learning rate against epochs and against steps, as a PNG file.

    Raises:
      ValueError: matplotlib is not installed.
    """
    try:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot
    except ImportError:
        raise missing_extra("matplotlib", "plot") from None
    import numpy as np

    base = ramp.recipe.schedule(dataset_size, keras="tf_keras")
    rate = schedules.in_phases(
        [ramp.schedule_of(stage, base, keras="tf_keras") for stage in stages],
        [stage.steps for stage in stages],
        keras="tf_keras",
    )
    first, last = stages[0], stages[-1]
    edges = [step for stage in stages for step in (stage.first_step, stage.last_step - 1)]
    steps = np.unique([*np.linspace(0, last.last_step - 1, _POINTS).astype(int), *edges])
    of_steps = [next(stage for stage in stages if step < stage.last_step) for step in steps]
    epochs = [
        (stage.first_example + (step - stage.first_step) * stage.batch_size) / dataset_size
        for step, stage in zip(steps, of_steps)
    ]
    small_steps = np.linspace(0, _steps(ramp, first.batch_size, dataset_size) - 1, _POINTS).astype(int)
    small_epochs = small_steps * first.batch_size / dataset_size
    rows = (
        ("batch size", [stage.batch_size for stage in of_steps], [first.batch_size] * _POINTS),
        ("learning rate", [float(rate(step)) for step in steps], [float(base(step)) for step in small_steps]),
    )
    figure, axes = pyplot.subplots(2, 2, figsize=(10, 6), sharex="col", sharey="row", constrained_layout=True)
    for row, (label, values, without) in enumerate(rows):
        for axis, x, small_x in zip(axes[row], (epochs, steps), (small_epochs, small_steps)):
            axis.plot(small_x, without, color="0.6", linestyle="--", label=f"batch {first.batch_size:,} throughout")
            axis.plot(x, values, label="ramp")
            axis.grid(alpha=0.3)
        axes[row][0].set_ylabel(label)
    axes[0][0].set_yscale("log", base=2)
    axes[0][0].yaxis.set_major_formatter(matplotlib.ticker.FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes[0][0].legend(frameon=False)
    axes[1][0].set_xlabel("epochs")
    axes[1][1].set_xlabel("steps")
    figure.suptitle(plain(title))
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def _steps(ramp: BatchRamp, batch_size: int, dataset_size: int) -> int:
    """The steps of the run at one batch throughout."""
    assert ramp.recipe.epochs is not None
    return max(1, round(ramp.recipe.epochs * dataset_size / batch_size))


def _time(seconds: float) -> str:
    for size, unit in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} seconds"
