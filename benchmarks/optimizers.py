"""One update of our optimizers and of their peers: its time, its first call and its memory, on the CPU.

    python benchmarks/optimizers.py --model=resnet50
    python benchmarks/optimizers.py --model=bert_base --optimizers=tfa_lamb,keras_lamb --results=bert_base.json

First each baseline makes its first update in a process of its own. Then they take turns in one process,
one update each, round after round, beside a stream through memory whose bandwidth gives the floor: no
update can be faster than the bytes it has to move. Where not all fit in memory there are several such
processes, each with ours in it; ratios are always taken within a process.
"""

import json
import os
import platform
import subprocess
import sys
import tempfile
from importlib import metadata

import baselines
import numpy as np
import results_file
import variables
from absl import flags

from tfbigbatch.errors import InputError
from tfbigbatch.utils import command

_UPDATES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "updates.py")
# Keras 2 where addons looks for tf.keras; the CPU only; TensorFlow quiet, as in tfbigbatch.utils.command.
_ENVIRONMENT = {
    "TF_USE_LEGACY_KERAS": "1",
    "KERAS_BACKEND": "tensorflow",
    "CUDA_VISIBLE_DEVICES": "-1",
    "TF_CPP_MIN_LOG_LEVEL": "3",
}
_PACKAGES = ("tfbigbatch", "tensorflow", "tf_keras", "keras", "tf-models-official", "tensorflow-addons", "numpy")

flags.DEFINE_enum("model", None, variables.models(), "Whose variables are updated.", required=True)
flags.DEFINE_list("optimizers", list(baselines.BASELINES), "Names of baselines; ours are always among them.")
flags.DEFINE_integer("repeats", 15, "Timed rounds, after two to warm up.", lower_bound=1)
flags.DEFINE_boolean("first_calls", True, "Also measure first calls and memory: a process for each baseline.")
flags.DEFINE_float("memory_gib", 14.0, "What one process may take; fewer baselines share one then.")
flags.DEFINE_float("clip_norm", 0.0, "All clip the gradients to this global norm; 0 for not.", lower_bound=0.0)
flags.DEFINE_enum(
    "precision",
    "float32",
    ["float32", "bfloat16", "float16"],
    "What the gradients come in: bfloat16's are cast, float16's are unscaled and tested as well.",
)
flags.DEFINE_string("results", None, "Also write all numbers to this JSON file.")
flags.DEFINE_boolean("markdown", False, "Print the tables as Markdown.")


def footprint(names, parameters):
    """GiB of a process with these baselines, as measured with all of them on ResNet-50 and BERT-base.

    That is the weights and slots of each, the gradients, and four times the weights for an update's
    temporaries; 15% more that TensorFlow's allocator loses; and 2.25 GiB for all else.
    """
    arrays = sum(1 + baselines.rule(name).slots for name in names) + 1 + 4
    return 1.15 * 4 * parameters * arrays / 2**30 + 2.25


def peer_sets(names, parameters, memory_gib):
    """Splits baselines into lists that fit in memory side by side, each with ours of the same rules.

    Raises:
      InputError: one baseline does not fit beside ours.
    """
    sets = []
    for name in names:
        pair = list(dict.fromkeys([baselines.rule(name).ours, name]))
        needed = footprint(pair, parameters)
        if needed > memory_gib:
            raise InputError(
                f"--memory_gib={memory_gib}: {' and '.join(pair)} take about {needed:.1f} GiB side by side. "
                "Give that much, or name smaller baselines with --optimizers."
            )
        for members in sets:
            wider = list(dict.fromkeys([*members, *pair]))
            if footprint(wider, parameters) <= memory_gib:
                members[:] = wider
                break
        else:
            sets.append(pair)
    return sets


