"""Times the trainer's step beside PyTorch's and JAX's: the same networks, batches, precision and optimizer, on CPUs.

    python benchmarks/frameworks [--networks=gnmt_multi30k_64,ptb_small_20] [--cores=1,2]

The first call installs PyTorch and JAX, at the versions of constraints.txt, into an environment of its own. Of each row
all frameworks have a process that stays; they are timed in turn, round after round. Before that they must have as many
parameters, and the same loss over their first steps from the same weights. A row's figures are kept in the file of
results at once, and a row that is there is not measured again, so that the command can be stopped and called again.

On one core the ratios are of CPU seconds, which other processes change little; on more they are of wall seconds, for
which the machine has to be idle. --table prints what the file has, as Markdown.
"""

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import networks
import worker

FOLDER = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(FOLDER))
CONSTRAINTS = os.path.join(FOLDER, "constraints.txt")
ENVIRONMENT = os.path.join(ROOT, ".venv-frameworks")
RESULTS = os.path.join(ROOT, "results", "throughput", "frameworks.json")
OURS = ("tfbigbatch", "tfbigbatch_xla")
DEFAULT = ("tfbigbatch", "tfbigbatch_xla", "torch", "jax")
# Of the losses of the first steps, relative: float32 sums in other orders, and bfloat16 rounds as it likes.
TOLERANCE = {"float32": 2e-3, "bfloat16": 5e-2}
CHECKED_STEPS = {"resnet50": 2}


# ---------------------------------------------------------------------------------------- the environment


def ensure_environment():
    """The interpreter of the environment with PyTorch and JAX, installed where it is missing or of other versions."""
    python, marker = os.path.join(ENVIRONMENT, "bin", "python"), os.path.join(ENVIRONMENT, "installed.txt")
    with open(CONSTRAINTS, encoding="utf-8") as file:
        wanted = sys.version.split()[0] + "\n" + file.read()
    with contextlib.suppress(OSError), open(marker, encoding="utf-8") as file:
        if file.read() == wanted:
            return python
    print(f"installing PyTorch and JAX into {ENVIRONMENT}", flush=True)
    options = ["--quiet", "--disable-pip-version-check", "--constraint", CONSTRAINTS]
    for command in (
        [sys.executable, "-m", "venv", "--clear", ENVIRONMENT],
        [python, "-m", "pip", "install", *options, "torch", "jax"],
    ):
        if subprocess.run(command).returncode:
            sys.exit(
                f"error: {' '.join(command)} failed. It needs a package index and 1.3 GB of disk, or 6 GB where the "
                "index has PyTorch's build for CUDA alone; PIP_EXTRA_INDEX_URL may name PyTorch's index of CPU builds."
            )
    with open(marker, "w", encoding="utf-8") as file:
        file.write(wanted)
    return python


# -------------------------------------------------------------------------------------------------- a row


