"""The table of compiled recipes in results/measurements/tpu.md; as a command, compiles those that are not stored yet.

    python -m tools.pages.tpu                   # all of them: hours
    python -m tools.pages.tpu --only=digits     # those with this in their path or slice

Each outcome is stored in results/tpu.json, and the same command resumes from there. To compile a recipe again, remove
its entry. `python -m tools.pages` then writes the table. The rows of Muon with all matrices shared and with none are of
a changed `assignment.worthwhile`, which no command compiles.
"""

from __future__ import annotations

import argparse
import os
import typing
from typing import Any

from tfbigbatch.config import load_config
from tfbigbatch.reports.table import Table
from tfbigbatch.tpu import check, environments, topologies
from tfbigbatch.utils import files
from tools.pages.stored_rows import ROOT

RESULTS = ROOT / "results" / "tpu.json"
_HEADINGS = (
    "experiment",
    "slice",
    "batch = a replica's x accumulation x replicas",
    "fits",
    "memory of a replica",
    "GFLOP of a replica",
    "moved by it",
    "collectives of an update",
    "to look at",
    "compiled in",
)


class Recipe(typing.NamedTuple):
    """A row of the table.

    Attributes:
      config: name of an experiment.
      topology: the slice's name.
      phase: of the run.
      variant: name of the `overrides`, for the file's name; or "".
      overrides: 'field=value' for the config.
    """

    config: str
    topology: str
    phase: int = 1
    variant: str = ""
    overrides: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """The name of its stored outcome."""
        path, _, argument = self.config.partition(":")
        folder, name = os.path.split(path.removesuffix(".py"))
        phase = f"phase{self.phase}" if load_config(self.config).phases else ""
        parts = (os.path.basename(folder), name, argument, self.variant, phase, self.slice.accelerator_type)
        return "_".join(filter(None, parts))

    @property
    def slice(self) -> topologies.Topology:
        """The slice."""
        return topologies.parse(self.topology)


_BASE = ("model.layers=12", "model.hidden_units=768", "model.heads=12", "model.inner_units=3072")
_RECOMPUTE = ("model.recompute=True",)

# Each for the slice of its paper or MLPerf submission, and for a current one.
RECIPES = (
    Recipe("experiments/digits/lstm_legw.py", "v3-16"),
    Recipe("experiments/digits/lstm_adasum.py", "v3-16"),
    *(Recipe("experiments/mnist/lstm_legw.py", name) for name in ("v3-32", "v5e:16")),
    *(Recipe("experiments/ptb/small.py:legw", name) for name in ("v3-32", "v5e:16")),
    *(Recipe("experiments/imagenet/resnet50_lars.py:32k", name) for name in ("v3-512", "v5e:256")),
    Recipe("experiments/imagenet/resnet50_lars.py:32k", "v5e:256", 1, "recompute", _RECOMPUTE),
    Recipe("experiments/imagenet/resnet50_lars.py:8k", "v4:4x4x4"),
    *(Recipe("experiments/imagenet/resnet50_lamb.py:32k", name) for name in ("v3-1024", "v5e:256")),
    *(Recipe("experiments/imagenet/resnet50_lars.py:v2_32k", name) for name in ("v3-1024", "v5e:256")),
    *(Recipe("experiments/imagenet/alexnet.py:bn_lars_32k", name) for name in ("v3-512", "v5e:256")),
    Recipe("experiments/imagenet/resnet50.py:adasum_64k", "v3-512"),
    *(Recipe(f"experiments/imagenet/resnet50_muon.py:{size}", "v3-512") for size in ("32k", "64k")),
    *(Recipe(f"experiments/imagenet/resnet50_shampoo.py:{size}", "v3-512") for size in ("32k", "64k")),
    *(
        Recipe("experiments/bert/muon.py", "v3-512", phase, "accumulated", ("accumulation_steps=4",))
        for phase in (1, 2)
    ),
    *(Recipe("experiments/bert/lamb.py:64k_32k", name, phase) for name in ("v3-2048", "v5p:512") for phase in (1, 2)),
    *(
        Recipe("experiments/bert/lamb.py:32k", name, phase, "base", _BASE)
        for name in ("v3-512", "v5e:256")
        for phase in (1, 2)
    ),
    Recipe("experiments/bert/lamb.py:32k", "v5e:256", 2, "base_recompute", (*_BASE, *_RECOMPUTE)),
    Recipe("experiments/bert/mlperf.py:256", "v4:2x2x2"),
    Recipe("experiments/bert/mlperf.py:4k", "v4:4x4x4"),
    *(Recipe("experiments/wmt/gnmt_legw.py:4k", name) for name in ("v3-64", "v5e:32")),
    Recipe("experiments/wmt/gnmt_legw.py:4k", "v5e:32", 1, "recompute", _RECOMPUTE),
    Recipe("experiments/wmt/gnmt_legw.py:muon_4k", "v3-64"),
)


def row(found: dict[str, Any]) -> list[str]:
    """The cells of a result of `check.check`."""
    accumulation = found["accumulation_steps"]
    micro = found["per_replica_batch"] // accumulation
    config = ", ".join([found["config"], *found["overrides"]])
    config += f", phase {found['phase']}" if found["phases"] > 1 else ""
    fits, memory, flops, moved, collectives = "does not compile", "", "", "", ""
    if found["compiles"]:
        fits, needed = ("yes", found["peak_bytes"]) if found["fits"] else ("no", found["needed_bytes"])
        memory = f"{check.size(needed)} of {check.size(found['usable_bytes'])}"
    if found.get("flops") is not None:
        more = "*" if found["uncounted_loops"] else ""
        number = found["flops"] / 1e9
        flops, moved = (
            f"{number:,.0f}{more}" if number >= 100 else f"{number:.2g}{more}",
            check.size(found["bytes"]) + more,
        )
        collectives = check.collectives(found)
    return [
        config,
        f"{found['topology']} ({found['accelerator_type']})",
        f"{found['batch_size']:,} = {micro:,} x {accumulation} x {found['replicas']:,}",
        fits,
        memory,
        flops,
        moved,
        collectives,
        "; ".join(sorted({f"{each['kind']}: {each['operation']}" for each in found["findings"]})) or "nothing",
        f"{found.get('seconds', 0):.0f} s",
    ]


def table() -> Table:
    """A row for each stored outcome."""
    stored = files.read_json_dictionary(str(RESULTS))
    checks = [stored[key] for key in sorted(stored)]
    left = {"experiment", "slice", "fits", "collectives of an update", "to look at"}
    return Table(_HEADINGS, [row(found) for found in checks], frozenset(left))


def main() -> None:
    """Compiles what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="compile only the recipes with this text in their path or slice")
    parser.add_argument("--environments", default=environments.FOLDER, help="folder of those of `tfbigbatch tpu-check`")
    given = parser.parse_args()
    folder = os.path.abspath(given.environments)
    stored = files.read_json_dictionary(str(RESULTS))
    for recipe in RECIPES:
        if given.only not in f"{recipe.config} {recipe.topology}" or recipe.key in stored:
            continue
        environments.ensure(folder)
        print(f"compiling    {recipe.key}", flush=True)
        topology = recipe.slice
        stored[recipe.key] = check.check(
            recipe.config,
            topology,
            folder,
            replicas=topology.replicas,
            overrides=recipe.overrides,
            phase=recipe.phase,
        )
        files.write_json(str(RESULTS), stored)


if __name__ == "__main__":
    main()
