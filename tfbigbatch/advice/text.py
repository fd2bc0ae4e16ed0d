"""The advice in words, and as a command line."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tfbigbatch.advice import noise, sources
from tfbigbatch.advice.noise import NoisePoint, Range

if TYPE_CHECKING:
    from tfbigbatch.advice.advice import Advice
    from tfbigbatch.advice.suggestion import Suggestion

_WIDTH = 108
_INDENT = 14


def explained(advice: Advice) -> str:
    """The whole advice: what was measured, the table, the recipe, its reasons and what is uncertain."""
    best = advice.suggestion
    return "\n".join(
        [
            f"{advice.title}: tuned at",
            *(f"  {line}" for line in advice.tuned.lines(advice.dataset_size)),
            "",
            *_measured(advice),
            "",
            *_table(advice),
            "",
            *_advised(advice),
            *suggestion_lines(best),
            *_ramp(advice),
            *_wrapped("uncertain", _uncertain(advice)),
            *([f"\nto begin with:\n  {advice.command}"] if advice.command else []),
        ]
    )


def suggestion_lines(suggestion: Suggestion) -> list[str]:
    """The recipe at one batch size, with a reason for each part."""
    reasons = dict(reason.split(": ", 1) for reason in suggestion.reasons)
    low, high = suggestion.learning_rate_low, suggestion.learning_rate_high
    spread = f" ({low:.3g} to {high:.3g})" if high > low else ""
    values = {
        "rule": suggestion.rule,
        "learning rate": f"{suggestion.learning_rate:.4g}{spread}",
        "warm-up": f"{suggestion.warmup_epochs:.3g} epochs",
        "optimizer": suggestion.optimizer,
    }
    lines = [line for name, value in values.items() for line in _wrapped(name, f"{value}: {reasons[name]}.")]
    return [*lines, *(line for warning in suggestion.warnings for line in _wrapped("warning", f"{warning}."))]


def examples(value: float) -> str:
    """A number of examples with three digits."""
    if math.isinf(value):
        return "no upper end"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def command(advice: Advice) -> str:
    """The `tfbigbatch train` command with the advised recipe.

    The optimizer is the tuned one: another is advised in few steps alone, and such a batch is not worth using.
    """
    best, row = advice.suggestion, advice.row(advice.batch_size)
    fields = {"batch_size": f"{best.batch_size}", "schedule.rule": best.rule}
    if best.tuned_learning_rate != advice.tuned.learning_rate:
        fields["schedule.learning_rate"] = f"{best.tuned_learning_rate:.6g}"
    if best.tuned_warmup_epochs != advice.tuned.warmup_epochs:
        fields["schedule.warmup"] = "''"
        fields["schedule.warmup_epochs"] = f"{best.tuned_warmup_epochs:.6g}"
    if row.accumulation_steps > 1:
        fields["accumulation_steps"] = f"{row.accumulation_steps}"
    # Of a field that is given twice the last value counts.
    given = " ".join(f"--config.{name}={value}" for name, value in fields.items())
    return f"tfbigbatch train {advice.experiment} {given} --model_dir=runs/batch_{best.batch_size}"


def _measured(advice: Advice) -> list[str]:
    last = advice.points[-1]
    lines = [
        f"gradient noise scale in examples ({sources.CONFIDENCE:.0%} interval), in the first {last.last_step:,} steps",
        *(_window(point) for point in advice.points),
    ]
    end, power = advice.noise_at_end, noise.growth(advice.points)
    if end is not None:
        grew = f"by the usual power of {sources.UNKNOWN_GROWTH:g}" if power is None else f"it grew as steps^{power:.2g}"
        lines.append(f"  at the end, step {advice.total_steps:,}: {_range(end)}; extrapolated, {grew}")
    lines += [
        f"  critical batch by branching, epoch {each.examples / advice.dataset_size:.3g}: "
        f"{_range(each.critical, f'> {each.largest:,}')}"
        for each in advice.branched
    ]
    lines.append(f"  critical batch of the run: {_range(advice.critical_batch_size)}")
    turns = len(next(iter(advice.times.turns.values())))
    lines.append(f"seconds of a step: medians of {turns} turns over all sizes; {advice.times.stopped}")
    return lines


def _table(advice: Advice) -> list[str]:
    header = ["batch", "ms a step", "steps", "examples", "time", "range", "same epochs", ""]
    cells = [header]
    largest = max(advice.times.turns) * advice.replicas
    for row in advice.rows:
        notes = []
        if row.batch_size == advice.tuned.batch_size:
            notes.append("tuned")
        if row.batch_size == advice.batch_size:
            notes.append("worth using")
        if row.accumulation_steps > 1:
            notes.append(
                f"{row.accumulation_steps} micro-batches" + (", not measured" if row.batch_size > largest else "")
            )
        if row.run_steps is not None and row.run_steps < sources.FEW_STEPS:
            notes.append("few steps")
        cells.append(
            [
                f"{row.batch_size:,}",
                f"{1000 * row.step_seconds:,.1f}",
                f"x{row.steps:.3f}",
                f"x{row.examples:.2f}",
                f"x{row.time:.2f}",
                f"{row.time_low:.2f} to {row.time_high:.2f}",
                "" if row.run_steps is None else f"{row.run_steps:,} steps",
                ", ".join(notes),
            ]
        )
    widths = [max(len(line[column]) for line in cells) for column in range(len(header))]
    on = "1 replica" if advice.replicas == 1 else f"{advice.replicas} replicas, without their communication"
    lines = [f"to the loss of the tuned run, relative to it, on {on}:"]
    lines += [
        "  ".join(cell.rjust(width) for cell, width in zip(line[:-1], widths)) + f"  {line[-1]}" for line in cells
    ]
    return [line.rstrip() for line in lines]


def _advised(advice: Advice) -> list[str]:
    row, largest = advice.row(advice.batch_size), advice.largest_batch_size
    if advice.batch_size == advice.tuned.batch_size:
        why = "no larger batch that pays is faster here"
    else:
        why = f"about x{row.time:.2f} of the tuned run's time, with x{row.examples:.2f} of its examples"
    lines = _wrapped("batch", f"{advice.batch_size:,} is worth using: {why}.")
    limit = "the critical batch" if 2 * largest > advice.critical_batch_size.value else "the number of steps"
    if largest >= advice.dataset_size / 2:
        limit = "the size of the dataset"
    words = f"up to {largest:,} pays where more replicas make a step cheaper; the limit is {limit}."
    if row.examples > 1.05 and advice.tuned.epochs is not None:
        words += f" The tuned run's loss is expected after {advice.tuned.epochs * row.examples:.3g} epochs."
    return [*lines, *_wrapped("", words)]


def _ramp(advice: Advice) -> Sequence[str]:
    if advice.ramp is None or advice.total_steps is None:
        return []
    sizes = ", ".join(f"{size:,}" for size in advice.ramp.ramp.batch_sizes)
    words = (
        f"{sizes}: {advice.ramp.steps:,} steps in the same epochs, {advice.ramp.steps / advice.total_steps:.0%} of the "
        f"tuned run's: {advice.ramp.reason}. In place of a batch:"
    )
    # Not wrapped: a flag in quotes is one word of a shell.
    return [*_wrapped("ramp", words), " " * _INDENT + advice.ramp.fields]


def _uncertain(advice: Advice) -> str:
    if advice.branched:
        return "branches are short, and their learning rates scaled by a rule. The learning rate is a start."
    words = (
        "the noise scale predicts the critical batch to a factor of a few at best; the interval has its statistical "
        "error alone"
    )
    if advice.total_steps is not None:
        part = advice.points[-1].last_step / advice.total_steps
        words += f"; {min(part, 1.0):.1%} of the run was seen, the rest is extrapolated"
    words += ". The learning rate is a start: try half and twice."
    if advice.is_early:
        words += (
            " The measurements ended before twice the warm-up, and the noise scale rises most after that: the critical "
            "batch is a lower bound. Give more seconds."
        )
    return words


def _window(point: NoisePoint) -> str:
    steps = f"{point.first_step:,} to {point.last_step:,}:"
    return f"  steps {steps:>18s} {_range(Range(point.noise_scale, point.low, point.high))}"


def _range(value: Range, beyond: str = "") -> str:
    """A value with its ends; `beyond`: the words for infinity."""
    shown = [beyond if beyond and math.isinf(each) else examples(each) for each in (value.value, value.low, value.high)]
    return f"{shown[0]} ({shown[1]} to {shown[2]})"


def _wrapped(name: str, words: str) -> Sequence[str]:
    indent = " " * _INDENT
    return textwrap.wrap(words, _WIDTH, initial_indent=name.ljust(_INDENT), subsequent_indent=indent) or [name]
