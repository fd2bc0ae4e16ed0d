"""Compiles the recipes of the table in results/measurements/tpu.md that are not compiled yet, and writes the table.

    tfbigbatch tpu-table                   # all of them: hours
    tfbigbatch tpu-table --only=digits     # those with this in their path or slice
    tfbigbatch tpu-table --only=           # none: only writes the table from the stored outcomes

Each outcome is stored in results/tpu, and the same command resumes from there. To compile a recipe again, remove
its file.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence

from absl import flags

from tfbigbatch import experiment
from tfbigbatch.errors import InputError
from tfbigbatch.tpu import check, environments, table, topologies


def define_flags() -> None:
    flags.DEFINE_string(
        "only", None, "Compile only the recipes with this text in their path or slice; empty for none. Default: all."
    )
    flags.DEFINE_string("results", "results/tpu", "Folder of the outcomes.")
    flags.DEFINE_string("page", "results/measurements/tpu.md", "Page to write the table into.")
    flags.DEFINE_string("environments", environments.FOLDER, "Folder of the environments; see tpu-check.")
    flags.DEFINE_bool("accept_libtpu_license", False, "See tpu-check.")


def main(arguments: Sequence[str]) -> None:
    options = flags.FLAGS
    os.makedirs(options.results, exist_ok=True)
    for recipe in table.RECIPES:
        if options.only is not None and not (options.only and options.only in f"{recipe.config} {recipe.topology}"):
            continue
        topology = topologies.parse(recipe.topology)
        name, path = _name_and_path(recipe, topology, options.results)
        if os.path.exists(path):
            continue
        folder = os.path.abspath(options.environments)
        environments.ensure(folder, options.accept_libtpu_license)
        print(f"compiling    {name}", flush=True)
        asked = check.CheckRequest(recipe.config, topology, topology.replicas, recipe.overrides, recipe.phase)
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


def _name_and_path(recipe: table.Recipe, topology: topologies.Topology, folder: str) -> tuple[str, str]:
    phases = len(experiment.load(recipe.config).phases)
    name = table.name(recipe.config, topology.accelerator_type, recipe.phase if phases else None, recipe.variant)
    return name, os.path.join(folder, f"{name}.json")
