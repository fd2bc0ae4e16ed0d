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
    checks = [read_check(path) for path in options.checks]
    generations = {topologies.parse(each["topology"]).generation for each in checks}
    if len(generations) != 1:
        raise InputError(
            f"--checks={','.join(options.checks)}: expected the output of `tfbigbatch tpu-check ... --json` for each "
            "phase of a run, compiled for one generation."
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
            f"--checks={path} is not an output of tpu-check --json ({error!r:.200}). Check the step again."
        ) from None
    return found
