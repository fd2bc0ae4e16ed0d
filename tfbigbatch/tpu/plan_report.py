"""The plan of a run on several slices, as a text table and a plot."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tfbigbatch.errors import missing_extra
from tfbigbatch.tpu import planning
from tfbigbatch.tpu.calibration import Calibration
from tfbigbatch.utils.plot_text import plain

# The table's columns up to the run's.
_BEFORE_THE_RUN = 110


def lines(names: Sequence[str], rows: Sequence[Sequence[planning.Plan]]) -> Iterator[str]:
    """The lines of a table with a row for each slice, and one for all phases together.

    Args:
      names: of the phases.
      rows: for each slice, the plan of each phase.
    """
    yield (
        f"{'slice':<14} {'chips':>5} {'replica':>12} {'compute':>9} {'memory':>9} {'all-reduce':>10} "
        f"{'at least':>9} {'estimate':>9}  {'limit':<10} {'per host':>12} {'run':>9} {'chip-hours':>10}"
    )
    for plans in rows:
        for name, each in zip(names, plans):
            of_replica = f"{each.micro_batch} x {each.accumulation_steps}"
            yield (
                f"{each.topology.accelerator_type:<14} {each.topology.chips:>5,} {of_replica:>12} "
                f"{ms(each.compute):>9} {ms(each.memory):>9} {ms(each.all_reduce):>10} {ms(each.bound):>9} "
                f"{ms(each.estimate):>9}  {each.limit:<10} {each.host_rate:>10,.0f}/s {_of_run([each])}"
                + (f"  {name}" if len(plans) > 1 else "")
            )
        if len(plans) > 1:
            yield f"{'':{_BEFORE_THE_RUN}}{_of_run(plans)}  all"


def _of_run(plans: Sequence[planning.Plan]) -> str:
    """The total time of a run's phases, and the chip-hours."""
    seconds = sum(each.run for each in plans)
    return f"{time(seconds):>9} {seconds * plans[0].topology.chips / 3600:>10,.1f}"


def comparison(calibration: Calibration, generation: str) -> Iterator[str]:
    """The lines of a calibration: published runs and their estimates; `generation` is that of the plan."""
    fit, compared = calibration.fit, calibration.compared
    yield (
        f"estimates    at {fit.efficiency:.2f} of the peak rates plus {ms(fit.fixed)} per step: fitted to two "
        f"published runs on {calibration.fitted_on}, tested on the others"
    )
    if calibration.fitted_on != generation:
        yield f"  no run on {generation} is among them"
    width = max(len(each.run.name) for each in compared)
    for each in compared:
        error = "fitted" if each.is_fitted else f"{each.error:+.0%}"
        yield (
            f"  {each.run.name:<{width}} {each.run.topology:<9} published {time(each.run.seconds):>8}, estimate "
            f"{time(each.estimate):>8}, {error}"
        )
    others = [1 / (1 + each.error) for each in compared if not each.is_fitted]
    if others:
        yield f"  the others took {min(others):.1f} to {max(others):.1f} times their estimate"
    for source in dict.fromkeys(each.run.source for each in compared):
        yield f"  source: {source}"


def draw(path: str, title: str, rows: Sequence[Sequence[planning.Plan]]) -> None:
    """Plots the run's time against chips, and the time of each cost alone; `rows` as for `lines`."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise missing_extra("matplotlib", "plot") from None
    chips = [plans[0].topology.chips for plans in rows]
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.subplots()
    updates = [[each.run / each.estimate for each in plans] for plans in rows]
    for name, style in (("compute", "--"), ("memory", "-."), ("all_reduce", ":")):
        alone = [
            sum(getattr(each, name) * count for each, count in zip(plans, counts)) / 60
            for plans, counts in zip(rows, updates)
        ]
        axes.plot(chips, alone, style, color="grey", label=f"{name.replace('_', '-')} alone, at its peak rate")
    axes.plot(chips, [sum(each.run for each in plans) / 60 for plans in rows], "o-", color="#0072B2", label="estimate")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(chips, [f"{count:,}" for count in chips])
    axes.set_xlabel("chips")
    axes.set_ylabel("minutes of training")
    axes.set_title(plain(title))
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=120)


def ms(seconds: float) -> str:
    """Formats seconds as milliseconds."""
    return f"{1e3 * seconds:,.1f} ms" if seconds < 10 else f"{seconds:,.0f} s"


def time(seconds: float) -> str:
    """Formats seconds as seconds, minutes or hours."""
    if seconds < 600:
        return f"{seconds:,.2f} s" if seconds < 10 else f"{seconds:,.0f} s"
    return f"{seconds / 60:,.0f} min" if seconds < 4 * 3600 else f"{seconds / 3600:,.1f} h"