class Worker:
    """The process of one framework; see worker.py for its commands."""

    def __init__(self, framework, name, cores, python):
        self.framework = framework
        ours = framework.startswith("tfbigbatch")
        # A file and not a pipe, which would be full one day.
        self._said = tempfile.TemporaryFile(mode="w+")
        self._process = subprocess.Popen(
            [
                sys.executable if ours else python,
                os.path.join(FOLDER, "worker.py"),
                *(f"--framework={framework}", f"--network={name}", f"--cores={cores}"),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            text=True,
            env={**os.environ, **({"PYTHONPATH": ROOT, "TF_CPP_MIN_LOG_LEVEL": "3"} if ours else {})},
        )

    def answer(self, command=None):
        """The answer to a command, or what the process says first."""
        if command:
            self._process.stdin.write(f"{command}\n")
            self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            code = self._process.wait()
            self._said.seek(0)
            raise RuntimeError(f"{self.framework} ended with exit code {code}:\n{self._said.read()[-2000:]}")
        return json.loads(line)

    def close(self):
        self._process.kill()
        self._process.communicate()
        self._said.close()


def measure(name, cores, frameworks, python, rounds, seconds):
    """A row: the figures of all frameworks on a network.

    Args:
      name: of `networks.NETWORKS`.
      cores: on which each may run.
      frameworks: names of `worker.FRAMEWORKS`.
      python: interpreter that has the others.
      rounds: timed ones, after one that is not counted.
      seconds: of a timing, about.

    Raises:
      ValueError: they do not have the same parameters or losses.
    """
    network, workers = networks.NETWORKS[name], []
    try:
        facts, losses = {}, {}
        for framework in frameworks:
            workers.append(Worker(framework, name, cores, python))
            facts[framework] = workers[-1].answer()
            # One after the other: they compile.
            losses[framework] = workers[-1].answer(f"check {_checked_steps(network)}")["loss"]
            workers[-1].answer(f"time {seconds / 4}")
        check_agreement(network, {each: fact["parameters"] for each, fact in facts.items()}, losses)
        timings = {framework: [] for framework in frameworks}
        for turn in range(rounds):
            for each in workers[turn % len(workers) :] + workers[: turn % len(workers)]:
                timings[each.framework].append(each.answer(f"time {seconds}"))
    finally:
        for each in workers:
            each.close()
    return {
        "network": name,
        "cores": cores,
        "parameters": network.parameters,
        "versions": {framework: fact["version"] for framework, fact in facts.items()},
        "losses": losses,
        "seconds_of_a_step": {
            kind: {framework: [each[kind] for each in timed] for framework, timed in timings.items()}
            for kind in ("wall", "cpu")
        },
    }


def _checked_steps(network):
    return CHECKED_STEPS.get(network.family, 10)


def check_agreement(network, parameters, losses):
    """Refuses frameworks that train something else.

    Raises:
      ValueError: a number of parameters, or a loss, differs.
    """
    for framework, count in parameters.items():
        if count != network.parameters:
            raise ValueError(f"{framework} has {count:,} parameters; expected {network.parameters:,}.")
    middle, tolerance = statistics.median(losses.values()), TOLERANCE[network.dtype]
    for loss in losses.values():
        # Not `>`: a NaN has to be refused too.
        if not abs(loss - middle) <= tolerance * abs(middle):
            raise ValueError(f"the first losses differ by more than {tolerance} of them: {losses}.")


def medians(row):
    """Seconds of a step by framework, and ratios to the faster of ours: (median seconds, median ratio in a round).

    A ratio above 1 says that ours is faster.
    """
    column = row["seconds_of_a_step"]["cpu" if row["cores"] == 1 else "wall"]
    middle = {framework: statistics.median(timed) for framework, timed in column.items()}
    best = min((each for each in OURS if each in middle), key=middle.get)
    ratios = {
        framework: statistics.median(their / our for their, our in zip(timed, column[best]))
        for framework, timed in column.items()
        if framework not in OURS
    }
    return middle, ratios


# ---------------------------------------------------------------------------------------------- the command


def table(rows):
    """The rows as a Markdown table: steps a second, and how many times as fast the faster of ours is."""
    others = [each for each in worker.FRAMEWORKS if each not in OURS and any(each in row["losses"] for row in rows)]
    columns = ["network", "cores", *OURS, *others, *(f"ours / {each}" for each in others)]
    lines = [f"| {' | '.join(columns)} |", "|---" + "|---:" * (len(columns) - 1) + "|"]
    for row in rows:
        middle, ratios = medians(row)
        cells = [row["network"], str(row["cores"])]
        cells += [f"{1 / middle[each]:.3g}" if each in middle else "" for each in (*OURS, *others)]
        cells += [f"{ratios[each]:.2f}" if each in ratios else "" for each in others]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _load(path):
    with contextlib.suppress(FileNotFoundError), open(path, encoding="utf-8") as file:
        return json.load(file)["rows"]
    return []


def _save(path, rows):
    order = list(networks.NETWORKS)
    rows.sort(key=lambda row: (order.index(row["network"]), row["cores"]))
    fresh = f"{path}.new"
    with open(fresh, "w", encoding="utf-8") as file:
        json.dump({"command": "python benchmarks/frameworks", "rows": rows}, file, indent=1)
        file.write("\n")
    os.replace(fresh, path)


def _list_of(known, kind=str):
    def parse(text):
        found = [kind(each) for each in text.split(",")]
        for each in found:
            if each not in known:
                raise argparse.ArgumentTypeError(f"{each}: expected some of {', '.join(map(str, known))}")
        return found

    return parse


def _main():
    parser = argparse.ArgumentParser(
        prog="python benchmarks/frameworks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    cpus = range(1, len(os.sched_getaffinity(0)) + 1)
    parser.add_argument("--networks", type=_list_of(networks.NETWORKS), default=networks.NAMES, help="all by default")
    parser.add_argument("--cores", type=_list_of(cpus, int), default=[1, 2][: len(cpus)], help="1,2 by default")
    parser.add_argument("--frameworks", type=_list_of(worker.FRAMEWORKS), default=list(DEFAULT))
    parser.add_argument("--rounds", type=int, default=5, help="timings of each framework (5)")
    parser.add_argument("--seconds", type=float, default=2.0, help="of one timing, about (2)")
    parser.add_argument("--results", default=RESULTS, help="file of results (results/throughput/frameworks.json)")
    parser.add_argument("--install_only", action="store_true", help="only make the environment")
    parser.add_argument("--table", action="store_true", help="only print the table of the file of results")
    given = parser.parse_args()
    rows = _load(given.results)
    if given.table:
        print(table(rows))
        return
    python = ensure_environment()
    if given.install_only:
        return
    there = {(row["network"], row["cores"]) for row in rows}
    for name in given.networks:
        for cores in given.cores:
            if (name, cores) in there:
                continue
            started = time.perf_counter()
            rows.append(measure(name, cores, given.frameworks, python, given.rounds, given.seconds))
            _, ratios = medians(rows[-1])
            shown = ", ".join(f"{ratio:.2f} of {framework}" for framework, ratio in ratios.items())
            print(f"{name}, {cores} core(s): {shown}; {time.perf_counter() - started:.0f} s", flush=True)
            _save(given.results, rows)
    print(table(rows))


if __name__ == "__main__":
    _main()
