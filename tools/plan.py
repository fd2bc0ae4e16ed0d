"""How long an update and a run take on TPU slices of 8 to 2,048 chips, from a step that was compiled for one.

    python tools/tpu_check.py --config=experiments/imagenet/resnet50_lars_32k.py --topology=v3-1024 --json > step.json
    python tools/plan.py --checks=step.json --plot=plan.png

Arithmetic on the compiled step's operations and bytes, the chip's published peak rates, and an efficiency that is
fitted to one published run; the errors on the others are shown. Nothing is measured. See docs/tpu.md.
"""

import json

from absl import flags

from tfbigbatch import command
from tfbigbatch.errors import InputError
from tfbigbatch.tpu import calibration, plan_report, planning, table, topologies

flags.DEFINE_list("checks", [], "Outcomes of tools/tpu_check.py --json; of a run with phases, one of each.")
flags.DEFINE_list("chips", [str(2**power) for power in range(3, 12)], "Numbers of chips.")
flags.DEFINE_float(
    "efficiency",
    None,
    "The share of the peak rates that is reached; fitted to published runs where left out.",
    lower_bound=0.01,
    upper_bound=1.0,
)
flags.DEFINE_string("results", "docs/results/tpu", "The checks that the efficiency is fitted with.")
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
    efficiency, compared = options.efficiency, []
    if efficiency is None:
        efficiency, compared = calibration.compare(_calibrating(options.results))
        if efficiency is None:
            raise InputError(
                f"--results={options.results} lacks the checks that the efficiency is fitted with; give "
                "--efficiency, a share of the peak rates, such as 0.3."
            )
    slices = [topologies.of_chips(steps[0].generation, count) for count in chips]
    planned = [[planning.plan(step, each, efficiency) for step in steps] for each in slices if each is not None]
    rows = [plans for plans in planned if None not in plans]
    if not rows:
        raise InputError(f"--chips={','.join(options.chips)}: the batch divides over none of these slices.")
    names = [f"phase {found['phase']}" for found in checks]
    title = f"{checks[0]['config']}, batch {steps[0].batch_size:,}, {steps[0].generation}"
    print(f"{title}; {sum(step.updates for step in steps):,} updates\n")
    print("\n".join(plan_report.lines(names, rows)))
    if options.core_rate:
        print(f"\ncores of a host for its input, at {options.core_rate:,.0f} examples a second and core:")
        for plans in rows:
            print(f"  {plans[0].topology.accelerator_type:<14} {plans[0].host_rate / options.core_rate:,.1f}")
    if compared:
        print()
        print("\n".join(plan_report.comparison(efficiency, compared)))
    if options.plot:
        plan_report.draw(options.plot, title, rows)
        print(f"\nplot  {options.plot}")


def _read(path):
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError) as error:
        raise InputError(
            f"--checks={path} cannot be read ({error}). Expected what tpu_check.py --json printed."
        ) from None


def _calibrating(folder):
    """Dictionary from names to the `planning.Step`s of the checks that can be planned with."""
    found = {}
    for name, check in table.read(folder).items():
        if check.get("fits") and not check.get("loops") and check["accumulation_steps"] == 1:
            found[name] = planning.step_of(check)
    return found


if __name__ == "__main__":
    command.execute(_main)
