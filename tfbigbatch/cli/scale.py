"""Shows what a scaling rule makes of an experiment's recipe at other batch sizes, before any training.

    tfbigbatch scale --config=mnist/lstm_small_batch --batch_size=1024,8192,16384

Prints the learning rate, the warm-up and the steps at each batch size. With --config.schedule.moments=half_life or
--config.schedule.weight_decay=kept also the optimizer's arguments; their values in the experiment are those at the
recipe's batch.

    tfbigbatch scale --config=mnist/lstm_small_batch --config.ramp.name=doubling --config.ramp.to=4096 \
      --config.ramp.over='10 epochs'

shows a batch ramp in place of fixed batches: its stages, the steps saved.
"""

from __future__ import annotations

from collections.abc import Sequence

from absl import flags

from tfbigbatch import tasks
from tfbigbatch.cli import experiment_flags
from tfbigbatch.config import Config
from tfbigbatch.config.recipe import batch_ramp, scaled_recipe, tuned_recipe
from tfbigbatch.errors import InputError
from tfbigbatch.reports.table import Table
from tfbigbatch.scaling.recipe import RULES, Recipe
from tfbigbatch.utils import command

# Runs of fewer steps, or with a larger fraction of warm-up, rarely reach the small batch's quality.
_FEW_STEPS, _LONG_WARMUP = 200, 0.5


def define_flags() -> None:
    flags.DEFINE_string("config", None, "Experiment with the recipe to scale; --config.FIELD=VALUE overrides a field.")
    experiment_flags.define_override()
    flags.DEFINE_string("data_dir", None, "Folder of the task's data, where its size is asked for.")
    flags.DEFINE_list("batch_size", None, "Global batch sizes. Default: doublings up to 64 times the recipe's.")
    flags.DEFINE_list("rule", None, f"Scaling rules: {', '.join(RULES)}. Default: legw.")
    flags.DEFINE_integer("dataset_size", None, "Examples in an epoch. Default: that of the task.", lower_bound=1)


def main(arguments: Sequence[str]) -> None:
    options = flags.FLAGS
    config = experiment_flags.load(options.config, options)
    kind = tasks.get(config.task)
    dataset_size = options.dataset_size or kind.count_examples(config.data.to_dict(), options.data_dir)
    if not dataset_size:
        raise InputError(
            f"the size of the data of {config.task} is not known in advance: give --dataset_size, examples in an epoch."
        )
    recipe = tuned_recipe(config, dataset_size)
    lines = [f"{options.config}: tuned at", *(f"  {line}" for line in recipe.lines(dataset_size))]
    scaled = scaled_recipe(config, recipe)
    if ramp := batch_ramp(config, scaled, dataset_size):
        # Streams that carry state begin with an epoch, and an epoch is whole batches.
        in_epochs = ramp.stages_of_epochs(lambda size: dataset_size // size * size) if kind.carries_state else None
        if scaled.batch_size != recipe.batch_size:
            lines.append(f"scaled by {config.schedule.rule}: {recipe.arithmetic(scaled)}")
        lines += [f"\nramp by {config.ramp.name}:", *ramp.lines(dataset_size, in_epochs)]
    else:
        for rule in options.rule or ["legw"]:
            lines += _lines(config, recipe, rule, dataset_size)
    print("\n".join(lines))


def _lines(config: Config, recipe: Recipe, rule: str, dataset_size: int) -> list[str]:
    """The recipe by a rule at the batches of --batch_size, with a note where a run is too short.

    Raises:
      ValueError: a batch is larger than the data set.
    """
    sizes = command.numbers("batch_size", flags.FLAGS.batch_size or [], int) or [
        size for power in range(7) if (size := recipe.batch_size * 2**power) <= dataset_size
    ]
    more = {name: config.schedule[name] for name in ("moments", "weight_decay")}
    scaled, rows = [recipe.at(size, rule, **more) for size in sizes], []
    for each in scaled:
        if each.batch_size > dataset_size:
            raise InputError(f"batch_size={each.batch_size} is larger than the data set of {dataset_size} examples.")
        warmup, total = each.warmup_steps(dataset_size), each.total_steps(dataset_size)
        note = "few steps" if total < _FEW_STEPS else ""
        if warmup > _LONG_WARMUP * total:
            note = f"{warmup / total:.0%} of the run is warm-up{': invalid' if warmup > total else ''}"
        factor, length = f"x{each.batch_size / recipe.batch_size:.4g}", f"{each.warmup_epochs:.4g} epochs"
        cells = [f"{each.batch_size:,}", factor, f"{each.learning_rate:.4g}", length, f"{warmup:,}", f"{total:,}", note]
        rows.append(cells)
    headings = ("batch", "factor", "learning rate", "warm-up", "steps", "total steps", "note")
    lines = [f"\nscaled by {rule}: {recipe.arithmetic(scaled[-1])}"]
    lines += Table(headings, rows, frozenset({"note"})).markdown()
    for each in scaled if recipe.optimizer else []:
        lines.append(f"optimizer at {each.batch_size:,}: {', '.join(recipe.changes(each)[1:]) or 'as tuned'}")
    return lines
