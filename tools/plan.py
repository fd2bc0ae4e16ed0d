"""How long an update and a run take on TPU slices of 8 to 2,048 chips, from a step that was compiled for one.

    python tools/tpu_check.py --config=experiments/imagenet/resnet50_lars.py:32k --topology=v3-1024 --json > step.json
    python tools/plan.py --checks=step.json --plot=plan.png

Arithmetic on the compiled step's operations and bytes, the chip's published peak rates, and an efficiency and a fixed
time that are fitted to two published runs; the errors on the others are shown. Nothing is measured. See docs/tpu.md.
"""

import json

from absl import flags

from tfbigbatch.errors import InputError
from tfbigbatch.tpu import calibration, plan_report, planning, table, topologies
from tfbigbatch.utils import command

flags.DEFINE_list("checks", [], "Outcomes of tools/tpu_check.py --json; of a run with phases, one of each.")
flags.DEFINE_list("chips", [str(2**power) for power in range(3, 12)], "Numbers of chips.")
flags.DEFINE_float(
    "efficiency",
    None,
    "The share of the peak rates that is reached; fitted to published runs where left out.",
    lower_bound=0.01,
    upper_bound=2.0,
)
flags.DEFINE_float(
    "fixed_milliseconds", 0.0, "With --efficiency: of every update, beside what the rates give.", lower_bound=0.0
)
flags.DEFINE_string("results", "docs/results/tpu", "The checks that the estimate is fitted with.")
flags.DEFINE_float(
    "core_rate", None, "Examples a second that one core prepares: the cores that a host needs are shown."
)
flags.DEFINE_string("plot", None, "Where a plot goes.")


def _main(unused):
    options = flags.FLAGS
    if not options.checks:
        raise InputError("--checks is missing: give what `python tools/tpu_check.py ... --json` printed; see --help.")
    chips = command.numbers("chips", options.chips, int)
    checks = [_read(path) for path in options.checks]
    steps = [planning.step_of(found) for found in checks]
    generation = steps[0].generation
    fit, calibrated = _fit(options, generation)
    slices = [topologies.of_chips(generation, count) for count in chips]
    planned = [[planning.plan(step, each, fit) for step in steps] for each in slices if each is not None]
    rows = [plans for plans in planned if None not in plans]
    if not rows:
        raise InputError(f"--chips={','.join(options.chips)}: the batch divides over none of these slices.")
    names = [f"phase {found['phase']}" for found in checks]
    title = f"{checks[0]['config']}, batch {steps[0].batch_size:,}, {generation}"
    print(f"{title}; {sum(step.updates for step in steps):,} updates\n")
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


def _fit(options, generation):
    """(planning.Fit, calibration.Calibration): that of the published runs; or the user's own, and None."""
    if options.efficiency is not None:
        return planning.Fit(options.efficiency, options.fixed_milliseconds / 1e3), None
    if options.fixed_milliseconds:
        raise InputError(f"--fixed_milliseconds={options.fixed_milliseconds} needs --efficiency, or leave both out.")
    calibrated = calibration.compare(_calibrating(options.results), generation)
    if calibrated is None:
        raise InputError(
            f"--results={options.results} lacks the checks that the estimate is fitted with; give --efficiency, a "
            "share of the peak rates, such as 0.7, and --fixed_milliseconds, such as 8."
        )
    return calibrated.fit, calibrated


def _read(path):
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
    except (OSError, ValueError) as error:
        raise InputError(
            f"--checks={path} cannot be read ({error}). Expected what tpu_check.py --json printed."
        ) from None
    if not isinstance(found, dict) or "config" not in found or (found.get("fits") and "uncounted_loops" not in found):
        raise InputError(
            f"--checks={path} is not what this version's tpu_check.py --json prints; check the step again."
        )
    return found


def _calibrating(folder):
    """Dictionary from names to the `planning.Step`s of the checks that can be planned with."""
    found = {}
    for name, check in table.read(folder).items():
        if check.get("fits") and check.get("uncounted_loops") == 0:
            found[name] = planning.step_of(check)
    return found


if __name__ == "__main__":
    command.execute(_main)
