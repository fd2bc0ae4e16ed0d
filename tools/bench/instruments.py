"""What LayerStatistics costs a real run: the trainer's own speed with it, at its default interval, and without.

    python tools/bench/instruments.py --config=experiments/tiny_imagenet/resnet_small_batch.py \\
      --data_dir=data/tiny_imagenet_prepared --results=docs/results/instruments/resnet18.json

Two contenders take turns, each turn in a process of its own: the run as it is; and with LayerStatistics, which needs
of every step the gradients' norms and, of LARS and LAMB, the trust ratios, and looks every 100 updates. The times are
of windows of one look each; of the first window, which holds the tracing, nothing is taken.
"""

import contextlib
import io
import multiprocessing
import os
import statistics
import tempfile

from absl import flags

from tfbigbatch import command, experiment

_EVERY = 100  # Updates between looks, the default.
CONTENDERS = ("plain", "watched")

flags.DEFINE_string("config", None, "The experiment file.", required=True)
flags.DEFINE_string("data_dir", None, "Where the task's data lies.")
flags.DEFINE_integer("batch_size", None, "Examples an update; the experiment's own where left out.", lower_bound=1)
flags.DEFINE_integer("turns", 5, "Turns of each contender.", lower_bound=1)
flags.DEFINE_integer("windows", 3, "Timed windows of 100 updates in a turn.", lower_bound=1)
flags.DEFINE_bool("use_fake_data", False, "Made-up data of the right shape.")
flags.DEFINE_string("results", None, "Also write the figures to this JSON file.")


def turn(contender, path, batch_size, data_dir, windows, use_fake_data):
    """Seconds of an update in each timed window; called in a process of its own."""
    from tfbigbatch import train
    from tfbigbatch.training.metrics_log import read_rows

    config = experiment.load(path)
    config.batch_size = batch_size or config.batch_size
    config.schedule.decay, config.schedule.warmup_epochs = "constant", 0.0
    config.log_every = f"{_EVERY} steps"
    config.duration = config.evaluate_every = config.checkpoint_every = f"{_EVERY * (windows + 1)} steps"
    config.instruments.layers.enabled = contender == "watched"
    with tempfile.TemporaryDirectory() as directory, contextlib.redirect_stdout(io.StringIO()):
        train.run(config, model_dir=directory, data_dir=data_dir, mode="train", use_fake_data=use_fake_data)
        rows = read_rows(os.path.join(directory, "metrics.jsonl"))
    speeds = [row["examples_per_second"] for row in rows if row["split"] == "train" and "examples_per_second" in row]
    return [config.batch_size / speed for speed in speeds[1:]]


def _main(unused):
    from tfbigbatch.training.run_directory import versions, write_json

    options = flags.FLAGS
    base = experiment.load(options.config)
    seconds, ratios = {name: [] for name in CONTENDERS}, []
    for number in range(options.turns):
        for name in CONTENDERS:
            arguments = (
                *(name, options.config, options.batch_size, options.data_dir),
                *(options.windows, options.use_fake_data),
            )
            with multiprocessing.get_context("spawn").Pool(1) as fresh:
                seconds[name].append(fresh.apply(turn, arguments))
        plain, watched = (statistics.median(seconds[name][-1]) for name in CONTENDERS)
        ratios.append(watched / plain)
        print(f"turn {number + 1}: an update {1000 * plain:.2f} ms, watched {1000 * watched:.2f} ms", flush=True)
    cost = statistics.median(ratios) - 1
    optimizer, batch_size = base.optimizer.get("name"), options.batch_size or base.batch_size
    print(
        f"{base.task}, {base.model.get('name', '')} batch {batch_size:,}, {optimizer}: LayerStatistics every {_EVERY} "
        f"updates costs {cost:.1%} of a step (median of {options.turns} turns, {min(ratios) - 1:.1%} to "
        f"{max(ratios) - 1:.1%})"
    )
    if options.results:
        setting = {"config": options.config, "batch_size": batch_size, "every": _EVERY, "turns": options.turns}
        measured = {"cost": cost, "ratios": ratios, "seconds_an_update": seconds}
        write_json(options.results, {"setting": setting, "measured": measured, "versions": versions()})
        print(f"results  {options.results}")


if __name__ == "__main__":
    command.execute(_main)
