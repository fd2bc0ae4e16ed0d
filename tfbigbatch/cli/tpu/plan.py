"""Plans the time of a step and of a run on TPU slices of 8 to 2,048 chips, from a step compiled for one of them.

    tfbigbatch tpu-check --config=imagenet/resnet50_lars:32k --topology=v3-1024 --json > step.json
    tfbigbatch plan --checks=step.json

The plan is arithmetic on the operations and bytes of the compiled step and the published peak rates of the chip, shown
with its error on published runs. Nothing is measured. See docs/tpu.md.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from absl import flags

from tfbigbatch.errors import InputError
from tfbigbatch.tpu import plan, topologies
from tfbigbatch.utils import command
from tfbigbatch.utils.files import open_regular


def define_flags() -> None:
    flags.DEFINE_list("checks", [], "Outcomes of tpu-check --json; for a run with phases, one per phase.")
    flags.DEFINE_list("chips", [str(2**power) for power in range(3, 12)], "Numbers of chips.")


def main(arguments: Sequence[str]) -> None:
    options = flags.FLAGS
    if not options.checks:
        raise InputError("--checks is missing: give the output of `tfbigbatch tpu-check ... --json`; see --help.")
    checks = [read_check(path) for path in options.checks]
    generation = checks[0]["topology"].partition(":")[0]
    if any(each["topology"].partition(":")[0] != generation for each in checks):
        raise InputError(f"--checks={','.join(options.checks)}: expected steps that are compiled for one generation.")
    rows = []
    for count in command.numbers("chips", options.chips, int):
        topology = topologies.with_chips(generation, count)
        plans = [] if topology is None else [plan.plan(each, topology) for each in checks]
        if plans and None not in plans:
            rows.append([each for each in plans if each is not None])
    if not rows:
        raise InputError(f"--chips={','.join(options.chips)}: the batch divides over none of these slices.")
    updates = sum(each["updates"] for each in checks)
    print(f"{checks[0]['config']}, batch {checks[0]['batch_size']:,}, {generation}; {updates:,} steps\n")
    print("\n".join(plan.lines([f"phase {each['phase']}" for each in checks], rows)))


def read_check(path: str) -> dict[str, Any]:
    """A stored outcome of tpu-check.

    Raises:
      ValueError: the file holds something else.
    """
    try:
        with open_regular(path, encoding="utf-8") as file:
            found = json.load(file)
        topology = topologies.parse(found["topology"])
        if found["fits"] and not found["uncounted_loops"] and (made := plan.plan(found, topology)):
            # What the table shows.
            list(plan.lines([found["phase"]], [[made]]))
    except (OSError, ValueError, RecursionError, LookupError, TypeError, AttributeError, ArithmeticError) as error:
        raise InputError(
            f"--checks={path} is not an output of tpu-check --json ({error!r:.200}). Check the step again."
        ) from None
    return found
