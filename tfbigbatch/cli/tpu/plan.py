"""Estimates the time of a step and of a run on TPU slices of 8 to 2,048 chips, from a step compiled for one of them.

    tfbigbatch tpu-check --config=imagenet/resnet50_lars:32k --topology=v3-1024 --json > step.json
    tfbigbatch plan --checks=step.json --plot=plan.png

The estimate is arithmetic on the operations and bytes of the compiled step, the published peak rates of the chip, and
an efficiency and a fixed time fitted to two published runs; the errors on the other published runs are shown. Nothing
is measured. See docs/tpu.md.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from absl import flags

from tfbigbatch.errors import InputError
from tfbigbatch.tpu import calibration, plan_report, planning, table, topologies
from tfbigbatch.utils import command
from tfbigbatch.utils.files import open_regular


def define_flags() -> None:
    flags.DEFINE_list("checks", [], "Outcomes of tpu-check --json; for a run with phases, one per phase.")
    flags.DEFINE_list("chips", [str(2**power) for power in range(3, 12)], "Numbers of chips.")
    flags.DEFINE_float(
        "efficiency",
        None,
        "Fraction of the peak rates that is reached. Default: fitted to published runs.",
        lower_bound=0.01,
        upper_bound=2.0,
    )
    flags.DEFINE_float("fixed_milliseconds", 0.0, "With --efficiency: fixed time added to every step.", lower_bound=0.0)
    flags.DEFINE_string("results", "results/tpu", "Folder of the compiled steps of the published runs.")
    flags.DEFINE_float(
        "core_rate", None, "Examples per second that one core prepares; shows the cores that a host needs."
    )
    flags.DEFINE_string("plot", None, "Path of a plot.")


def main(arguments: Sequence[str]) -> None:
    options = flags.FLAGS
    if not options.checks:
        raise InputError("--checks is missing: give the output of `tfbigbatch tpu-check ... --json`; see --help.")
    chips = command.numbers("chips", options.chips, int)
    checks = [_read(path) for path in options.checks]
    steps = [planning.step_of(found) for found in checks]
    generation = steps[0].generation
    fit, calibrated = _fit(options, generation)
    slices = [topologies.of_chips(generation, count) for count in chips]
    planned = [[planning.plan(step, each, fit) for step in steps] for each in slices if each is not None]
    rows = [[each for each in plans if each is not None] for plans in planned if None not in plans]
    if not rows:
        raise InputError(f"--chips={','.join(options.chips)}: the batch divides over none of these slices.")
    names = [f"phase {found['phase']}" for found in checks]
    title = f"{checks[0]['config']}, batch {steps[0].batch_size:,}, {generation}"
    print(f"{title}; {sum(step.updates for step in steps):,} steps\n")
    print("\n".join(plan_report.lines(names, rows)))
    if options.core_rate:
        print(f"\ncores of a host for its input, at {options.core_rate:,.0f} examples a second and core:")
        for plans in rows:
            print(f"  {plans[0].topology.accelerator_type:<14} {plans[0].host_rate / options.core_rate:,.1f}")
    if calibrated is not None:
        print()
        print("\n".join(plan_report.comparison(calibrated, generation)))
    if options.plot:
        plan_report.draw(options.plot, title, rows)
        print(f"\nplot  {options.plot}")


def _fit(options: flags.FlagValues, generation: str) -> tuple[planning.Fit, calibration.Calibration | None]:
    """The fit to the published runs and its calibration; or the user's own fit, and None."""
    if options.efficiency is not None:
        return planning.Fit(options.efficiency, options.fixed_milliseconds / 1e3), None
    if options.fixed_milliseconds:
        raise InputError(f"--fixed_milliseconds={options.fixed_milliseconds} needs --efficiency, or leave both out.")
    calibrated = calibration.compare(_calibrating(options.results), generation)
    if calibrated is None:
        raise InputError(
            f"--results={options.results} lacks the checks that the estimate is fitted with; give --efficiency, a "
            "fraction of the peak rates, such as 0.7, and --fixed_milliseconds, such as 8."
        )
    return calibrated.fit, calibrated


def _read(path: str) -> dict[str, Any]:
    try:
        with open_regular(path, encoding="utf-8") as file:
            found = json.load(file)
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(
            f"--checks={path} cannot be read ({error}). Expected the output of tpu-check --json."
        ) from None
    if not isinstance(found, dict) or "config" not in found or (found.get("fits") and "uncounted_loops" not in found):
        raise InputError(f"--checks={path} is not an output of this version's tpu-check --json; check the step again.")
    if found.get("fits") and not found["uncounted_loops"]:
        try:
            planning.step_of(found)
        except (LookupError, TypeError, AttributeError, ArithmeticError) as error:
            raise InputError(f"--checks={path} cannot be planned ({error!r:.200}). Check the step again.") from None
    return found


def _calibrating(folder: str) -> dict[str, planning.Step]:
    """The steps of the checks that a plan can be made from, by name."""
    found = {}
    for name, check in table.read(folder).items():
        if check.get("fits") and check.get("uncounted_loops") == 0:
            found[name] = planning.step_of(check)
    return found
