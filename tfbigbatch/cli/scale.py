"""Shows what a scaling rule makes of an experiment's recipe at other batch sizes, before any training.

    tfbigbatch scale --config=mnist/lstm_small_batch --batch_size=1024,8192,16384

Prints the learning rate, the warm-up and the steps at each batch size, and plots the schedules. With
--moments=half_life or --weight_decay=kept also the optimizer's arguments, whose values in the experiment are those at
the recipe's batch.
"""

from __future__ import annotations

from collections.abc import Sequence

from absl import flags

from tfbigbatch import experiment, scaling, tasks
from tfbigbatch.cli import experiment_flags
from tfbigbatch.errors import InputError
from tfbigbatch.scaling import moments, preview
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
    if options.batch_size:
        batch_sizes = command.numbers("batch_size", options.batch_size, int)
    else:
        doublings = [recipe.batch_size * 2**power for power in range(7)]
        batch_sizes = [batch_size for batch_size in doublings if batch_size <= dataset_size]
    print(f"{options.config}: tuned at")
    print("\n".join(f"  {line}" for line in recipe.lines(dataset_size)))
    rules = options.rule or ["legw"]
    for rule in rules:
        rows = preview.preview(recipe, batch_sizes, rule=rule, dataset_size=dataset_size)
        scaled = [recipe.at(row["batch_size"], rule, **scaled_too) for row in rows]
        print(f"\nscaled by {rule}: {recipe.arithmetic(scaled[-1])}")
        print("\n".join(preview.table(rows)))
        if recipe.optimizer:
            print("optimizer")
            print("\n".join(moments.table([(each.batch_size, each.optimizer) for each in scaled])))
        path = options.plot if len(rules) == 1 else f"{options.plot.removesuffix('.png')}_{rule}.png"
        preview.plot(path, rows, dataset_size=dataset_size, rule=rule, title=options.config)
        print(f"plot  {path}")
