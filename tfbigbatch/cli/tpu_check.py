"""Compiles the training step of an experiment for a TPU slice, without a TPU: does it compile, does it fit in memory?

    tfbigbatch tpu-check --config=imagenet/resnet50_lars:32k --topology=v3:32x32 --replicas=2048

Exits with code 0 if it compiles and fits, with 1 if not. It needs two environments, and says how they are made; see
docs/tpu.md.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence

from absl import flags

from tfbigbatch.cli import experiment_flags
from tfbigbatch.errors import InputError
from tfbigbatch.tpu import check, environments, topologies


def define_flags() -> None:
    flags.DEFINE_string("config", None, "Experiment to compile; --config.FIELD=VALUE overrides a field.")
    flags.DEFINE_string(
        "topology",
        None,
        "TPU slice: a grid (v3:32x32), a number of chips (v5e:256), or Google Cloud's name (v3-2048).",
        required=True,
    )
    flags.DEFINE_integer("replicas", None, "Replicas in sync. Default: all of the slice.", lower_bound=1)
    experiment_flags.define_override()
    flags.DEFINE_integer(
        "phase", 1, "Phase of a run with phases, or stage of a batch ramp, counted from 1.", lower_bound=1
    )
    flags.DEFINE_string("data_dir", None, "Prepared data, for its shapes. Default: the shapes of the public dataset.")
    flags.DEFINE_bool("json", False, "Print the outcome as JSON.")
    flags.DEFINE_string("environments", environments.FOLDER, "Folder of the environments.")


def main(arguments: Sequence[str]) -> int:
    options = flags.FLAGS
    folder = os.path.abspath(options.environments)
    experiment_flags.load(options.config, options, _say)
    topology = topologies.parse(options.topology)
    replicas = options.replicas or topology.replicas
    if replicas > topology.replicas:
        raise InputError(
            f"--replicas={replicas}: {topology.name} has {topology.chips} chips and runs at most {topology.replicas}."
        )
    environments.ensure(folder)
    found = check.check(
        options.config,
        topology,
        folder,
        replicas=replicas,
        overrides=experiment_flags.overrides(options),
        phase=options.phase,
        data_dir=options.data_dir,
        say=_say,
    )
    print(json.dumps(found, indent=1) if options.json else "\n".join(check.lines(found)))
    return 0 if found["compiles"] and found["fits"] else 1


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