def _measure(names, repeats):
    """What updates.py measured of these baselines in a process of its own."""
    options = flags.FLAGS
    with tempfile.TemporaryDirectory() as folder:
        results = os.path.join(folder, "measured.json")
        arguments = [f"--model={options.model}", f"--optimizers={','.join(names)}", f"--repeats={repeats}"]
        arguments += [f"--clip_norm={options.clip_norm}", f"--precision={options.precision}"]
        outcome = subprocess.run(
            [sys.executable, "-W", "ignore", _UPDATES, *arguments, f"--results={results}"],
            env={**os.environ, **_ENVIRONMENT},
            stderr=subprocess.PIPE,
            text=True,
        )
        if outcome.returncode == -9:
            raise InputError(f"The process of {', '.join(names)} was killed, likely for memory; lower --memory_gib.")
        if outcome.returncode:
            raise RuntimeError(f"{_UPDATES} {' '.join(arguments)} failed:\n{outcome.stderr}")
        with open(results, encoding="utf-8") as file:
            return json.load(file)


def _first_calls(names):
    """First-call seconds and memory of each baseline that is installed, and the names of those that are not."""
    measured, left_out = {}, {}
    for name in names:
        print(f"{name}: first call ... ", end="", flush=True)
        outcome = _measure([name], repeats=0)
        left_out.update(outcome["left_out"])
        if name in left_out:
            print(f"left out: {left_out[name]}")
            continue
        measured[name] = outcome[name]
        print(f"{measured[name]['first_call_s']:.1f} s", flush=True)
    return measured, left_out


def _floor_bytes(name):
    return baselines.floor_bytes(name, flags.FLAGS.clip_norm, flags.FLAGS.precision)


def _spread(values):
    lower, median, upper = np.percentile(values, [25, 50, 75])
    return {"median": median, "lower_quartile": lower, "upper_quartile": upper}


def _summary(measured, parameters):
    """Times in ms, and their ratios to ours and to the floor, of one process' baselines."""
    bandwidth = np.array(measured["assign_add_bytes_per_s"])
    times = {name: 1e3 * np.array(seconds) for name, seconds in measured["seconds"].items()}
    summary = {}
    for name, ms in times.items():
        rule = baselines.rule(name)
        floor = 1e3 * _floor_bytes(name) * parameters / bandwidth
        summary[name] = {
            "ms": _spread(ms),
            "processor_ms": _spread(1e3 * np.array(measured["processor_seconds"][name])),
            "over_ours": _spread(ms / times[rule.ours]),
            "floor_ms": _spread(floor),
            "over_floor": _spread(ms / floor),
        }
    return {"assign_add_gb_per_s": _spread(bandwidth / 1e9), "contenders": summary}


def _times(sets):
    """The rows of the table of times."""
    rows = [
        ["process", "optimizer", "ms, median", "quartiles", "processors' ms", "times ours", "floor, ms", "times floor"]
    ]
    for number, measured in enumerate(sets, start=1):
        for name, row in measured["summary"]["contenders"].items():
            ms = row["ms"]
            rows.append(
                [
                    str(number),
                    baselines.get(name).title,
                    f"{ms['median']:.2f}",
                    f"{ms['lower_quartile']:.2f} to {ms['upper_quartile']:.2f}",
                    f"{row['processor_ms']['median']:.2f}",
                    f"{row['over_ours']['median']:.2f}",
                    f"{row['floor_ms']['median']:.2f}",
                    f"{row['over_floor']['median']:.2f}",
                ]
            )
    return rows


def _first(measured, largest):
    """The rows of the table of first calls and memory."""
    rows = [["optimizer", "first call, s", "extra peak memory, MB", "times the largest variable"]]
    for name, row in measured.items():
        growth = row["peak_growth_bytes"]
        known = ["not known", "not known"] if growth is None else [f"{growth / 1e6:.1f}", f"{growth / largest:.2f}"]
        rows.append([baselines.get(name).title, f"{row['first_call_s']:.2f}", *known])
    return rows


def _print_table(rows, markdown):
    widths = [max(len(cell) for cell in column) for column in zip(*rows)]
    lines = [[cell.ljust(width) for cell, width in zip(row, widths)] for row in rows]
    lines.insert(1, ["-" * width for width in widths])
    print()
    for line in lines:
        print(f"| {' | '.join(line)} |" if markdown else "  ".join(line).rstrip())


