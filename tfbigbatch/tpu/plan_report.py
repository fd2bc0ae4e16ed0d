"""A plan over several slices in words, and drawn."""

from tfbigbatch.errors import missing_extra

# The table's columns up to the run's.
_BEFORE_THE_RUN = 110


def lines(names, rows):
    """The lines of a table: a row for each slice, of the phases together.

    Args:
      names: of the phases.
      rows: list of lists of `planning.Plan`, one for each phase, all on one slice.
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


def _of_run(plans):
    """The time of a run's phases together, and what is paid for."""
    seconds = sum(each.run for each in plans)
    return f"{time(seconds):>9} {seconds * plans[0].topology.chips / 3600:>10,.1f}"


def comparison(calibration, generation):
    """The lines of a calibration: published runs beside their estimates.

    Args:
      calibration: calibration.Calibration.
      generation: of the TPU that is planned with.
    """
    fit, compared = calibration.fit, calibration.compared
    yield (
        f"estimates    at {fit.efficiency:.2f} of the peak rates and {ms(fit.fixed)} of every update: fitted to two "
        f"published runs on {calibration.fitted_on}, tried on the others"
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


def draw(path, title, rows):
    """A plot of the run's time against chips, with what each cause alone would take.

    Args:
      path: of the PNG.
      title: of the figure.
      rows: as for `lines`.
    """
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
    axes.set_title(title)
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=120)


def ms(seconds):
    """Seconds as milliseconds, in words."""
    return f"{1e3 * seconds:,.1f} ms" if seconds < 10 else f"{seconds:,.0f} s"


def time(seconds):
    """Seconds in the unit that suits them."""
    if seconds < 600:
        return f"{seconds:,.2f} s" if seconds < 10 else f"{seconds:,.0f} s"
    return f"{seconds / 60:,.0f} min" if seconds < 4 * 3600 else f"{seconds / 3600:,.1f} h"
