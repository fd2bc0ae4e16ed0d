"""Times the trainer's step beside PyTorch's: the same networks, batches, precision and optimizer, on CPUs.

    python benchmarks/frameworks [--networks=gnmt_multi30k_64,ptb_small_20] [--cores=1,2]

The first call installs PyTorch, at the version of constraints.txt, into an environment of its own. Of each row all
frameworks have a process that stays; they are timed in turn, round after round. Before that they must have as many
parameters, and the same loss over their first steps from the same weights. A row's figures are kept in the file of
results at once, and a row that is there is not measured again, so that the command can be stopped and called again.

On one core the ratios are of CPU seconds, which other processes change little; on more they are of wall seconds, for
which the machine has to be idle. --table prints what the file has, as Markdown.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import harness
import networks

FOLDER = os.path.dirname(os.path.abspath(__file__))
CONSTRAINTS = os.path.join(FOLDER, "constraints.txt")
ENVIRONMENT = os.path.join(harness.ROOT, ".venv-frameworks")
RESULTS = os.path.join(harness.ROOT, "frameworks.json")
OURS = ("tfbigbatch", "tfbigbatch_xla")
FRAMEWORKS = (*OURS, "torch", "torch_compile")
# Of the losses of the first steps, relative: float32 sums in other orders, and bfloat16 rounds as it likes.
TOLERANCE = {"float32": 2e-3, "bfloat16": 5e-2}


def ensure_environment() -> str:
    """The interpreter of the environment with PyTorch, installed where it is missing or of another version."""
    python, marker = os.path.join(ENVIRONMENT, "bin", "python"), os.path.join(ENVIRONMENT, "installed.txt")
    with open(CONSTRAINTS, encoding="utf-8") as file:
        wanted = sys.version.split()[0] + "\n" + file.read()
    with contextlib.suppress(OSError), open(marker, encoding="utf-8") as file:
        if file.read() == wanted:
            return python
    print(f"installing PyTorch into {ENVIRONMENT}", flush=True)
    for command in (
        [sys.executable, "-m", "venv", "--clear", ENVIRONMENT],
        [python, "-m", "pip", "install", "--quiet", "--constraint", CONSTRAINTS, "torch", "numpy"],
    ):
        if subprocess.run(command).returncode:
            sys.exit(
                f"error: {' '.join(command)} failed. It needs a package index and 1 GB of disk, or 6 GB where the "
                "index has PyTorch's build for CUDA alone; PIP_EXTRA_INDEX_URL may name PyTorch's index of CPU builds."
            )
    with open(marker, "w", encoding="utf-8") as file:
        file.write(wanted)
    return python


# ---------------------------------------------------------------------------------------------- a framework's process


def _steps(framework: str, network: networks.Network, cores: int) -> Callable[[str], Any]:
    """Answers 'facts'; 'check STEPS' with the mean loss of the first steps; 'time SECONDS' with the seconds of a step,
    over about as many seconds.
    """
    # Before the framework is imported, which makes as many threads as it may use.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
    os.environ["TF_NUM_INTRAOP_THREADS"] = str(cores)
    if framework.startswith("tfbigbatch"):
        import with_tfbigbatch as module

        step = module.Step(network, framework.endswith("_xla"))
    else:
        import with_torch as module

        step = module.Step(network, cores, framework.endswith("_compile"))
    seconds_of_step: list[float] = []

    def answer(line: str) -> Any:
        command, _, argument = line.partition(" ")
        if command == "facts":
            return {"parameters": step.parameters, "version": module.VERSION}
        if command == "check":
            return step.run(int(argument))
        if not seconds_of_step:
            seconds_of_step.append(harness.timed(lambda: step.run(1))["seconds"])
        steps = max(1, round(float(argument) / seconds_of_step[-1]))
        found = {name: value / steps for name, value in harness.timed(lambda: step.run(steps)).items()}
        seconds_of_step.append(found["seconds"])
        return found

    return answer


# -------------------------------------------------------------------------------------------------------------- a row


def measure(name: str, cores: int, given: argparse.Namespace, python: str) -> dict[str, Any]:
    """A row: the figures of all frameworks on a network, each on so many cores.

    Raises:
      ValueError: they do not have the same parameters or losses.
    """
    network, workers = networks.NETWORKS[name], {}
    try:
        facts, losses = {}, {}
        for framework in given.frameworks:
            ours = framework in OURS
            workers[framework] = worker = harness.Worker(
                [FOLDER, "--worker", framework, name, str(cores)],
                python=None if ours else python,
                environment={"PYTHONPATH": harness.ROOT} if ours else None,
            )
            worker.ask()
            facts[framework] = worker.ask("facts")
            # One after the other: they compile.
            losses[framework] = worker.ask(f"check {2 if network.family == 'resnet50' else 10}")
            worker.ask(f"time {given.seconds / 4}")
        check_agreement(network, {each: fact["parameters"] for each, fact in facts.items()}, losses)
        turns = {each: lambda worker=worker: worker.ask(f"time {given.seconds}") for each, worker in workers.items()}
        timed = harness.in_turns(turns, given.rounds, warm_ups=0, say=lambda line: None)
    finally:
        for worker in workers.values():
            worker.close()
    return {
        "network": name,
        "cores": cores,
        "parameters": facts[given.frameworks[0]]["parameters"],
        "versions": {framework: fact["version"] for framework, fact in facts.items()},
        "losses": losses,
        "seconds_of_a_step": {
            kind: {framework: [each[name] for each in timed[framework]] for framework in timed}
            for kind, name in (("wall", "seconds"), ("cpu", "cpu_seconds"))
        },
    }


def check_agreement(network: networks.Network, parameters: dict[str, int], losses: dict[str, float]) -> None:
    """Refuses frameworks that train something else.

    Raises:
      ValueError: a number of parameters, or a loss, differs.
    """
    if len(set(parameters.values())) > 1:
        raise ValueError(f"the numbers of parameters differ: {parameters}.")
    middle, tolerance = statistics.median(losses.values()), TOLERANCE[network.dtype]
    for loss in losses.values():
        # Not `>`: a NaN has to be refused too.
        if not abs(loss - middle) <= tolerance * abs(middle):
            raise ValueError(f"the first losses differ by more than {tolerance} of them: {losses}.")


def table(rows: Sequence[dict[str, Any]]) -> str:
    """The rows as a Markdown table: steps a second, and how many times as fast the faster of ours is."""
    others = [each for each in FRAMEWORKS if each not in OURS and any(each in row["losses"] for row in rows)]
    lines = []
    for row in rows:
        column = row["seconds_of_a_step"]["cpu" if row["cores"] == 1 else "wall"]
        middle = {framework: statistics.median(timed) for framework, timed in column.items()}
        best = column[min((each for each in OURS if each in middle), key=lambda each: middle[each])]
        cells = [f"{1 / middle[each]:.3g}" if each in middle else "" for each in (*OURS, *others)]
        for each in others:
            ratios = [their / our for their, our in zip(column.get(each, ()), best)]
            cells.append(f"{statistics.median(ratios):.2f}" if ratios else "")
        lines.append([row["network"], str(row["cores"]), *cells])
    return harness.table(["network", "cores", *OURS, *others, *(f"ours / {each}" for each in others)], lines)


def main() -> None:
    """Measures the rows that are not there, and prints the table."""
    parser = harness.parser(__doc__, "frameworks")
    cpus = range(1, len(os.sched_getaffinity(0)) + 1)
    parser.add_argument("--networks", type=harness.some_of(networks.NETWORKS), default=networks.NAMES)
    parser.add_argument("--cores", type=harness.some_of(cpus, int), default=[1, 2][: len(cpus)], help="1,2 by default")
    parser.add_argument("--frameworks", type=harness.some_of(FRAMEWORKS), default=[*OURS, "torch"])
    parser.add_argument("--rounds", type=int, default=5, help="timings of each framework (5)")
    parser.add_argument("--seconds", type=float, default=2.0, help="of one timing, about (2)")
    parser.add_argument("--results", default=RESULTS, help="file of results (frameworks.json)")
    parser.add_argument("--install_only", action="store_true", help="only make the environment")
    parser.add_argument("--table", action="store_true", help="only print the table of the file of results")
    parser.add_argument("--worker", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        framework, name, cores = given.worker
        return harness.serve(lambda: _steps(framework, networks.NETWORKS[name], int(cores)))
    rows = harness.read(given.results).get("rows", [])
    if given.table:
        return print(table(rows))
    python = ensure_environment() if given.install_only or set(given.frameworks) - set(OURS) else ""
    there, order = {(row["network"], row["cores"]) for row in rows}, list(networks.NETWORKS)
    for name in [] if given.install_only else given.networks:
        for cores in given.cores:
            if (name, cores) not in there:
                rows.append(measure(name, cores, given, python))
                rows.sort(key=lambda row: (order.index(row["network"]), row["cores"]))
                harness.write(given.results, rows=rows)
                print(f"{name}, {cores} core(s)", flush=True)
    print(table(rows))


if __name__ == "__main__":
    main()
