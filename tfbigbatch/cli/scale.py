"""Shows what a scaling rule makes of an experiment's recipe at other batch sizes, before any training.

    tfbigbatch scale --config=mnist/lstm_small_batch --batch_size=1024,8192,16384

Prints the learning rate, the warm-up and the steps at each batch size, and plots the schedules.
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
        print(f"\nscaled by {rule}: {recipe.arithmetic(rows[-1]['recipe'])}")
        print("\n".join(preview.table(rows)))
        path = options.plot if len(rules) == 1 else f"{options.plot.removesuffix('.png')}_{rule}.png"
        preview.plot(path, rows, dataset_size=dataset_size, rule=rule, title=options.config)
        print(f"plot  {path}")
