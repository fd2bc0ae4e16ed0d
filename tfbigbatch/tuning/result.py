"""What `tune` found: the winner, all candidates with their curves, and what the choice is worth."""

from __future__ import annotations

import dataclasses
import math
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from ml_collections import ConfigDict

from tfbigbatch.config.overrides import flat
from tfbigbatch.reports import figure_style
from tfbigbatch.reports.table import Table
from tfbigbatch.run_directory.metric import Metric
from tfbigbatch.scaling.recipe import Recipe
from tfbigbatch.tuning import halving
from tfbigbatch.tuning.search import Candidate, Search


@dataclasses.dataclass(frozen=True, eq=False)
class Tuned:
    """A finished search. `print(tuned)` explains it.

    Attributes:
      model: the trained keras.Model of the winner, without an optimizer; None where it is left in its folder.
      recipe: the winner's, at the batch size: `recipe.schedule(dataset_size)` is its schedule.
      optimizer: the winner's, by name and arguments, for `optimizers.get`; without the learning rate.
      candidates: all, best first; each has `point`, `curve` [(step, training loss)], `evaluations`, `metrics`, `steps`.
      metric: that decided at the end; None for the training loss.
      total_steps: of a run.
      cost: of all candidates, in runs.
      rungs: the shares of a run at which candidates were left.
      test: metrics of the winner on data that decided nothing; {} where there is none.
      command: that trains the winner again, to the same bits; None for a model of a function.
    """

    model: Any
    recipe: Recipe
    optimizer: Mapping[str, Any]
    candidates: Sequence[Candidate]
    metric: Metric | None
    total_steps: int
    cost: float
    rungs: Sequence[float]
    test: Mapping[str, float]
    command: str | None

    @property
    def winner(self) -> Candidate:
        """The best candidate."""
        return self.candidates[0]

    def __str__(self) -> str:
        lines = [
            f"{len(self.candidates)} candidates, {self.cost:.2f} runs of {self.total_steps:,} steps",
            *self._table().markdown(),
            "",
            f"winner     {self.winner.number}: {self.winner.point}",
            f"recipe     {', '.join([f'learning rate {self.recipe.learning_rate:g}', *self._arguments()])}",
            *([f"held out   {self.metric.title} {self._shown(self.winner)}"] if self.metric else []),
            *(
                [f"test       {', '.join(f'{name} {value:.4f}' for name, value in self.test.items())}"]
                if self.test
                else []
            ),
            f"sure       {self.sureness()}",
            *([f"\nthe same run again:\n  {self.command}"] if self.command else []),
        ]
        return "\n".join(lines)

    def _arguments(self) -> list[str]:
        recipe, searched = self.recipe, self.recipe.optimizer
        return [f"warm-up {recipe.warmup_epochs:.3g} of {recipe.epochs or 0:.4g} epochs"] + [
            f"{name} {value:g}" for name, value in flat(dict(searched)).items() if isinstance(value, float)
        ]

    def _shown(self, candidate: Candidate) -> str:
        value = candidate.metrics.get(self.metric.name) if self.metric else None
        return "" if self.metric is None or value is None else self.metric.shown(value)

    def sureness(self) -> str:
        """How much better the winner is than the next one, and what that was decided by."""
        ended = [each for each in self.candidates if each.is_done]
        if len(ended) < 2:
            words = "one candidate ran to its end; those before it were left by the training loss"
        else:
            last = [halving.loss_before(each.curve, self.total_steps, self.total_steps) for each in ended[:2]]
            gap = math.fsum(last[1]) / len(last[1]) - math.fsum(last[0]) / len(last[0])
            noise = halving.noise(*last)
            words = f"the next one, {ended[1].number}, is behind by {gap:+.3g} of the training loss (noise {noise:.1g})"
            if self.metric:
                words += f", and has {self.metric.title} {self._shown(ended[1])}"
        rates = sorted(
            each.point.rate for each in self.candidates if each.point.optimizer == self.winner.point.optimizer
        )
        if len(rates) > 1 and self.winner.point.rate in (rates[0], rates[-1]):
            words += ". The best learning rate is at the end of what was tried: a larger budget may find a better one"
        if self.metric is None:
            words += ". No held-out data decided: the training loss cannot see overfitting, nor what decay gains"
        return f"{words}."

    def _table(self) -> Table:
        rows = []
        for each in self.candidates:
            loss = halving.loss_before(each.curve, each.steps, self.total_steps) if each.curve else [math.nan]
            left = "diverged" if each.diverged else "" if each.is_done else "left"
            rows.append(
                [
                    f"{each.number}",
                    each.point.optimizer,
                    f"x{each.point.rate:.3g}",
                    f"{each.config.schedule.learning_rate:.3g}",
                    f"{each.point.half_life:.2f}",
                    "" if each.point.decay == 1.0 else f"x{each.point.decay:.3g}",
                    f"{each.point.warmup:.1%}",
                    f"{each.steps / self.total_steps:.0%}",
                    f"{math.fsum(loss) / len(loss):.4f}",
                    self._shown(each),
                    "winner" if each is self.winner else left,
                ]
            )
        metric = self.metric.title if self.metric else "held out"
        headings = (
            "",
            "optimizer",
            "rate",
            "learning rate",
            "half-life",
            "decay",
            "warm-up",
            "trained",
            "loss",
            metric,
            "note",
        )
        return Table(headings, rows, frozenset({"optimizer", "note"}))

    def to_dict(self) -> dict[str, Any]:
        """The search as plain values for JSON."""
        return {
            "total_steps": self.total_steps,
            "cost": round(self.cost, 4),
            "rungs": list(self.rungs),
            "metric": self.metric.name if self.metric else None,
            "winner": self.winner.number,
            "learning_rate": self.recipe.learning_rate,
            "optimizer": dict(self.optimizer),
            "test": dict(self.test),
            "candidates": [
                {
                    "number": each.number,
                    **dataclasses.asdict(each.point),
                    "learning_rate": each.config.schedule.learning_rate,
                    "steps": each.steps,
                    "diverged": each.diverged,
                    "metrics": each.metrics,
                    "curve": [[step, None if math.isnan(loss) else round(loss, 5)] for step, loss in each.curve],
                    "evaluations": each.evaluations,
                }
                for each in self.candidates
            ],
        }

    def plot(self, path: str = "tune.png") -> str:
        """Draws the losses of all candidates and the rungs, and the held-out metric of those at the end.

        Args:
          path: of the PNG.

        Returns:
          The path.

        Raises:
          ValueError: matplotlib is not installed, or the file cannot be written.
        """
        title = f"{len(self.candidates)} candidates at batch {self.recipe.batch_size:,}: {self.cost:.2f} runs"
        optimizers = list(dict.fromkeys(each.point.optimizer for each in self.candidates))
        styles = figure_style.styles(optimizers)
        with figure_style.figure(path, title, len(self.candidates), panels=2) as (_, (losses, rates)):
            for each in reversed(self.candidates):
                is_winner, colour = each is self.winner, styles[each.point.optimizer]["color"]
                finite = [(step, loss) for step, loss in each.curve if math.isfinite(loss)]
                if finite:
                    steps, values = zip(*finite)
                    losses.plot(
                        steps, values, color=colour, linewidth=2.5 if is_winner else 1, alpha=1 if is_winner else 0.5
                    )
                    losses.annotate(f"{each.number}", (steps[-1], values[-1]), fontsize=8)
                    rates.scatter(
                        each.config.schedule.learning_rate,
                        each.steps / self.total_steps,
                        color=colour,
                        s=120 if is_winner else 40,
                        marker="*" if is_winner else "x" if each.diverged else "o",
                    )
            for share in self.rungs:
                losses.axvline(share * self.total_steps, color="grey", linewidth=0.8, linestyle=":")
            losses.set(xlabel="step", ylabel="training loss")
            rates.set(xlabel="learning rate", ylabel="trained, share of the run", xscale="log")
            for name in optimizers:
                rates.scatter([], [], color=styles[name]["color"], label=name)
            figure_style.legend_beside(rates)
        return path


def tuned_of(
    search: Search, *, model: Any = None, test: Mapping[str, float] | None = None, command: str | None = None
) -> Tuned:
    """The result of a search that has run; see `Tuned`."""
    ranked = search.ranked()
    return Tuned(
        model=model,
        recipe=search.space.recipe_of(ranked[0].point),
        optimizer=ranked[0].config.optimizer.to_dict(),
        candidates=ranked,
        metric=search.metric,
        total_steps=search.total_steps,
        cost=search.spent,
        rungs=search.rungs.shares,
        test=dict(test or {}),
        command=command and f"{command} --model_dir=runs/tuned",
    )


def fields_of(given: ConfigDict, found: ConfigDict) -> str:
    """The fields of a candidate that differ from the experiment, as flags; not those that change no weight."""
    before = flat(given.to_dict())
    changed = {
        name: repr(value) if isinstance(value, tuple) else f"{value}"
        for name, value in flat(found.to_dict()).items()
        if name not in ("log_every", "keep_best", "experiment") and before.get(name, ...) != value
    }
    return " ".join(shlex.quote(f"--config.{name}={text}") for name, text in changed.items())
