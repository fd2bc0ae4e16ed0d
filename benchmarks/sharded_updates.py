"""Updates that every replica makes in full, or of its share of the layers (shard_updates): time and memory.

    python benchmarks/sharded_updates.py --model=resnet50 --replicas=4
    python benchmarks/sharded_updates.py --model=bert_base --workers=2 --results=sharded.json

With --replicas, MirroredStrategy over as many logical CPUs; with --workers, as many processes under
MultiWorkerMirroredStrategy on loopback. Both ways take turns on the same variables, round after round; ratios are taken
within a round. An update is timed with the sum of the gradients over the replicas and without it. Then each way has
processes of its own, for the memory of the state and the most that a process took.
"""

import json
import resource
import statistics
import time

import processes
import results_file
import variables
from absl import flags

from tfbigbatch.errors import InputError
from tfbigbatch.utils import command

WAYS = ("whole", "sharded")
PARTS = ("update_and_sum", "update")
_OPTIMIZERS = {"adamw": "AdamW", "lamb": "LAMB", "lars": "LARS", "muon": "Muon", "shampoo": "Shampoo"}

flags.DEFINE_enum("model", None, variables.models(), "Whose variables are updated.", required=True)
flags.DEFINE_enum("optimizer", "lamb", sorted(_OPTIMIZERS), "What updates them.")
flags.DEFINE_integer("replicas", None, "Replicas in one process.", lower_bound=2)
flags.DEFINE_integer("workers", None, "Processes, of one replica each.", lower_bound=2)
flags.DEFINE_integer("repeats", 5, "Timed rounds, after one to warm up.", lower_bound=1)
flags.DEFINE_string("results", None, "Also write all numbers to this JSON file.")
flags.DEFINE_list("ways", list(WAYS), "Set by the benchmark itself: what the process measures.")
flags.DEFINE_string("measure_into", None, "Set by the benchmark itself: be one of its processes.")


class _Updates:
    """An optimizer on variables that may be others' too; its methods run updates."""

    def __init__(self, strategy, weights, shard):
        from tfbigbatch.optimizers import keras2

        options = flags.FLAGS
        self._strategy, self._weights = strategy, weights
        with strategy.scope():
            self.optimizer = getattr(keras2, _OPTIMIZERS[options.optimizer])(
                1e-4, weight_decay=0.01, exclude_from_weight_decay="norm_and_bias", shard_updates=shard
            )
            self.optimizer.build(weights)
        self._steps = {part: self._step(part == "update") for part in PARTS}

    def _step(self, are_summed):
        import tensorflow as tf

        def in_replica(*gradients):
            pairs = list(zip(gradients, self._weights))
            self.optimizer.apply_gradients(pairs, skip_gradients_aggregation=are_summed)

        @tf.function
        def step(gradients):
            self._strategy.run(in_replica, args=tuple(gradients))
            return tf.convert_to_tensor(self.optimizer.iterations)

        return step

    def seconds(self, part, gradients):
        """Seconds of one update; the count that it returns says that it is done."""
        start = time.perf_counter()
        int(self._steps[part](gradients))
        return time.perf_counter() - start

    def state_bytes(self):
        """Bytes of state on the replica of this process that has most."""
        found = {}
        for variable in self.optimizer.variables:
            for copy in self._strategy.experimental_local_results(variable):
                found[copy.device] = found.get(copy.device, 0) + copy.shape.num_elements() * copy.dtype.size
        return max(found.values())


def _measure(path):
    """One process' rounds: of all replicas, or as a worker of TF_CONFIG's cluster."""
    import tensorflow as tf

    from tfbigbatch.training import strategy as strategies

    options = flags.FLAGS
    strategy = processes.strategy(options.replicas)
    table = variables.shapes(options.model)
    with strategy.scope():
        weights = [
            tf.Variable(tf.random.stateless_uniform(shape, [index, 0], -0.05, 0.05), name=name)
            for index, (name, shape) in enumerate(table)
        ]

    @tf.function
    def gradients_of_all():
        def replica():
            # On each replica's device; TensorFlow would fold constants.
            return [
                tf.random.stateless_uniform(shape, [index, 1], -0.01, 0.01) for index, (_, shape) in enumerate(table)
            ]

        return strategy.run(replica)

    gradients = gradients_of_all()
    updates = {way: _Updates(strategy, weights, way == "sharded") for way in options.ways}
    rounds = []
    for number in range(options.repeats + 1):
        row = {}
        for part in PARTS:
            for way in options.ways if number % 2 else reversed(options.ways):
                strategies.barrier(strategy)
                row.setdefault(part, {})[way] = updates[way].seconds(part, gradients)
        if number:
            rounds.append(row)
    found = {
        "rounds": rounds,
        "state_bytes": {way: updates[way].state_bytes() for way in options.ways},
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }
    with open(path, "w", encoding="utf-8") as file:
        json.dump(found, file)
    strategies.barrier(strategy)


def summary(timed, alone):
    """Medians over the rounds of the first process, and the memory of the process that has most.

    Args:
      timed: what the processes measured of both ways in turns.
      alone: dictionary of way to what its own processes measured.

    Returns:
      Dictionary: milliseconds of each part and way, and the ratio of a round (above 1: sharded is faster); megabytes of
      a replica's state, and of the most that a process took.
    """
    found = {}
    for part in PARTS:
        rows = [row[part] for row in timed[0]["rounds"]]
        for way in WAYS:
            found[f"{part}_{way}_ms"] = 1e3 * statistics.median(row[way] for row in rows)
        found[f"{part}_ratio"] = statistics.median(row["whole"] / row["sharded"] for row in rows)
    for way in WAYS:
        found[f"state_{way}_mb"] = max(each["state_bytes"][way] for each in alone[way]) / 1e6
        found[f"peak_{way}_mb"] = max(each["peak_bytes"] for each in alone[way]) / 1e6
    return found


def _main(unused):
    options = flags.FLAGS
    if bool(options.replicas) == bool(options.workers):
        raise InputError("Give --replicas (of one process) or --workers (processes), one of the two.")
    if options.measure_into:
        _measure(options.measure_into)
        return
    results_file.check(options.results)
    size = f"--replicas={options.replicas}" if options.replicas else f"--workers={options.workers}"
    arguments = [f"--model={options.model}", f"--optimizer={options.optimizer}", size]
    repeats = f"--repeats={options.repeats}"
    timed = processes.run(__file__, [*arguments, repeats], options.workers)
    alone = {
        way: processes.run(__file__, [*arguments, "--repeats=1", f"--ways={way}"], options.workers) for way in WAYS
    }
    found = summary(timed, alone)
    where = f"{options.workers} processes" if options.workers else f"{options.replicas} replicas in one process"
    print(f"{options.model}, {options.optimizer}, {where}; medians of {options.repeats} rounds")
    for name, value in found.items():
        print(f"{name:<28}{value:>10.2f}")
    results_file.write(
        options.results, "sharded_updates.py", [*arguments, repeats], summary=found, timed=timed, alone=alone
    )


if __name__ == "__main__":
    command.execute(_main)
