"""The advice in words, and as a command line."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tfbigbatch.advice import noise, sources
from tfbigbatch.advice.noise import Range
from tfbigbatch.advice.suggestion import examples

if TYPE_CHECKING:
    from tfbigbatch.advice.advice import Advice
    from tfbigbatch.advice.suggestion import Suggestion

_WIDTH = 108
_INDENT = 14


def explained(advice: Advice) -> str:
    """The whole advice: what was measured, the table, the recipe, its reasons and what is uncertain."""
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
            *suggestion_lines(advice.suggestion),
            *_wrapped("uncertain", _uncertain(advice)),
            *([f"\nto begin with:\n  {advice.command}"] if advice.command else []),
        ]
    )


def suggestion_lines(suggestion: Suggestion) -> list[str]:
    """The recipe at one batch size, with a reason for each part."""
    low, high = suggestion.learning_rate_low, suggestion.learning_rate_high
    spread = f" ({low:.3g} to {high:.3g})" if high > low else ""
    values = {
        "rule": suggestion.rule,
        "learning rate": f"{suggestion.learning_rate:.4g}{spread}",
        "warm-up": f"{suggestion.warmup_epochs:.3g} epochs",
        "optimizer": suggestion.optimizer,
    }
    lines = [line for name, value in values.items() for line in _wrapped(name, f"{value}: {suggestion.reasons[name]}.")]
    return [*lines, *(line for warning in suggestion.warnings for line in _wrapped("warning", f"{warning}."))]


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
    lines = [
        f"gradient noise scale in examples ({sources.CONFIDENCE:.0%} interval), in the first "
        f"{advice.points[-1].last_step:,} steps"
    ]
    for point in advice.points:
        steps = f"{point.first_step:,} to {point.last_step:,}:"
        lines.append(f"  steps {steps:>18s} {_range(Range(point.noise_scale, point.low, point.high))}")
    power = noise.growth(advice.points)
    grew = f"by the usual power of {sources.UNKNOWN_GROWTH:g}" if power is None else f"as steps^{power:.2g}, as it did"
    lines.append(f"  critical batch of the run: {_range(advice.critical_batch_size)}, if it grows {grew}")
    turns = len(next(iter(advice.times.turns.values())))
    return [*lines, f"seconds of a step: medians of {turns} turns over all sizes; {advice.times.stopped}"]


def _table(advice: Advice) -> list[str]:
    cells = [["batch", "ms a step", "steps", "examples", "time", "range", "same epochs", ""]]
    largest = max(advice.times.turns) * advice.replicas
    for row in advice.rows:
        few = row.run_steps is not None and row.run_steps < sources.FEW_STEPS
        unmeasured = ", not measured" if row.batch_size > largest else ""
        notes = {
            "tuned": row.batch_size == advice.tuned.batch_size,
            "worth using": row.batch_size == advice.batch_size,
            f"{row.accumulation_steps} micro-batches{unmeasured}": row.accumulation_steps > 1,
            "few steps": few,
        }
        cells.append(
            [
                f"{row.batch_size:,}",
                f"{1000 * row.step_seconds:,.1f}",
                f"x{row.steps.value:.3f}",
                f"x{row.examples:.2f}",
                f"x{row.time.value:.2f}",
                f"{row.time.low:.2f} to {row.time.high:.2f}",
                "" if row.run_steps is None else f"{row.run_steps:,} steps",
                ", ".join(note for note, holds in notes.items() if holds),
            ]
        )
    widths = [max(map(len, column)) for column in zip(*cells)]
    on = "1 replica" if advice.replicas == 1 else f"{advice.replicas} replicas, without their communication"
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(line[:-1], widths)) + f"  {line[-1]}" for line in cells]
    return [f"to the loss of the tuned run, relative to it, on {on}:", *(line.rstrip() for line in lines)]


def _advised(advice: Advice) -> list[str]:
    row, largest = advice.row(advice.batch_size), advice.largest_batch_size
    why = f"about x{row.time.value:.2f} of the tuned run's time, with x{row.examples:.2f} of its examples"
    if advice.batch_size == advice.tuned.batch_size:
        why = "no larger batch that pays is faster here"
    limit = "the critical batch" if 2 * largest > advice.critical_batch_size.value else "the number of steps"
    if largest >= advice.dataset_size / 2:
        limit = "the size of the dataset"
    words = f"up to {largest:,} pays where more replicas make a step cheaper; the limit is {limit}."
    return [*_wrapped("batch", f"{advice.batch_size:,} is worth using: {why}."), *_wrapped("", words)]


def _uncertain(advice: Advice) -> str:
    words = (
        "the noise scale predicts the critical batch to a factor of a few at best; the interval has its statistical "
        "error alone"
    )
    if advice.total_steps is not None:
        seen = min(advice.points[-1].last_step / advice.total_steps, 1.0)
        words += f"; {seen:.1%} of the run was seen, the rest is extrapolated"
    words += ". The learning rate is a start: try half and twice."
    if advice.is_early:
        words += (
            " The measurements ended before twice the warm-up, and the noise scale rises most after that: the critical "
            "batch is a lower bound. Give more seconds."
        )
    return words


def _range(value: Range) -> str:
    return f"{examples(value.value)} ({examples(value.low)} to {examples(value.high)})"


def _wrapped(name: str, words: str) -> Sequence[str]:
    indent = " " * _INDENT
    return textwrap.wrap(words, _WIDTH, initial_indent=name.ljust(_INDENT), subsequent_indent=indent) or [name]
