"""Compiles the training step of an experiment for a TPU slice, without a TPU: does it compile, does it fit in memory?

    tfbigbatch tpu-check --config=imagenet/resnet50_lars:32k --topology=v3:32x32 --replicas=2048

Exits with code 0 if it compiles and fits, with 1 if not. The first run installs two environments, and asks for consent
to the terms of libtpu; see docs/tpu.md.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from typing import Any

from absl import flags

from tfbigbatch.cli import experiment_flags
from tfbigbatch.errors import InputError
from tfbigbatch.tpu import check, environments, largest_batch, report, topologies


def define_flags() -> None:
    flags.DEFINE_string("config", None, "Experiment to compile; --config.FIELD=VALUE overrides a field.")
    flags.DEFINE_string(
        "topology", None, "TPU slice: a grid (v3:32x32), a number of chips (v5e:256), or Google Cloud's name (v3-2048)."
    )
    flags.DEFINE_integer("replicas", None, "Replicas in sync. Default: all of the slice.", lower_bound=1)
    experiment_flags.define_override()
    flags.DEFINE_integer(
        "phase", 1, "Phase of a run with phases, or stage of a batch ramp, counted from 1.", lower_bound=1
    )
    flags.DEFINE_string("data_dir", None, "Prepared data, for its shapes. Default: the shapes of the public dataset.")
    flags.DEFINE_bool("json", False, "Print the outcome as JSON.")
    flags.DEFINE_bool(
        "largest_batch", False, "Also search for the largest batch per replica that fits: up to six compilations."
    )
    flags.DEFINE_string("keep", None, "Folder for the program: step.mlir (StableHLO) and program.txt (HLO).")
    flags.DEFINE_string(
        "xla_flags", "", "Flags of the TPU's compiler, with spaces between, as in LIBTPU_INIT_ARGS on a TPU."
    )
    flags.DEFINE_bool("install_only", False, "Only install the environments.")
    flags.DEFINE_string("environments", environments.FOLDER, "Folder of the environments.")
    flags.DEFINE_bool(
        "accept_libtpu_license",
        False,
        f"Accept the terms of libtpu, which is proprietary, and install it; same as {environments.ACCEPT}=1.",
    )


def main(arguments: Sequence[str]) -> int:
    options = flags.FLAGS
    folder = os.path.abspath(options.environments)
    if options.install_only:
        environments.ensure(folder, options.accept_libtpu_license)
        print(f"ready  {folder}")
        return 0
    asked = _asked(options)
    environments.ensure(folder, options.accept_libtpu_license, say=_say)
    found = check.check(asked, folder, keep=options.keep, say=_say)
    if options.largest_batch and found["compiles"]:
        found["largest"] = _largest(asked, found, folder)
    if options.json:
        print(json.dumps(found, indent=1))
    else:
        print("\n".join(report.lines(found)))
        if "largest" in found:
            print(_suggested(found))
    return 0 if found["compiles"] and found["fits"] else 1


def _asked(options: flags.FlagValues) -> check.CheckRequest:
    for name in ("config", "topology"):
        if getattr(options, name) is None:
            raise InputError(f"--{name} is missing; see --help.")
    experiment_flags.load(options.config, options, _say)
    topology = topologies.parse(options.topology)
    replicas = options.replicas or topology.replicas
    if replicas > topology.replicas:
        raise InputError(
            f"--replicas={replicas}: {topology.name} has {topology.chips} chips and runs at most {topology.replicas}."
        )
    return check.CheckRequest(
        options.config,
        topology,
        replicas,
        tuple(experiment_flags.overrides(options)),
        options.phase,
        options.data_dir,
        xla_flags=tuple(options.xla_flags.split()),
    )


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _largest(asked: check.CheckRequest, found: dict[str, Any], folder: str) -> dict[str, Any]:
    """Searches the largest batch without accumulation; every trial is a compilation.

    Returns:
      Dictionary: `fits`, the largest batch per replica, and the fields of a `largest_batch.Suggestion`.
    """
    micro_batch = found["per_replica_batch"] // found["accumulation_steps"]

    def fits(trial: int) -> bool:
        if trial == micro_batch:
            return bool(found["fits"])
        outcome = check.check(asked._replace(micro_batch=trial), folder)
        _say(f"tried        {trial} per replica: {'fits' if outcome['fits'] else 'does not fit'}")
        return bool(outcome["fits"])

    most = max(1, found["examples"] // asked.replicas)
    largest = largest_batch.largest(fits, micro_batch, most)
    suggestion = largest_batch.suggestion(largest, found["batch_size"], asked.replicas)
    return {"fits": largest, **suggestion._asdict()}


def _suggested(found: dict[str, Any]) -> str:
    fit = found["largest"]
    if not fit["micro_batch"]:
        return "largest      nothing fits: not even one example in a replica"
    return (
        f"largest      {fit['fits']:,} per replica fits; for {fit['batch_size']:,}: {fit['micro_batch']:,} with "
        f"--config.accumulation_steps={fit['accumulation_steps']}"
    )
