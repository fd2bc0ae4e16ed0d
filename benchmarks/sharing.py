"""Muon's orthogonalisations, repeated by all replicas or shared by them: time, operations and bytes.

    python benchmarks/sharing.py --model=resnet50 --replicas=4
    python benchmarks/sharing.py --model=bert_base --workers=2 --results=sharing.json
    python benchmarks/sharing.py --model=bert_base --computed

With --replicas, MirroredStrategy over as many logical CPUs; with --workers, as many processes under
MultiWorkerMirroredStrategy on loopback, which nothing else may use meanwhile: its counters give the bytes. Both take
turns, round after round; ratios are taken within a round. With --computed nothing is measured: prints what a replica
computes and receives with 2 to 512 of them, in processes of their own.
"""

import functools
import json
import time

import numpy as np
import processes
import results_file
import variables
from absl import flags

from tfbigbatch.errors import InputError
from tfbigbatch.utils import command

_STEPS = 5
_COMPUTED_FOR = (2, 4, 8, 64, 512)

flags.DEFINE_enum("model", None, variables.models(), "Whose matrices are orthogonalised.", required=True)
flags.DEFINE_integer("replicas", None, "Replicas in one process.", lower_bound=2)
flags.DEFINE_integer("workers", None, "Processes, of one replica each.", lower_bound=2)
flags.DEFINE_bool("computed", False, "Print what is computed and received with more replicas, and measure nothing.")
flags.DEFINE_integer("repeats", 5, "Timed rounds, after one to warm up.", lower_bound=1)
flags.DEFINE_string("results", None, "Also write all numbers to this JSON file.")
flags.DEFINE_string("measure_into", None, "Set by the benchmark itself: be one of its processes.")


def batches_of(model):
    """Shapes [k, rows, columns] of the matrices that Muon makes of a model's variables."""
    from tfbigbatch.optimizers import matrices

    paths, shapes = zip(*variables.shapes(model))
    return [view.matrix_shape for view in matrices.views(paths, shapes) if view is not None]


def computed(model, replicas, *, is_cluster):
    """The operations and bytes of a step with all work shared; an `assignment.Work`."""
    from tfbigbatch.optimizers import assignment, orthogonalization

    groups = [assignment.Group(*shape) for shape in batches_of(model)]
    exchange = assignment.Exchange.COLLECTIVE if is_cluster else assignment.Exchange.SHARED_MEMORY
    flops = functools.partial(orthogonalization.flops, steps=_STEPS)
    return assignment.work(groups, flops, replicas, exchange=exchange, share=True)


def _measure(path):
    """One process' rounds: of all replicas, or as a worker of TF_CONFIG's cluster."""
    import tensorflow as tf

    from tfbigbatch.optimizers import orthogonalization, sharing
    from tfbigbatch.training import strategy as strategies

    options = flags.FLAGS
    strategy = processes.strategy(options.replicas)
    flops = functools.partial(orthogonalization.flops, steps=_STEPS)
    coefficients = orthogonalization.coefficients("quintic", _STEPS)

    def transform(batch):
        return orthogonalization.newton_schulz(batch, coefficients)

    def merged(strategy, batches, share):
        of_replicas = [list(strategy.experimental_local_results(batch)) for batch in batches]
        outcomes = sharing.map_matrices(transform, of_replicas, flops=flops, strategy=strategy, share=share)
        # All of every matrix is there once a number of each is.
        found.append([[value[0, 0, 0] for value in of_replicas] for of_replicas in outcomes])

    found = []

    @tf.function
    def everywhere(batches, share):
        def replica(batches):
            # TensorFlow asks where they are, and an argument is nowhere.
            batches = [tf.identity(each) for each in batches]
            context = tf.distribute.get_replica_context()
            context.merge_call(lambda strategy, batches: merged(strategy, batches, share), args=(batches,))

        found.clear()
        strategy.run(replica, args=(batches,))
        return found[0]

    @tf.function
    def batches_of_all():
        def replica():
            return [
                tf.random.stateless_normal(shape, [0, index]) for index, shape in enumerate(batches_of(options.model))
            ]

        return strategy.run(replica)

    batches = batches_of_all()
    rows = []
    for number in range(options.repeats + 1):
        row = {}
        for name, share in (("repeated", False), ("shared", True)):
            strategies.barrier(strategy)
            before, start = processes.loopback_bytes(), time.perf_counter()
            for value in tf.nest.flatten(everywhere(batches, share)):
                value.numpy()
            seconds = time.perf_counter() - start
            strategies.barrier(strategy)
            after = processes.loopback_bytes()
            row[name] = {"seconds": seconds, "loopback_bytes": None if before is None else after - before}
        if number:
            rows.append(row)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(rows, file)
    strategies.barrier(strategy)


def summary(rounds, work, workers):
    """Medians over the rounds of the first process, beside what was computed.

    Returns:
      Dictionary: seconds of each, the ratio (of a round), GFLOP of a replica of each; between processes the megabytes
      that a worker receives, as computed and as the loopback interface counted them.
    """
    seconds = {name: np.array([row[name]["seconds"] for row in rounds]) for name in ("repeated", "shared")}
    found = {f"{name}_s": float(np.median(values)) for name, values in seconds.items()}
    found["ratio"] = float(np.median(seconds["repeated"] / seconds["shared"]))
    found.update(repeated_gflop=work.flops_unshared / 1e9, shared_gflop=work.flops / 1e9)
    if workers:
        found["received_mb"] = work.received_bytes / 1e6
        if rounds[0]["shared"]["loopback_bytes"] is not None:
            found["counted_mb"] = float(np.median([row["shared"]["loopback_bytes"] for row in rounds]) / workers / 1e6)
    return found


def _print_computed(model):
    print(f"{'replicas':>8}{'GFLOP':>10}{'received, MB':>14}")
    print(f"{1:>8}{computed(model, 2, is_cluster=True).flops_unshared / 1e9:>10,.0f}")
    for replicas in _COMPUTED_FOR:
        work = computed(model, replicas, is_cluster=True)
        print(f"{replicas:>8}{work.flops / 1e9:>10,.0f}{work.received_bytes / 1e6:>14,.0f}")


def _main(unused):
    options = flags.FLAGS
    if options.computed:
        _print_computed(options.model)
        return
    if bool(options.replicas) == bool(options.workers):
        raise InputError("Give --replicas (of one process) or --workers (processes), one of the two.")
    if options.measure_into:
        _measure(options.measure_into)
        return
    results_file.check(options.results)
    size = f"--replicas={options.replicas}" if options.replicas else f"--workers={options.workers}"
    arguments = [f"--model={options.model}", size, f"--repeats={options.repeats}"]
    measured = processes.run(__file__, arguments, options.workers)
    work = computed(options.model, options.replicas or options.workers, is_cluster=bool(options.workers))
    found = summary(measured[0], work, options.workers)
    where = f"{options.workers} processes" if options.workers else f"{options.replicas} replicas in one process"
    print(f"{options.model}, {work.matrices} matrices, {where}; medians of {options.repeats} rounds")
    for name, value in found.items():
        print(f"{name:<28}{value:>10.2f}")
    results_file.write(options.results, "sharing.py", arguments, matrices=work.matrices, summary=found, rounds=measured)


if __name__ == "__main__":
    command.execute(_main)
