"""How many training examples a second a core prepares: the input of any experiment, by itself.

    python benchmarks/input.py --config=experiments/bert/lamb.py:512 --data_dir=data/bert_prepared \\
      --results=results/throughput/input_bert.json

Batches of the task's own pipeline are read and thrown away. A figure is the median of all turns: examples a second, and
examples a second of processor time over all threads, which is what `tools/plan.py --core_rate` takes.
"""

import json
import os
import statistics
import time

from absl import flags

from tfbigbatch import experiment
from tfbigbatch.errors import InputError
from tfbigbatch.utils import command

flags.DEFINE_string("config", None, "The experiment file.", required=True)
flags.DEFINE_list("override", [], "Changes to it: FIELD=VALUE, as data.image_size=160.")
flags.DEFINE_integer("phase", 1, "Of a run with phases.", lower_bound=1)
flags.DEFINE_string("data_dir", None, "Where the task's data lies; made-up examples where left out.")
flags.DEFINE_integer("batch_size", 256, "Examples in a batch.", lower_bound=1)
flags.DEFINE_integer("batches", 40, "Timed batches in a turn, after two that are not.", lower_bound=1)
flags.DEFINE_integer("turns", 5, "Turns.", lower_bound=1)
flags.DEFINE_string("results", None, "Also write the figures to this JSON file.")

_UNTIMED = 2


def rates(train, batch_size, batches, seed):
    """(examples a second, examples a second of processor time) of `batches` batches, after those untimed."""
    import tensorflow as tf

    context = tf.distribute.InputContext(1, 0, 1)
    read = iter(
        train.training_batches(
            context, batch_size=batch_size, seed=seed, first_step=0, last_step=batches + _UNTIMED + 1
        )
    )
    for _ in range(_UNTIMED):
        next(read)
    started, worked = time.perf_counter(), time.process_time()
    for _ in range(batches):
        next(read)
    examples = batches * batch_size
    return examples / (time.perf_counter() - started), examples / (time.process_time() - worked)


def _main(unused):
    from tfbigbatch import tasks

    options = flags.FLAGS
    config = experiment.load(options.config)
    experiment.override(config, options.override)
    phases = experiment.phases(config)
    if options.phase > len(phases):
        raise InputError(f"--phase={options.phase}: the run has {len(phases)} phase(s), counted from 1.")
    fields = phases[options.phase - 1]
    data = {"data_dir": options.data_dir, "use_fake_data": options.data_dir is None}
    task = tasks.get(fields.task)(model=fields.model.to_dict(), data=fields.data.to_dict(), **data)
    found = [rates(task.train, options.batch_size, options.batches, seed) for seed in range(options.turns)]
    a_second, of_core = (statistics.median(each) for each in zip(*found, strict=True))
    print(f"{options.config}, phase {options.phase}: {options.turns} turns of {options.batches} x {options.batch_size}")
    print(f"  {a_second:10,.0f} examples a second, {os.cpu_count()} cores")
    print(f"  {of_core:10,.0f} examples a second of a core")
    if options.results:
        setting = {name: getattr(options, name) for name in ("config", "phase", "batch_size", "batches", "turns")}
        outcome = {
            "setting": {**setting, "cores": os.cpu_count()},
            "median": {"examples_per_second": a_second, "examples_per_second_of_core": of_core},
            "turns": found,
        }
        with open(options.results, "w", encoding="utf-8") as file:
            json.dump(outcome, file, indent=2)
            file.write("\n")


if __name__ == "__main__":
    command.execute(_main)
