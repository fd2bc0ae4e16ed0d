"""Trains an experiment in float32 and in bfloat16, in turns: processor time of a step, and the metric at the end.

    TF_NUM_INTRAOP_THREADS=1 python benchmarks/precision.py --config=mnist/lstm_small_batch --data_dir=FOLDER \\
      --override=duration="3 epochs" --seeds=0,1,2 --results=precision.json

Each run is in a process of its own. A step's time is the mean over a run, evaluations and the first call apart; the
table has the median over the seeds, and the ratio of the pairs of a seed.
"""

import contextlib
import io
import json
import multiprocessing
import os
import statistics
import tempfile
import time

import results_file
from absl import flags

from tfbigbatch import experiment
from tfbigbatch.utils import command

PRECISIONS = ("float32", "bfloat16")

flags.DEFINE_string("config", None, "The experiment.", required=True)
flags.DEFINE_list("override", [], "Changes to it: FIELD=VALUE, as duration=3 epochs.")
flags.DEFINE_string("data_dir", None, "Where the task's data lies.")
flags.DEFINE_list("seeds", ["0", "1", "2"], "A pair of runs for each.")
flags.DEFINE_string("results", None, "Also write the figures to this JSON file.")


def run(name, overrides, data_dir, seed, precision):
    """(the target's metric, processor seconds of a step) of one run; called in a process of its own."""
    import tf_keras

    from tfbigbatch import train
    from tfbigbatch.runs.metric import Metric

    class StepTime(tf_keras.callbacks.Callback):
        seconds, steps, before = 0.0, 0, None

        def on_train_begin(self, logs=None):
            # Evaluation and the first call, which traces, are not part of a step's time.
            self.before = None

        def on_train_batch_end(self, batch, logs=None):
            now = time.process_time(), batch
            if self.before is not None:
                self.seconds += now[0] - self.before[0]
                self.steps += batch - self.before[1]
            self.before = now

    config = experiment.load(name)
    experiment.override(config, overrides)
    config.mixed_precision, config.seed = precision, seed
    measured = StepTime()
    # Only the result is wanted, not the trainer's own output.
    with tempfile.TemporaryDirectory() as directory, contextlib.redirect_stdout(io.StringIO()):
        status = train.run(config, model_dir=os.path.join(directory, "run"), data_dir=data_dir, callbacks=[measured])
    return status["metrics"][Metric.of_task(config.task).name], measured.seconds / measured.steps


def _main(unused):
    options = flags.FLAGS
    results_file.check(options.results)
    seeds = command.numbers("seeds", options.seeds, int)
    found = {name: {"metrics": [], "step_seconds": []} for name in PRECISIONS}
    for seed in seeds:
        for name in PRECISIONS:
            with multiprocessing.get_context("spawn").Pool(1) as fresh:
                metric, seconds = fresh.apply(run, (options.config, options.override, options.data_dir, seed, name))
            found[name]["metrics"].append(metric)
            found[name]["step_seconds"].append(seconds)
            print(f"seed {seed} {name}: {metric:.5f}, {1e3 * seconds:.2f} ms of a processor a step", flush=True)
    ratios = [
        wide / narrow for wide, narrow in zip(found["float32"]["step_seconds"], found["bfloat16"]["step_seconds"])
    ]
    for name, values in found.items():
        shown = (
            f"{statistics.mean(values['metrics']):.4f} ({min(values['metrics']):.4f} to {max(values['metrics']):.4f})"
        )
        print(f"{name}: metric {shown}, {1e3 * statistics.median(values['step_seconds']):.2f} ms a step")
    print(f"float32 over bfloat16: {statistics.median(ratios):.2f} ({json.dumps([round(each, 2) for each in ratios])})")
    arguments = [f"--config={options.config}", *(f"--override={each}" for each in options.override)]
    results_file.write(
        options.results, "precision.py", [*arguments, f"--seeds={','.join(options.seeds)}"], seeds=seeds, found=found
    )


if __name__ == "__main__":
    command.execute(_main)
