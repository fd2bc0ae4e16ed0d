"""The advice in words, and as a command line."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from tfbigbatch.advice import noise, sources
from tfbigbatch.advice.noise import Range
from tfbigbatch.advice.suggestion import examples
from tfbigbatch.reports.table import Table

if TYPE_CHECKING:
    from tfbigbatch.advice.advice import Advice
    from tfbigbatch.advice.suggestion import Suggestion

_WIDTH = 108


def explained(advice: Advice) -> str:
    """The whole advice: what was measured, the table, the recipe, its reasons and what is uncertain."""
    measured = [
        f"noise scale in steps {point.first_step:,} to {point.last_step:,}: {_range(point.scale)} examples"
        for point in advice.points
    ]
    row, largest = advice.row(advice.batch_size), advice.largest_batch_size
    why = f"about x{row.time.value:.2f} of the tuned run's time, with x{row.examples:.2f} of its examples"
    if advice.batch_size == advice.tuned.batch_size:
        why = "no larger batch that pays is faster here"
    uncertain = (
        "the noise scale predicts the critical batch to a factor of a few at best, and less well before twice the "
        "warm-up. The learning rate is a start: try half and twice."
    )
    if advice.total_steps is not None:
        seen = min(advice.points[-1].last_step / advice.total_steps, 1.0)
        uncertain = f"{seen:.1%} of the run was seen, the rest is extrapolated; {uncertain}"
    lines = [
        f"{advice.title}: tuned at",
        *(f"  {line}" for line in advice.tuned.lines(advice.dataset_size)),
        "",
        *measured,
        f"critical batch of the run: {_range(advice.critical_batch_size)}, if the noise scale grows as "
        f"steps^{noise.growth(advice.points):.2g}",
        f"steps were timed up to batch {max(advice.times.turns):,}; {advice.times.stopped}",
        "",
        "to the loss of the tuned run, relative to it, on this device:",
        *_table(advice).markdown(),
        "",
        *_entry("batch", f"{advice.batch_size:,} is worth using: {why}."),
        *_entry("", f"up to {largest:,} pays where more devices make a step cheaper."),
        *suggestion_lines(advice.suggestion),
        *_entry("uncertain", uncertain),
    ]
    return "\n".join([*lines, *([f"\nto begin with:\n  {advice.command}"] if advice.command else [])])


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
    lines = [line for name, value in values.items() for line in _entry(name, f"{value}: {suggestion.reasons[name]}.")]
    return [*lines, *(line for warning in suggestion.warnings for line in _entry("warning", f"{warning}."))]


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


def _table(advice: Advice) -> Table:
    rows = []
    for row in advice.rows:
        notes = {
            "tuned": row.batch_size == advice.tuned.batch_size,
            "worth using": row.batch_size == advice.batch_size,
            f"{row.accumulation_steps} micro-batches": row.accumulation_steps > 1,
            "few steps": row.run_steps is not None and row.run_steps < sources.FEW_STEPS,
        }
        rows.append(
            [
                f"{row.batch_size:,}",
                f"{1000 * row.step_seconds:,.1f}",
                f"x{row.steps:.3f}",
                f"x{row.examples:.2f}",
                f"x{row.time.value:.2f}",
                f"{row.time.low:.2f} to {row.time.high:.2f}",
                "" if row.run_steps is None else f"{row.run_steps:,} steps",
                ", ".join(note for note, holds in notes.items() if holds),
            ]
        )
    headings = ("batch", "ms a step", "steps", "examples", "time", "range", "same epochs", "note")
    return Table(headings, rows, frozenset({"note"}))


def _range(value: Range) -> str:
    return f"{examples(value.value)} ({examples(value.low)} to {examples(value.high)})"


def _entry(name: str, words: str) -> list[str]:
    return textwrap.wrap(words, _WIDTH, initial_indent=name.ljust(14), subsequent_indent=" " * 14)
