"""Compiles the training step of an experiment for a TPU slice, without a TPU: does it compile, does it fit in memory?

    tfbigbatch tpu-check --config=imagenet/resnet50_lars:32k --topology=v3:32x32 --replicas=2048
    tfbigbatch tpu-check --config=imagenet/resnet50_lars:32k --topology=v3-1024 --json > step.json
    tfbigbatch tpu-check --plan=step.json

Exits with code 0 if it compiles and fits, with 1 if not. It needs two environments, and says how they are made; see
docs/tpu.md.

--plan compiles nothing: it plans the time of a step and of a run on slices of --chips, by the operations and bytes of
the compiled step and the published peak rates of the chip, with its error on published runs. Nothing is measured.
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
from tfbigbatch.tpu import check, environments, plan, topologies
from tfbigbatch.utils import command
from tfbigbatch.utils.files import open_regular


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
    flags.DEFINE_string("environments", environments.FOLDER, "Folder of the environments.")
    flags.DEFINE_list("plan", [], "Outcomes of --json to plan a run from; for a run with phases, one per phase.")
    flags.DEFINE_list("chips", [str(2**power) for power in range(3, 12)], "With --plan: numbers of chips.")


def main(arguments: Sequence[str]) -> int:
    options = flags.FLAGS
    if options.plan:
        _plan([read_check(path) for path in options.plan])
        return 0
    folder = os.path.abspath(options.environments)
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


def _plan(checks: list[dict[str, Any]]) -> None:
    """Prints the plan of a run from the checks of its phases."""
    options = flags.FLAGS
    generations = {topologies.parse(each["topology"]).generation for each in checks}
    if len(generations) != 1:
        raise InputError(
            f"--plan={','.join(options.plan)}: expected the phases of one run, compiled for one generation of chips."
        )
    [generation] = generations
    slices = [topologies.with_chips(generation, chips) for chips in command.numbers("chips", options.chips, int)]
    table = plan.table(checks, [each for each in slices if each is not None])
    if not table.rows:
        raise InputError(f"--chips={','.join(options.chips)}: the batch divides over none of these slices.")
    updates = sum(each["updates"] for each in checks)
    print(f"{checks[0]['config']}, batch {checks[0]['batch_size']:,}, {generation}; {updates:,} steps\n")
    print("\n".join([*table.markdown(), ""]))
    for runs, (low, high) in plan.ERROR.items():
        print(f"{runs} took {low} to {high} times the run that is planned so")


def read_check(path: str) -> dict[str, Any]:
    """A stored outcome of tpu-check.

    Raises:
      ValueError: the file holds something else, or a step that cannot be planned.
    """
    try:
        with open_regular(path, encoding="utf-8") as file:
            found: dict[str, Any] = json.load(file)
        # What the command shows.
        f"{found['config']}{found['batch_size']:,}{found['updates']:,}"
        plan.table([found, found], [topologies.parse(found["topology"])])
    except InputError:
        raise
    except (OSError, ValueError, RecursionError, LookupError, TypeError, AttributeError, ArithmeticError) as error:
        raise InputError(
            f"--plan={path} is not an output of tpu-check --json ({error!r:.200}). Check the step again."
        ) from None
    return found
