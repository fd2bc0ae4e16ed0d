"""Shows what a scaling rule makes of an experiment's recipe at other batch sizes, before any training.

    tfbigbatch scale --config=mnist/lstm_small_batch --batch_size=1024,8192,16384

Prints the learning rate, the warm-up and the steps at each batch size, and plots the schedules. With
--moments=half_life or --weight_decay=kept also the optimizer's arguments; their values in the experiment are those at
the recipe's batch.

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
from tfbigbatch.scaling import preview
from tfbigbatch.utils import command


def define_flags() -> None:
    flags.DEFINE_string("config", None, "Experiment with the recipe to scale; --config.FIELD=VALUE overrides a field.")
    experiment_flags.define_override()
    experiment_flags.define_quick()
    flags.DEFINE_string("data_dir", None, "Folder of the task's data, where its size is asked for.")
    flags.DEFINE_list("batch_size", None, "Global batch sizes. Default: doublings up to 64 times the recipe's.")
    flags.DEFINE_list("rule", None, f"Scaling rules: {', '.join(scaling.RULES)}. Default: legw.")
    flags.DEFINE_enum(
        "moments",
        None,
        list(scaling.MOMENTS),
        "Moments that keep their half-life in examples. Default: schedule.moments.",
    )
    flags.DEFINE_enum(
        "weight_decay", None, scaling.WEIGHT_DECAYS, "kept: x learning rate x steps. Default: schedule.weight_decay."
    )
    flags.DEFINE_integer("dataset_size", None, "Examples in an epoch. Default: that of the task.")
    flags.DEFINE_string("plot", "scale.png", "Path of the plot; with several rules, the name of each is added.")


def main(arguments: Sequence[str]) -> None:
    options = flags.FLAGS
    config = experiment_flags.load(experiment_flags.required(options), options)
    dataset_size = options.dataset_size or tasks.get(config.task).count_examples(
        config.data.to_dict(), options.data_dir
    )
    if not dataset_size or dataset_size < 1:
        raise InputError(
            f"the size of the data of {config.task} is not known in advance: give --dataset_size, examples in an epoch."
        )
    scaled_too = {name: options[name].value or config.schedule[name] for name in ("moments", "weight_decay")}
    config.schedule.update(scaled_too)
    recipe = experiment.tuned_recipe(config, dataset_size)
    if config.ramp.name != "none":
        _show_ramp(config, recipe, dataset_size)
        return
    # Fields of a ramp without its name are a mistake.
    experiment.batch_ramp(config, recipe, dataset_size)
    if options.batch_size:
        batch_sizes = command.numbers("batch_size", options.batch_size, int)
    else:
        doublings = [recipe.batch_size * 2**power for power in range(7)]
        batch_sizes = [batch_size for batch_size in doublings if batch_size <= dataset_size]
    _print_recipe(recipe, options.config, dataset_size)
    rules = options.rule or ["legw"]
    for rule in rules:
        rows = preview.preview(recipe, batch_sizes, rule=rule, dataset_size=dataset_size)
        scaled = [recipe.at(row["batch_size"], rule, **scaled_too) for row in rows]
        print(f"\nscaled by {rule}: {recipe.arithmetic(scaled[-1])}")
        print("\n".join(preview.table(rows)))
        for each in scaled if recipe.optimizer else []:
            print(f"optimizer at {each.batch_size:,}: {', '.join(recipe.changes(each)[1:]) or 'as tuned'}")
        path = options.plot if len(rules) == 1 else f"{options.plot.removesuffix('.png')}_{rule}.png"
        preview.plot(path, rows, dataset_size=dataset_size, rule=rule, title=options.config)
        print(f"plot  {path}")


def _print_recipe(recipe: scaling.Recipe, name: str, dataset_size: int) -> None:
    print(f"{name}: tuned at")
    print("\n".join(f"  {line}" for line in recipe.lines(dataset_size)))


def _show_ramp(config: experiment.Config, recipe: scaling.Recipe, dataset_size: int) -> None:
    """Prints and plots the batch ramp of an experiment.

    Raises:
      ValueError: the ramp cannot be used, or flags of fixed batches came with it.
    """
    options = flags.FLAGS
    for name in ("batch_size", "rule"):
        if options[name].value:
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
    _print_recipe(recipe, options.config, dataset_size)
    if run_recipe.batch_size != recipe.batch_size:
        print(f"scaled by {config.schedule.rule}: {recipe.arithmetic(run_recipe)}")
    print(f"\nramp by {config.ramp.name}:")
    print("\n".join(preview.ramp_lines(ramp, stages, dataset_size=dataset_size)))
    preview.plot_ramp(options.plot, ramp, stages, dataset_size=dataset_size, title=options.config)
    print(f"plot  {options.plot}")
