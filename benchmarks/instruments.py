"""What LayerStatistics costs a real run: the trainer's own speed with it, at its default interval, and without.

    python benchmarks/instruments.py --config=experiments/tiny_imagenet/resnet_small_batch.py \\
      --data_dir=data/tiny_imagenet_prepared --results=results/instruments/resnet18.json

Two models train side by side in one process and take turns of 100 updates: one as it is, and one with LayerStatistics,
which needs of every step the gradients' norms and, of LARS and LAMB, the trust ratios, and looks once in a turn. A
ratio is of two turns that follow each other, and the cost their median; the first turns, which hold the tracing, do not
count.
"""

import os
import statistics
import tempfile
import time

from absl import flags

from tfbigbatch import experiment
from tfbigbatch.utils import command

_EVERY = 100  # Updates between looks, the default.

flags.DEFINE_string("config", None, "The experiment file.", required=True)
flags.DEFINE_string("data_dir", None, "Where the task's data lies.")
flags.DEFINE_integer("batch_size", None, "Examples an update; the experiment's own where left out.", lower_bound=1)
flags.DEFINE_integer("turns", 10, "Timed turns of each.", lower_bound=1)
flags.DEFINE_bool("use_fake_data", False, "Made-up data of the right shape.")
flags.DEFINE_string("results", None, "Also write the figures to this JSON file.")


def baseline(config, folder, data_dir, use_fake_data):
    """A function that trains for 100 more updates, and gives the seconds that it took."""
    import tensorflow as tf

    from tfbigbatch import tasks
    from tfbigbatch.runs.run_directory import RunDirectory
    from tfbigbatch.training import phases as run_phases
    from tfbigbatch.training.build import compiled_model
    from tfbigbatch.training.instruments import RunInstruments
    from tfbigbatch.training.metrics_log import MetricsLog

    def task_of(fields):
        model, data = fields.model.to_dict(), fields.data.to_dict()
        return tasks.get(fields.task)(model=model, data=data, data_dir=data_dir, use_fake_data=use_fake_data)

    strategy = tf.distribute.OneDeviceStrategy("CPU:0")
    phases = run_phases.phases_of(config, task_of, 1)
    with strategy.scope():
        model = compiled_model(config, phases)
    os.makedirs(folder)
    log = MetricsLog(RunDirectory(folder))
    instruments = RunInstruments(
        config, model, phases[0].task, lambda step, scalars: log.write("train", step, scalars), folder
    )
    done = 0

    def turn():
        nonlocal done
        # Opened before the clock starts: its buffers are filled once a turn here, and once a run there.
        batches = phases[0].training_set(strategy, done, done + _EVERY)
        done += _EVERY
        started = time.perf_counter()
        model.fit(batches, epochs=1, steps_per_epoch=_EVERY, callbacks=instruments.callbacks, verbose=0)
        return time.perf_counter() - started

    return turn


def _main(unused):
    from tfbigbatch.runs.run_directory import versions
    from tfbigbatch.utils.files import write_json

    options = flags.FLAGS
    seconds = {"plain": [], "watched": []}
    with tempfile.TemporaryDirectory() as directory:
        turns = {}
        for name in seconds:
            config = experiment.load(options.config)
            config.batch_size = options.batch_size or config.batch_size
            config.schedule.decay, config.schedule.warmup_epochs = "constant", 0.0
            config.duration = f"{_EVERY * (options.turns + 1)} steps"
            config.evaluate_every = config.checkpoint_every = config.duration
            config.instruments.layers.enabled = name == "watched"
            turns[name] = baseline(config, os.path.join(directory, name), options.data_dir, options.use_fake_data)
        for number in range(options.turns + 1):
            for name, turn in turns.items():
                seconds[name].append(turn())
            plain, watched = (1000 * seconds[name][-1] / _EVERY for name in seconds)
            words = "" if number else ", with the tracing"
            print(f"turn {number}: an update {plain:.2f} ms, watched {watched:.2f} ms{words}", flush=True)
    ratios = [watched / plain for plain, watched in list(zip(*seconds.values()))[1:]]
    cost = statistics.median(ratios) - 1
    quarters = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
    print(
        f"{config.task}, {config.model.get('name', '')} batch {config.batch_size:,}, {config.optimizer.get('name')}: "
        f"LayerStatistics every {_EVERY} updates costs {cost:.1%} of a step (median of {options.turns} turns; half of "
        f"them {quarters[0] - 1:.1%} to {quarters[2] - 1:.1%})"
    )
    if options.results:
        setting = {"config": options.config, "batch_size": config.batch_size, "every": _EVERY}
        measured = {"cost": cost, "ratios": ratios, "seconds_a_turn": seconds}
        write_json(options.results, {"setting": setting, "measured": measured, "versions": versions()})
        print(f"results  {options.results}")


if __name__ == "__main__":
    command.execute(_main)
