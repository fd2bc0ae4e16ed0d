"""Adasum of a model's gradients beside a plain all-reduce of them: time, and bytes between processes.

    python benchmarks/adasum.py --model=resnet50 --replicas=4
    python benchmarks/adasum.py --model=bert_base --workers=2 --results=adasum.json

With --replicas, MirroredStrategy over as many logical CPUs; with --workers, as many processes under
MultiWorkerMirroredStrategy on loopback, which nothing else may use meanwhile: its counters give the bytes.
Both take turns, round after round; ratios are taken within a round.
"""

import json
import time

import numpy as np
import processes
import results_file
import variables
from absl import flags

from tfbigbatch.errors import InputError
from tfbigbatch.utils import command

flags.DEFINE_enum("model", None, variables.models(), "Whose gradients are combined.", required=True)
flags.DEFINE_integer("replicas", None, "Replicas in one process.", lower_bound=2)
flags.DEFINE_integer("workers", None, "Processes, of one replica each.", lower_bound=2)
flags.DEFINE_integer("repeats", 7, "Timed rounds, after one to warm up.", lower_bound=1)
flags.DEFINE_string("results", None, "Also write all numbers to this JSON file.")
flags.DEFINE_string("measure_into", None, "Set by the benchmark itself: be one of its processes.")


def floor(replicas):
    """The bytes that Adasum in one process streams through memory, over those of a sum.

    A sum reads n gradients and writes one. Adasum reads them for the dot products first.
    """
    return (2 * replicas + 1) / (replicas + 1)


def _measure(path):
    """One process' share: all of it, or a worker of TF_CONFIG's cluster."""
    import tensorflow as tf

    from tfbigbatch.optimizers.adasum import exchange
    from tfbigbatch.training import strategy as strategies

    options = flags.FLAGS
    strategy = processes.strategy(options.replicas)
    table = variables.shapes(options.model)

    def all_reduce(gradients):
        return tf.distribute.get_replica_context().all_reduce("SUM", gradients)

    def function(combine):
        @tf.function
        def everywhere(gradients):
            def replica(gradients):
                # TensorFlow asks where they are, and an argument is nowhere.
                gradients = [tf.identity(each) for each in gradients]
                # All of every layer is there once a number of each is.
                return tf.add_n([tf.reshape(each, [-1])[0] for each in combine(gradients)])

            return strategy.run(replica, args=(gradients,))

        return everywhere

    @tf.function
    def gradients_of_all():
        def replica():
            own = tf.distribute.get_replica_context().replica_id_in_sync_group
            return [
                tf.random.stateless_uniform(shape, tf.stack([own, index]), -0.01, 0.01)
                for index, (_, shape) in enumerate(table)
            ]

        return strategy.run(replica)

    gradients = gradients_of_all()
    baselines = {"all_reduce": function(all_reduce), "adasum": function(exchange.combined)}
    rows = []
    for number in range(options.repeats + 1):
        row = {}
        for name, everywhere in baselines.items():
            strategies.barrier(strategy)
            before, start = processes.loopback_bytes(), time.perf_counter()
            for outcome in strategy.experimental_local_results(everywhere(gradients)):
                outcome.numpy()
            seconds = time.perf_counter() - start
            strategies.barrier(strategy)
            after = processes.loopback_bytes()
            row[name] = {"seconds": seconds, "loopback_bytes": None if before is None else after - before}
        if number:
            rows.append(row)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(rows, file)
    strategies.barrier(strategy)


def _rounds(options):
    """What each process measured: a list of its rounds."""
    size = f"--replicas={options.replicas}" if options.replicas else f"--workers={options.workers}"
    arguments = [f"--model={options.model}", size, f"--repeats={options.repeats}"]
    return processes.run(__file__, arguments, options.workers)


def summary(rounds, replicas, workers, gradient_bytes):
    """Medians over the rounds of the first process.

    Returns:
      Dictionary: 'all_reduce_ms', 'adasum_ms', 'ratio' (of a round), 'floor' (of the ratio; 1 between processes,
      where both send as much), and between processes the bytes that a worker sends, in gradients.
    """
    seconds = {name: np.array([row[name]["seconds"] for row in rounds]) for name in ("all_reduce", "adasum")}
    found = {f"{name}_ms": 1e3 * float(np.median(values)) for name, values in seconds.items()}
    found["ratio"] = float(np.median(seconds["adasum"] / seconds["all_reduce"]))
    found["floor"] = 1.0 if workers else floor(replicas)
    if workers and rounds[0]["adasum"]["loopback_bytes"] is not None:
        for name in seconds:
            sent = np.median([row[name]["loopback_bytes"] for row in rounds]) / workers
            found[f"{name}_gradients_sent"] = float(sent / gradient_bytes)
    return found


def _main(unused):
    options = flags.FLAGS
    if bool(options.replicas) == bool(options.workers):
        raise InputError("Give --replicas (of one process) or --workers (processes), one of the two.")
    if options.measure_into:
        _measure(options.measure_into)
        return
    results_file.check(options.results)
    parameters = variables.count(variables.shapes(options.model))
    measured = _rounds(options)
    found = summary(measured[0], options.replicas, options.workers, 4 * parameters)
    where = f"{options.workers} processes" if options.workers else f"{options.replicas} replicas in one process"
    print(f"{options.model}, {parameters:,} parameters, {where}; medians of {options.repeats} rounds")
    for name, value in found.items():
        print(f"{name:<28}{value:>10.2f}")
    size = f"--workers={options.workers}" if options.workers else f"--replicas={options.replicas}"
    arguments = [f"--model={options.model}", size, f"--repeats={options.repeats}"]
    results_file.write(options.results, "adasum.py", arguments, parameters=parameters, summary=found, rounds=measured)


if __name__ == "__main__":
    command.execute(_main)
