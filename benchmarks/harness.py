"""What the benchmarks share: contenders that take turns, medians, ratios within a round, a table and a JSON file.

A machine's speed drifts, so no contender is measured after the other: all are measured once in every round, each round
begins with another one, and a ratio is taken within a round before its median.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import gc
import glob
import gzip
import json
import math
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import metadata
from typing import Any

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
Figures = dict[str, float]
_LEAST_ROUNDS = 5
_PACKAGES = ("tfbigbatch", "tensorflow", "tf_keras", "keras", "jax", "torch", "numpy")


def in_turns(
    contenders: Mapping[str, Callable[[], Figures]],
    rounds: int,
    warm_ups: int = 1,
    say: Callable[[str], object] = print,
    seconds: float = math.inf,
) -> dict[str, list[Figures]]:
    """The figures of each contender in each round after the warm-ups; of five rounds where more take over `seconds`."""
    order, found = list(contenders), {name: [] for name in contenders}
    start = time.perf_counter()
    for number in range(-warm_ups, rounds):
        if number >= _LEAST_ROUNDS and time.perf_counter() - start > seconds:
            break
        timed = {name: contenders[name]() for name in order}
        order.append(order.pop(0))
        if number < 0:
            continue
        for name, figures in timed.items():
            found[name].append(figures)
        say(f"round {number + 1}: " + ", ".join(f"{name} {next(iter(timed[name].values())):.4g}" for name in found))
    return found


def medians(rounds: Sequence[Figures]) -> Figures:
    """The median of each figure over the rounds."""
    return {name: statistics.median(each[name] for each in rounds) for name in rounds[0]}


def ratio(ours: Sequence[Figures], theirs: Sequence[Figures], figure: str) -> float:
    """The median over the rounds of theirs / ours."""
    return statistics.median(their[figure] / our[figure] for our, their in zip(ours, theirs, strict=True))


def timed(action: Callable[[], object]) -> Figures:
    """Seconds of an action in this process, by the clock and of the processors over all threads."""
    started, used = time.perf_counter(), time.process_time()
    action()
    return {"seconds": time.perf_counter() - started, "cpu_seconds": time.process_time() - used}


def timed_command(action: Callable[[], object]) -> Figures:
    """As `timed`, of processes that the action starts and waits for; a float from it is the seconds by the clock."""
    started, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    found = action()
    seconds = found if isinstance(found, float) else time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"seconds": seconds, "cpu_seconds": used}


def memory() -> Callable[[], int]:
    """Gives a function of the bytes that this process held at its highest since now, above those that it holds now."""
    gc.collect()
    # What the allocator keeps free would hide as much of what comes.
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("5")  # Forgets the peak.
    now = _held("VmRSS")
    return lambda: _held("VmHWM") - now


def _held(kind: str) -> int:
    with open("/proc/self/status", encoding="ascii") as file:
        return next(1024 * int(line.split()[1]) for line in file if line.startswith(kind))


class Worker:
    """A process that stays and answers lines of its input with lines of JSON; `serve` is its side.

    Args:
      arguments: of the interpreter.
      python: the interpreter; None for the running one.
      environment: what its environment has besides this one's.
      folder: its working directory.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        python: str | None = None,
        environment: Mapping[str, str] | None = None,
        folder: str | None = None,
    ) -> None:
        # A file and not a pipe, which would be full one day.
        self._said = tempfile.TemporaryFile(mode="w+")
        self._process = subprocess.Popen(
            [python or sys.executable, "-W", "ignore", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            text=True,
            cwd=folder,
            env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", **(environment or {})},
        )

    def ask(self, line: str | None = None) -> Any:
        """The answer to a line, or, without one, what the process says next.

        Raises:
          RuntimeError: the process ended; with its last words.
        """
        if line is not None:
            self._process.stdin.write(f"{line}\n")
            self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            code = self._process.wait()
            self._said.seek(0)
            raise RuntimeError(f"{self._process.args} ended with exit code {code}:\n{self._said.read()[-2000:]}")
        return json.loads(answer)

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()
        self._said.close()


def serve(make: Callable[[], Callable[[str], Any]]) -> None:
    """The side of a `Worker`: `make` gives a function from a line to its answer, and is answered by {} itself."""
    # What libraries print to the standard output goes elsewhere.
    out, sys.stdout = sys.stdout, sys.stderr

    def say(answer: Any) -> None:
        print(json.dumps(answer), file=out, flush=True)

    answer_to = make()
    say({})
    for line in sys.stdin:
        say(answer_to(line.strip()))


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; all columns but the first are aligned to the right."""
    lines = [headings, ["---", *["---:"] * (len(headings) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def read(path: str | None) -> dict[str, Any]:
    """What `write` wrote there; empty where nothing is."""
    if not path or not os.path.exists(path):
        return {}
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def write(path: str | None, **content: Any) -> None:
    """Writes the figures with the command and the machine that made them; nothing without a path."""
    if not path:
        return
    script = os.path.relpath(os.path.abspath(sys.argv[0]), ROOT).removesuffix("/__main__.py")
    facts = {
        "command": " ".join(["python", script, *sys.argv[1:]]),
        "cores": len(os.sched_getaffinity(0)),
        "processor": _processor(),
        "versions": _versions(),
    }
    with open(f"{path}.new", "w", encoding="utf-8") as file:
        json.dump({**facts, **content}, file, indent=1)
        file.write("\n")
    os.replace(f"{path}.new", path)


def parser(description: str | None, folder: str | None = None) -> argparse.ArgumentParser:
    """The parser of a command that has this docstring, which is a folder of this name or a script."""
    return argparse.ArgumentParser(
        prog=folder and f"python benchmarks/{folder}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def some_of(known: Iterable[Any], kind: Callable[[str], Any] = str) -> Callable[[str], list[Any]]:
    """The type of an argument that names some of these, with commas between."""
    known = list(known)

    def parse(text: str) -> list[Any]:
        found = [kind(each) for each in text.split(",")]
        for each in found:
            if each not in known:
                raise argparse.ArgumentTypeError(f"{each}: expected some of {', '.join(map(str, known))}")
        return found

    return parse


class Lines:
    """The JSON lines of a file that a command adds to and resumes from.

    Args:
      path: of the file, which need not exist; one that ends in .gz is compressed.
    """

    def __init__(self, path: str) -> None:
        self._path, self._lines = path, []
        self._open: Callable[..., Any] = gzip.open if path.endswith(".gz") else open
        if os.path.exists(path):
            with self._open(path, "rt", encoding="utf-8") as file:
                self._lines = [json.loads(line) for line in file if line.strip()]

    def find(self, **wanted: Any) -> list[dict[str, Any]]:
        """The lines with these entries, in their order."""
        return [line for line in self._lines if wanted.items() <= line.items()]

    def add(self, line: dict[str, Any]) -> None:
        """Adds a line, in the file at once."""
        self._lines.append(line)
        with self._open(self._path, "at", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    return found


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            return next(line.partition(":")[2].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()


def jpegs(folder: str) -> Iterator[str]:
    """The paths of all JPEGs in a folder, at any depth, in order.

    Raises:
      SystemExit: there are none.
    """
    paths = sorted(glob.glob(os.path.join(glob.escape(folder), "**"), recursive=True))
    found = [path for path in paths if path.lower().endswith((".jpg", ".jpeg"))]
    if not found:
        sys.exit(f"error: {folder} holds no JPEG. Give a folder of .jpg or .jpeg files.")
    yield from found
