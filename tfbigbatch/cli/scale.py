"""Shows what a scaling rule makes of an experiment's recipe at other batch sizes, before any training.

    tfbigbatch scale --config=mnist/lstm_small_batch --batch_size=1024,8192,16384

Prints the learning rate, the warm-up and the steps at each batch size. With --config.schedule.moments=half_life or
--config.schedule.weight_decay=kept also the optimizer's arguments; their values in the experiment are those at the
recipe's batch.

    tfbigbatch scale --config=mnist/lstm_small_batch --config.ramp.name=doubling --config.ramp.to=4096 \
      --config.ramp.over='10 epochs'

shows a batch ramp: its stages, the steps saved.
"""

from __future__ import annotations

from collections.abc import Sequence

from absl import flags

from tfbigbatch import experiment, scaling, tasks
from tfbigbatch.cli import experiment_flags
from tfbigbatch.errors import InputError
from tfbigbatch.reports.table import Table
from tfbigbatch.utils import command

# Runs of fewer steps, or with a larger fraction of warm-up, rarely reach the small batch's quality.
_FEW_STEPS, _LONG_WARMUP = 200, 0.5


def define_flags() -> None:
    flags.DEFINE_string("config", None, "Experiment with the recipe to scale; --config.FIELD=VALUE overrides a field.")
    experiment_flags.define_override()
    experiment_flags.define_quick()
    flags.DEFINE_string("data_dir", None, "Folder of the task's data, where its size is asked for.")
    flags.DEFINE_list("batch_size", None, "Global batch sizes. Default: doublings up to 64 times the recipe's.")
    flags.DEFINE_list("rule", None, f"Scaling rules: {', '.join(scaling.RULES)}. Default: legw.")
    flags.DEFINE_integer("dataset_size", None, "Examples in an epoch. Default: that of the task.", lower_bound=1)


def main(arguments: Sequence[str]) -> None:
    options = flags.FLAGS
    config = experiment_flags.load(options.config, options)
    dataset_size = options.dataset_size or tasks.get(config.task).count_examples(
        config.data.to_dict(), options.data_dir
    )
    if not dataset_size:
        raise InputError(
            f"the size of the data of {config.task} is not known in advance: give --dataset_size, examples in an epoch."
        )
    recipe = experiment.tuned_recipe(config, dataset_size)
    lines = [f"{options.config}: tuned at", *(f"  {line}" for line in recipe.lines(dataset_size))]
    if config.ramp.name != "none":
        print("\n".join([*lines, *_ramp_lines(config, recipe, dataset_size)]))
        return
    # Fields of a ramp without its name are a mistake.
    experiment.batch_ramp(config, recipe, dataset_size)
    batch_sizes = command.numbers("batch_size", options.batch_size or [], int) or [
        recipe.batch_size * 2**power for power in range(7) if recipe.batch_size * 2**power <= dataset_size
    ]
    for rule in options.rule or ["legw"]:
        more = {name: config.schedule[name] for name in ("moments", "weight_decay")}
        scaled = [recipe.at(batch_size, rule, **more) for batch_size in batch_sizes]
        lines += [f"\nscaled by {rule}: {recipe.arithmetic(scaled[-1])}"]
        lines += _table(recipe, scaled, dataset_size).markdown()
        for each in scaled if recipe.optimizer else []:
            lines.append(f"optimizer at {each.batch_size:,}: {', '.join(recipe.changes(each)[1:]) or 'as tuned'}")
    print("\n".join(lines))


def _table(recipe: scaling.Recipe, scaled: Sequence[scaling.Recipe], dataset_size: int) -> Table:
    """A row for each batch size, with a warning where a run is too short.

    Raises:
      ValueError: a batch is larger than the data set.
    """
    rows = []
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
    return Table(headings, rows, frozenset({"note"}))


def _ramp_lines(config: experiment.Config, recipe: scaling.Recipe, dataset_size: int) -> list[str]:
    """The batch ramp of an experiment: its stages, and the steps that it saves.

    Raises:
      ValueError: the ramp cannot be used, or flags of fixed batches came with it.
    """
    for name in ("batch_size", "rule"):
        if flags.FLAGS[name].value:
            raise InputError(
                f"--{name} scales a recipe to fixed batches, and ramp.name={config.ramp.name!r}: leave it out, or set "
                "--config.ramp.name=none."
            )
    experiment.phases(config)
    run_recipe = experiment.scaled_recipe(config, recipe)
    ramp = experiment.batch_ramp(config, run_recipe, dataset_size)
    assert ramp is not None
    if tasks.get(config.task).carries_state:
        # Batches begin with an epoch, and an epoch is whole batches.
        stages = ramp.stages_of_epochs(lambda batch_size: dataset_size // batch_size * batch_size)
    else:
        stages = ramp.stages(dataset_size)
    lines = []
    if run_recipe.batch_size != recipe.batch_size:
        lines.append(f"scaled by {config.schedule.rule}: {recipe.arithmetic(run_recipe)}")
    return [*lines, f"\nramp by {config.ramp.name}:", *ramp.lines(dataset_size, stages)]
