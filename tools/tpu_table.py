"""Compiles the recipes of docs/tpu.md's table that are not compiled yet, and writes the table.

    python tools/tpu_table.py                   # all of them: hours
    python tools/tpu_table.py --only=digits     # those with this in their path or slice
    python tools/tpu_table.py --only=           # none: the table alone, from what is kept

Each outcome is kept in docs/results/tpu; the same command goes on from there. To compile one again, remove its file.
"""

import json
import os
import sys

from absl import flags

from tfbigbatch.errors import InputError
from tfbigbatch.tpu import check, environments, table, topologies
from tfbigbatch.utils import command

flags.DEFINE_string(
    "only", None, "Compile the recipes with this in their path or slice; empty: none. All where left out."
)
flags.DEFINE_string("results", "docs/results/tpu", "Where the outcomes are kept.")
flags.DEFINE_string("page", "docs/tpu.md", "The page whose table is written.")
flags.DEFINE_string("environments", environments.FOLDER, "Where the environments lie; see tools/tpu_check.py.")
flags.DEFINE_bool("accept_libtpu_license", False, "See tools/tpu_check.py.")


def _main(unused):
    options = flags.FLAGS
    os.makedirs(options.results, exist_ok=True)
    for recipe in table.RECIPES:
        if options.only is not None and not (options.only and options.only in f"{recipe.config} {recipe.topology}"):
            continue
        topology = topologies.parse(recipe.topology)
        name, path = _place(recipe, topology, options.results)
        if os.path.exists(path):
            continue
        folder = os.path.abspath(options.environments)
        environments.ensure(folder, options.accept_libtpu_license)
        print(f"compiling    {name}", flush=True)
        asked = check.Asked(recipe.config, topology, topology.replicas, recipe.overrides, recipe.phase)
        try:
            found = check.check(asked, folder)
        except (InputError, RuntimeError) as error:
            print(f"failed       {name}: {str(error).strip().splitlines()[-1]}", file=sys.stderr, flush=True)
            continue
        with open(path, "w", encoding="utf-8") as file:
            json.dump(found, file, indent=1)
            file.write("\n")
    checks = table.read(options.results)
    with open(options.page, encoding="utf-8") as file:
        page = table.written_into(file.read(), checks.values())
    with open(options.page, "w", encoding="utf-8") as file:
        file.write(page)
    print(f"written      {options.page}: {len(checks)} recipes")


def _place(recipe, topology, folder):
    from tfbigbatch import experiment

    phases = len(experiment.load(recipe.config).phases)
    name = table.name(recipe.config, topology.accelerator_type, recipe.phase if phases else None, recipe.variant)
    return name, os.path.join(folder, f"{name}.json")


if __name__ == "__main__":
    command.execute(_main)