def _version(package):
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _processor():
    """The processor's name, as Linux gives it."""
    if not os.path.exists("/proc/cpuinfo"):
        return platform.processor()
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        return next((line.split(":")[1].strip() for line in file if line.startswith("model name")), "unknown")


def _main(unused):
    options = flags.FLAGS
    table = variables.shapes(options.model)
    parameters, largest = variables.count(table), 4 * max(variables.count([pair]) for pair in table)
    names = list(dict.fromkeys([*(baselines.rule(name).ours for name in options.optimizers), *options.optimizers]))
    # What cannot work is told before anything runs.
    peer_sets(names, parameters, options.memory_gib)
    results_file.check(options.results)
    print(f"{options.model}: {len(table)} variables, {parameters:,} parameters, largest {largest / 1e6:.1f} MB")
    load = os.getloadavg()[0]
    print(f"{os.cpu_count()} CPUs, {_processor()}; load before the start {load:.1f}", flush=True)

    first, left_out = _first_calls(names) if options.first_calls else ({}, {})
    sets = []
    for members in peer_sets([name for name in names if name not in left_out], parameters, options.memory_gib):
        print(f"process {len(sets) + 1}, side by side: {', '.join(members)}", flush=True)
        measured = _measure(members, options.repeats)
        for name, reason in measured["left_out"].items():
            print(f"{name}: left out: {reason}")
        left_out.update(measured["left_out"])
        sets.append({**measured, "summary": _summary(measured, parameters)})

    if options.results:
        _write(options, table, load, first, sets, left_out)
    _show(first, sets, largest)
    if options.results:
        print(f"\nresults: {options.results}")


def _show(first, sets, largest):
    """Prints the tables and what their columns mean."""
    options = flags.FLAGS
    _print_table(_times(sets), options.markdown)
    print()
    for number, measured in enumerate(sets, start=1):
        copied = np.median(measured["numpy_copy_bytes_per_s"]) / 1e9
        added = measured["summary"]["assign_add_gb_per_s"]["median"]
        print(f"process {number}: assign_add streams {added:.1f} GB/s (the floor's), NumPy copies {copied:.1f} GB/s")
    rules = {baselines.get(name).rule: name for measured in sets for name in measured["seconds"]}
    for rule, name in rules.items():
        passes = baselines.RULES[rule].passes
        if options.clip_norm or options.precision == "float16":
            passes = f"reads g; {passes}"
        print(f"floor of {rule}: {_floor_bytes(name)} bytes a parameter ({passes}) over that bandwidth")
    print("CPU ms: median of the processors' time in all threads, which other work on the machine changes little")
    print("times ours: against ours of the same rule, for Adam against our LAMB")
    print(f"both ratios: medians of {options.repeats} rounds, each within its round")
    if first:
        _print_table(_first(first, largest), options.markdown)
        print("\nextra peak memory: beyond variables, slots and gradients, as TensorFlow's allocator counts")


def _write(options, table, load, first, sets, left_out):
    """Writes everything measured, and where, to the path of --results."""
    given = {
        "model": options.model,
        "optimizers": ",".join(options.optimizers),
        "repeats": options.repeats,
        "clip_norm": options.clip_norm,
        "precision": options.precision,
        "first_calls": str(options.first_calls).lower(),
        "memory_gib": options.memory_gib,
    }
    arguments = [f"--{flag}={value}" for flag, value in given.items()]
    results = {
        "command": " ".join(["python", "benchmarks/optimizers.py", *arguments]),
        "model": options.model,
        "variables": len(table),
        "parameters": variables.count(table),
        "largest_variable_bytes": 4 * max(variables.count([pair]) for pair in table),
        "cpus": os.cpu_count(),
        "processor": _processor(),
        "load_before": load,
        "python": platform.python_version(),
        "versions": {package: _version(package) for package in _PACKAGES},
        "floor_bytes_per_parameter": {
            baselines.get(name).rule: _floor_bytes(name) for each in sets for name in each["seconds"]
        },
        "left_out": left_out,
        "first_calls": first,
        "processes": sets,
    }
    with open(options.results, "w", encoding="utf-8") as file:
        json.dump(results, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    command.execute(_main)
