"""Compiles an experiment's training step for a TPU slice, on a machine without one: does it compile, does it fit?

    python tools/tpu_check.py --config=experiments/imagenet/resnet50_lars.py:32k --topology=v3:32x32 --replicas=2048

Exit code 0 where it compiles and fits, 1 where not. The first run installs two environments, after an opt-in to
libtpu's terms; see docs/tpu.md.
"""

import json
import os
import sys

from absl import flags

from tfbigbatch import experiment
from tfbigbatch.errors import InputError
from tfbigbatch.tpu import check, environments, largest_batch, report, topologies
from tfbigbatch.utils import command

flags.DEFINE_string("config", None, "The experiment file.")
flags.DEFINE_string(
    "topology", None, "The slice: a grid (v3:32x32), chips (v5e:256), or Google Cloud's name (v3-2048)."
)
flags.DEFINE_integer("replicas", None, "In sync; all that the slice has where left out.", lower_bound=1)
flags.DEFINE_list("override", [], "Fields of the config: batch_size=4096,model.image_size=192.")
flags.DEFINE_integer("phase", 1, "Of a run with phases, counted from 1.", lower_bound=1)
flags.DEFINE_string("data_dir", None, "Prepared data, whose shapes count; those of the public data set where left out.")
flags.DEFINE_bool("json", False, "Print the outcome as JSON.")
flags.DEFINE_bool(
    "largest_batch", False, "Also search the largest batch of a replica that fits: up to six compilations."
)
flags.DEFINE_string("keep", None, "A folder that keeps the program: step.mlir (StableHLO) and program.txt (HLO).")
flags.DEFINE_bool("install_only", False, "Only make the environments.")
flags.DEFINE_string("environments", environments.FOLDER, "Where the environments lie.")
flags.DEFINE_bool(
    "accept_libtpu_license",
    False,
    f"Accept the terms of libtpu, which is proprietary, and install it; {environments.ACCEPT}=1 says so too.",
)


def _main(unused):
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


def _asked(options):
    for name in ("config", "topology"):
        if getattr(options, name) is None:
            raise InputError(f"--{name} is missing; see --help.")
    if not os.path.isfile(experiment.find(options.config)[0]):
        raise InputError(
            f"--config={options.config}: no such file. Give a file such as experiments/digits/lstm_legw.py."
        )
    topology = topologies.parse(options.topology)
    replicas = options.replicas or topology.replicas
    if replicas > topology.replicas:
        raise InputError(
            f"--replicas={replicas}: {topology.name} has {topology.chips} chips and runs at most {topology.replicas}."
        )
    return check.Asked(options.config, topology, replicas, tuple(options.override), options.phase, options.data_dir)


def _say(line):
    print(line, file=sys.stderr, flush=True)


def _largest(asked, found, folder):
    """Tries batches without accumulation; every trial is a compilation.

    Returns:
      Dictionary: `fits`, the largest of a replica, and the fields of a `largest_batch.Suggestion`.
    """
    micro_batch = found["per_replica_batch"] // found["accumulation_steps"]

    def fits(trial):
        if trial == micro_batch:
            return bool(found["fits"])
        outcome = check.check(asked._replace(micro_batch=trial), folder)
        _say(f"tried        {trial} per replica: {'fits' if outcome['fits'] else 'does not fit'}")
        return bool(outcome["fits"])

    most = max(1, found["examples"] // asked.replicas)
    largest = largest_batch.largest(fits, micro_batch, most)
    suggestion = largest_batch.suggestion(largest, found["batch_size"], asked.replicas)
    return {"fits": largest, **suggestion._asdict()}


def _suggested(found):
    fit = found["largest"]
    if not fit["micro_batch"]:
        return "largest      nothing fits: not even one example in a replica"
    return (
        f"largest      {fit['fits']:,} per replica fits; for {fit['batch_size']:,}: {fit['micro_batch']:,} with "
        f"--config.accumulation_steps={fit['accumulation_steps']}"
    )


if __name__ == "__main__":
    command.execute(_main)
