"""The critical batch of whole runs, which one by branching is checked against.

    tfbigbatch study --config=digits/lstm_small_batch --config.schedule.rule=sqrt \\
      --sweep.batch_size=32,64,128,256,512 --seeds=0,1,2,3 --model_dir=runs/whole \\
      --ended_runs=results/ramp/runs.jsonl.gz
    python benchmarks/critical_batch.py --ended_runs=results/ramp/runs.jsonl.gz

Whole runs of one recipe, scaled to several batch sizes by a rule, and the largest batch that loses less than the
tolerance at their end: the function that `tfbigbatch critical-batch` applies to branches. Prints a Markdown table.
"""

import collections
import json
import math
import statistics

from absl import flags

from tfbigbatch.errors import InputError
from tfbigbatch.reports.table import Table
from tfbigbatch.scaling.critical_batch import critical_batch
from tfbigbatch.utils import command

flags.DEFINE_string("ended_runs", None, "File of a study's ended runs.", required=True)
flags.DEFINE_string("metric", "cross_entropy", "The held-out loss, as the evaluations call it.")
flags.DEFINE_float("tolerance", 0.02, "What a batch may lose, in nats.", lower_bound=0.0)


def losses_of(path, metric):
    """The last value of a metric by batch size, in the order of the seeds: {batch size: [loss, ...]}."""
    by_seed = collections.defaultdict(dict)
    with open(path, encoding="utf-8") as file:
        for line in file:
            run = json.loads(line)
            config, metrics = run["started"]["config"], run["status"]["metrics"] or {}
            if metrics and metric not in metrics:
                raise InputError(f"--metric={metric}: expected one of {', '.join(sorted(metrics))}.")
            by_seed[config["batch_size"]][config["seed"]] = metrics.get(metric, math.inf)
    return {size: [loss for _, loss in sorted(seeds.items())] for size, seeds in sorted(by_seed.items())}


def table(losses, critical):
    """A row for each batch size, with its loss and what it has lost."""
    rows = [
        [f"{size:,}", f"{statistics.fmean(of_seeds):.3f}", f"{critical.excess[size]:+.3f}"]
        for size, of_seeds in losses.items()
    ]
    return Table(["batch", "held-out loss", "lost"], rows)


def _main(unused):
    options = flags.FLAGS
    losses = losses_of(options.ended_runs, options.metric)
    critical = critical_batch(losses, tolerance=options.tolerance)
    print("\n".join(table(losses, critical).markdown()))
    ends = " to ".join("beyond" if math.isinf(end) else f"{end:,.0f}" for end in (critical.low, critical.high))
    print(f"\ncritical batch: {critical.estimate:,.0f} ({ends}), of {len(next(iter(losses.values())))} seeds")


if __name__ == "__main__":
    command.execute(_main)
