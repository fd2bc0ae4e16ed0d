"""Seconds of a training step with local steps and with data parallelism, over links of several speeds.

    python benchmarks/local_steps.py --config=ptb/small --workers=2 --links=0,1000,100 --results=local_steps.json

Processes under MultiWorkerMirroredStrategy on loopback train the experiment on fake data. All ways take turns, round
after round: data parallelism, local steps with --every, and the same with delay=1. Ratios are taken within a round.

A link is the Mbit/s of each worker; 0 is loopback as it is. A slower one needs Linux, and rights to make a network
namespace (`unshare`, `ip` and `tc`): loopback there carries the workers' traffic only, and is limited to the links of
all workers together.
"""

import json
import os
import subprocess
import sys
import time

import numpy as np
import processes
import results_file
from absl import flags

from tfbigbatch.errors import InputError
from tfbigbatch.utils import command

flags.DEFINE_string("config", "ptb/small", "The experiment whose step is taken.")
flags.DEFINE_integer("workers", 2, "Processes, of one replica each.", lower_bound=2)
flags.DEFINE_integer(
    "batch_size", 0, "Examples of a step, of all workers together. 0: the experiment's.", lower_bound=0
)
flags.DEFINE_list("every", ["8", "32"], "Steps of a round.")
flags.DEFINE_list("links", ["0"], "Mbit/s of each worker's link; 0 for loopback as it is.")
flags.DEFINE_integer("repeats", 5, "Timed rounds, after one to warm up.", lower_bound=1)
flags.DEFINE_string("results", None, "Also write all numbers to this JSON file.")
flags.DEFINE_integer("link", None, "Set by the benchmark itself: measure with loopback as it is limited here.")
flags.DEFINE_string("measure_into", None, "Set by the benchmark itself: be one of its processes.")

# Of the queue that limits loopback, in bytes: its packets are up to 64 KiB, and offloading joins several.
_BURST = 2**18


def ways(every):
    """Name to `optimizer.local_steps` of what is compared."""
    found = {"data parallel": None}
    for steps in every:
        found[f"every {steps}"] = {"every": steps, "outer": "nesterov"}
        found[f"every {steps}, delay 1"] = {"every": steps, "outer": "nesterov", "delay": 1}
    return found


def _every():
    try:
        return [int(each) for each in flags.FLAGS.every]
    except ValueError:
        raise InputError(f"--every={','.join(flags.FLAGS.every)}: expected whole numbers such as 8,32.") from None


def _measure(path):
    """One worker's rounds."""
    import tensorflow as tf

    from tfbigbatch import experiment, tasks
    from tfbigbatch.training import phases as run_phases
    from tfbigbatch.training import strategy as strategies
    from tfbigbatch.training.build import compiled_model

    strategy = processes.strategy(None)
    # As many steps of each way as the longest round has, so that each has exchanged what it exchanges.
    steps = max(_every())

    def step_of(local_steps):
        config = experiment.load(flags.FLAGS.config)
        config.batch_size = flags.FLAGS.batch_size or config.batch_size
        config.duration = f"{steps * (flags.FLAGS.repeats + 2)} steps"
        config.optimizer = {**config.optimizer.to_dict(), "local_steps": local_steps}
        phases = run_phases.phases_of(
            config,
            lambda phase: tasks.get(phase.task)(
                model=phase.model.to_dict(), data=phase.data.to_dict(), data_dir=None, use_fake_data=True
            ),
            strategy.num_replicas_in_sync,
        )
        with strategy.scope():
            model = compiled_model(config, phases)
        batches = iter(phases[0].training_set(strategy, 0, phases[0].last_step))
        step = tf.function(lambda batch: strategy.run(model.train_step, args=(batch,)))
        return lambda: step(next(batches))

    made = {name: step_of(local_steps) for name, local_steps in ways(_every()).items()}
    rows = []
    for number in range(flags.FLAGS.repeats + 1):
        row = {}
        for name, step in made.items():
            strategies.barrier(strategy)
            before, start = processes.loopback_bytes(), time.perf_counter()
            for _ in range(steps):
                outcome = step()
            for value in tf.nest.flatten(outcome):
                strategy.experimental_local_results(value)[0].numpy()
            strategies.barrier(strategy)
            seconds, after = time.perf_counter() - start, processes.loopback_bytes()
            bytes_sent = None if before is None else (after - before) / steps / strategy.num_replicas_in_sync
            row[name] = {"seconds": seconds / steps, "bytes": bytes_sent}
        if number:
            rows.append(row)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(rows, file)
    strategies.barrier(strategy)


def _within_link(mbits, arguments):
    """The rounds of the first worker, where each worker has a link of this speed."""
    limit = flags.FLAGS.workers * mbits
    own = [sys.executable, "-W", "ignore", os.path.abspath(__file__), *arguments, f"--link={mbits}"]
    if mbits:
        script = (
            f'ip link set lo up && tc qdisc add dev lo root tbf rate {limit}mbit burst {_BURST} latency 500ms && "$@"'
        )
        own = ["unshare", "--net", "sh", "-c", script, "sh", *own]
    outcome = subprocess.run(own, capture_output=True, text=True)
    if outcome.returncode:
        raise InputError(
            f"--links={mbits}: a link of {mbits} Mbit/s could not be made, or the benchmark failed in it:\n"
            f"{outcome.stderr[-3000:]}"
        )
    return json.loads(outcome.stdout.splitlines()[-1])


def summary(rounds):
    """Medians over the rounds, by way: milliseconds and megabytes of a step, and the seconds of data parallelism."""
    found = {}
    base = np.array([row["data parallel"]["seconds"] for row in rounds])
    for name in rounds[0]:
        seconds = np.array([row[name]["seconds"] for row in rounds])
        found[name] = {"ms": 1e3 * float(np.median(seconds)), "ratio": float(np.median(base / seconds))}
        if rounds[0][name]["bytes"] is not None:
            found[name]["mb"] = float(np.median([row[name]["bytes"] for row in rounds]) / 1e6)
    return found


def _main(unused):
    options = flags.FLAGS
    if options.measure_into:
        _measure(options.measure_into)
        return
    arguments = [
        f"--config={options.config}",
        f"--workers={options.workers}",
        f"--batch_size={options.batch_size}",
        f"--every={','.join(map(str, _every()))}",
        f"--repeats={options.repeats}",
    ]
    if options.link is not None:
        print(json.dumps(processes.run(__file__, arguments, options.workers)[0]))
        return
    results_file.check(options.results)
    try:
        links = [int(each) for each in options.links]
    except ValueError:
        raise InputError(f"--links={','.join(options.links)}: expected whole numbers such as 0,1000,100.") from None
    found, measured = {}, {}
    print(
        f"{options.config}, {options.workers} processes; medians of {options.repeats} rounds of {max(_every())} steps"
    )
    for link in links:
        measured[link] = _within_link(link, arguments)
        found[link] = summary(measured[link])
        print(f"link of {link} Mbit/s" if link else "loopback as it is")
        print(f"  {'':<20}{'ms a step':>12}{'times as fast':>16}{'MB a step':>12}")
        for name, row in found[link].items():
            sent = f"{row['mb']:>12.2f}" if "mb" in row else ""
            print(f"  {name:<20}{row['ms']:>12.1f}{row['ratio']:>16.2f}{sent}", flush=True)
    links_flag = f"--links={','.join(map(str, links))}"
    results_file.write(options.results, "local_steps.py", [*arguments, links_flag], summary=found, rounds=measured)


if __name__ == "__main__":
    command.execute(_main)
