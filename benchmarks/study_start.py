"""Seconds of a study of short runs, whose runs are forks of one process or new processes, in turns.

    python benchmarks/study_start.py --results=results/throughput/study_start.json

The share that is no training is what is left of processes x seconds without the seconds that each run trained after its
first step.
"""

import glob
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

from absl import flags

from tfbigbatch.utils import command
from tfbigbatch.utils.files import write_json

flags.DEFINE_string("config", "digits/lstm_legw", "The experiment.")
flags.DEFINE_string("duration", "60 steps", "Of each run.")
flags.DEFINE_integer("runs", 8, "Runs of the study.", lower_bound=2)
flags.DEFINE_integer("processes", 2, "Runs at once.", lower_bound=1)
flags.DEFINE_integer("rounds", 3, "Studies of each kind; the table has medians.", lower_bound=1)
flags.DEFINE_string("results", None, "Also write the figures to this JSON file.")


def _study(how):
    options = flags.FLAGS
    with tempfile.TemporaryDirectory() as folder:
        arguments = [
            f"--configs={options.config}",
            f"--seeds={','.join(map(str, range(options.runs)))}",
            f"--config.duration={options.duration}",
            f"--model_dir={folder}",
            f"--processes={options.processes}",
            how,
        ]
        used = [resource.getrusage(resource.RUSAGE_CHILDREN)]
        started = time.perf_counter()
        subprocess.run([sys.executable, "-m", "tfbigbatch", "study", *arguments], check=True, stdout=subprocess.DEVNULL)
        seconds = time.perf_counter() - started
        used.append(resource.getrusage(resource.RUSAGE_CHILDREN))
        processor = [each.ru_utime + each.ru_stime for each in used]
        trained = 0.0
        for path in glob.glob(os.path.join(glob.escape(folder), "**", "status.json"), recursive=True):
            with open(path, encoding="utf-8") as file:
                status = json.load(file)
            start = status["start"]
            # `seconds` counts from the opening of the run directory.
            trained += status["seconds"] - start["input"] - start["tracing"] - start["first_step"]
    share = 1.0 - trained / (options.processes * seconds)
    return {"seconds": seconds, "processor": processor[1] - processor[0], "share": share}


def _main(unused):
    options = flags.FLAGS
    kinds = {"new processes": "--nofork", "forks": "--fork"}
    measured = {name: [] for name in kinds}
    for _ in range(options.rounds):
        for name, flag in kinds.items():
            measured[name].append(_study(flag))
    print("| runs | seconds | of a processor | share that is no training |\n|---|---:|---:|---:|")
    for name, rounds in measured.items():
        seconds, processor, share = (
            statistics.median(each[part] for each in rounds) for part in ("seconds", "processor", "share")
        )
        print(f"| {name} | {seconds:.1f} | {processor:.1f} | {share:.0%} |")
    if options.results:
        setting = {name: options[name].value for name in ("config", "duration", "runs", "processes")}
        write_json(options.results, {"setting": setting, "cores": os.cpu_count(), "measured": measured})


if __name__ == "__main__":
    command.execute(_main)
