"""The table of compiled recipes in results/measurements/tpu.md, made from checks stored as JSON files."""

from __future__ import annotations

import glob
import os
import typing
from collections.abc import Iterable, Iterator
from typing import Any

from tfbigbatch.errors import InputError
from tfbigbatch.tpu import report
from tfbigbatch.utils import files

BEGIN, END = "<!-- compiled recipes: written by tools/tpu_table.py -->", "<!-- end of compiled recipes -->"


class Recipe(typing.NamedTuple):
    """A row of the table.

    Attributes:
      config: path of an experiment file.
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


_BASE = ("model.layers=12", "model.hidden_units=768", "model.heads=12", "model.inner_units=3072")
_SHARED, _UNSHARED = ("optimizer.share_work=True",), ("optimizer.share_work=False",)
_RECOMPUTE = ("model.recompute=True",)
# Each for the slice of its paper or MLPerf submission, and for a current one; those on v4 for the calibration.
RECIPES = (
    Recipe("experiments/digits/lstm_legw.py", "v3-16"),
    Recipe("experiments/digits/lstm_adasum.py", "v3-16"),
    Recipe("experiments/mnist/lstm_legw.py", "v3-32"),
    Recipe("experiments/mnist/lstm_legw.py", "v5e:16"),
    Recipe("experiments/ptb/small.py:legw", "v3-32"),
    Recipe("experiments/ptb/small.py:legw", "v5e:16"),
    Recipe("experiments/imagenet/resnet50_lars.py:32k", "v3-512"),
    Recipe("experiments/imagenet/resnet50_lars.py:32k", "v5e:256"),
    Recipe("experiments/imagenet/resnet50_lars.py:32k", "v5e:256", variant="recompute", overrides=_RECOMPUTE),
    Recipe("experiments/imagenet/resnet50_lars.py:8k", "v4:4x4x4"),
    Recipe("experiments/imagenet/resnet50_lamb.py:32k", "v3-1024"),
    Recipe("experiments/imagenet/resnet50_lamb.py:32k", "v5e:256"),
    Recipe("experiments/imagenet/resnet50_lars.py:v2_32k", "v3-1024"),
    Recipe("experiments/imagenet/resnet50_lars.py:v2_32k", "v5e:256"),
    Recipe("experiments/imagenet/alexnet.py:bn_lars_32k", "v3-512"),
    Recipe("experiments/imagenet/alexnet.py:bn_lars_32k", "v5e:256"),
    Recipe("experiments/imagenet/resnet50.py:adasum_64k", "v3-512"),
    Recipe("experiments/imagenet/resnet50_muon.py:32k", "v3-512", variant="shared", overrides=_SHARED),
    Recipe("experiments/imagenet/resnet50_muon.py:32k", "v3-512", variant="unshared", overrides=_UNSHARED),
    Recipe("experiments/imagenet/resnet50_muon.py:64k", "v3-512"),
    Recipe("experiments/imagenet/resnet50_shampoo.py:32k", "v3-512"),
    Recipe("experiments/imagenet/resnet50_shampoo.py:64k", "v3-512"),
    Recipe("experiments/bert/muon.py", "v3-512", 1, "shared", (*_SHARED, "accumulation_steps=4")),
    Recipe("experiments/bert/muon.py", "v3-512", 1, "unshared", (*_UNSHARED, "accumulation_steps=4")),
    Recipe("experiments/bert/muon.py", "v3-512", 2, "shared", (*_SHARED, "accumulation_steps=4")),
    Recipe("experiments/bert/muon.py", "v3-512", 2, "unshared", (*_UNSHARED, "accumulation_steps=4")),
    Recipe("experiments/bert/lamb.py:64k_32k", "v3-2048", 1),
    Recipe("experiments/bert/lamb.py:64k_32k", "v3-2048", 2),
    Recipe("experiments/bert/lamb.py:64k_32k", "v5p:512", 1),
    Recipe("experiments/bert/lamb.py:64k_32k", "v5p:512", 2),
    Recipe("experiments/bert/lamb.py:32k", "v3-512", 1, "base", _BASE),
    Recipe("experiments/bert/lamb.py:32k", "v3-512", 2, "base", _BASE),
    Recipe("experiments/bert/lamb.py:32k", "v5e:256", 1, "base", _BASE),
    Recipe("experiments/bert/lamb.py:32k", "v5e:256", 2, "base", _BASE),
    Recipe("experiments/bert/lamb.py:32k", "v5e:256", 2, "base_recompute", (*_BASE, *_RECOMPUTE)),
    Recipe("experiments/bert/mlperf.py:256", "v4:2x2x2"),
    Recipe("experiments/bert/mlperf.py:4k", "v4:4x4x4"),
    Recipe("experiments/wmt/gnmt_legw.py:4k", "v3-64"),
    Recipe("experiments/wmt/gnmt_legw.py:4k", "v5e:32"),
    Recipe("experiments/wmt/gnmt_legw.py:4k", "v5e:32", variant="recompute", overrides=_RECOMPUTE),
    Recipe("experiments/wmt/gnmt_legw.py:muon_4k", "v3-64"),
)


def name(config: str, accelerator_type: str, phase: int | None = None, variant: str = "") -> str:
    """The name of a check's file, without its ending."""
    path, _, argument = config.partition(":")
    folder, file = os.path.split(path.removesuffix(".py"))
    file = f"{file}_{argument}" if argument else file
    parts = (os.path.basename(folder), file, variant, f"phase{phase}" if phase else "", accelerator_type)
    return "_".join(part for part in parts if part)


def read(folder: str) -> dict[str, dict[str, Any]]:
    """The stored results of `check.check` in a folder, by name.

    Raises:
      ValueError: a file holds something else.
    """
    found = {}
    for path in sorted(glob.glob(os.path.join(glob.escape(folder), "*.json"))):
        content = files.read_json_dictionary(path)
        try:
            # What the table shows of it and what a plan needs of it are nearly the same.
            _row(content)
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
            raise InputError(
                f"{path} is not an output of tfbigbatch tpu-check ({error!r:.200}). Check the step again."
            ) from None
        found[os.path.splitext(os.path.basename(path))[0]] = content
    return found


def lines(checks: Iterable[dict[str, Any]]) -> Iterator[str]:
    """The lines of the table."""
    yield (
        "| experiment | slice | batch = a replica's x accumulation x replicas | fits | memory of a replica | "
        "GFLOP of a replica | moved by it | collectives of an update | to look at | compiled in |"
    )
    yield "|---|---|---:|---|---:|---:|---:|---|---|---:|"
    for found in checks:
        yield _row(found)


def _row(found: dict[str, Any]) -> str:
    accumulation = found["accumulation_steps"]
    micro = found["per_replica_batch"] // accumulation
    batch = f"{found['batch_size']:,} = {micro:,} x {accumulation} x {found['replicas']:,}"
    config = ", ".join([found["config"], *found["overrides"]])
    if found["phases"] > 1:
        config += f", phase {found['phase']}"
    if not found["compiles"]:
        fits, memory = "does not compile", ""
    else:
        needed = found["peak_bytes"] if found["fits"] else found["needed_bytes"]
        fits = "yes" if found["fits"] else "no"
        memory = f"{report.size(needed)} of {report.size(found['usable_bytes'])}"
    more = "*" if found.get("uncounted_loops") else ""
    flops = "" if found.get("flops") is None else f"{_billions(found['flops'])}{more}"
    moved = "" if found.get("flops") is None else f"{report.size(found['bytes'])}{more}"
    kinds = sorted({f"{each['kind']}: {each['operation']}" for each in found["findings"]})
    cells = (
        config,
        f"{found['topology']} ({found['accelerator_type']})",
        batch,
        fits,
        memory,
        flops,
        moved,
        report.collectives(found) if found.get("collectives") else "",
        "; ".join(kinds) or "nothing",
        f"{found.get('seconds', 0):.0f} s",
    )
    return f"| {' | '.join(cells)} |"


def _billions(number: float) -> str:
    """Formats in billions; small numbers keep two digits."""
    return f"{number / 1e9:,.0f}" if number >= 1e11 else f"{number / 1e9:.2g}"


def written_into(text: str, checks: Iterable[dict[str, Any]]) -> str:
    """A page with its table replaced.

    Raises:
      ValueError: the page lacks the markers.
    """
    before, begins, rest = text.partition(BEGIN)
    _, ends, after = rest.partition(END)
    if not begins or not ends:
        raise ValueError(f"the page lacks the lines {BEGIN!r} and {END!r}, between which the table goes.")
    table = "\n".join(lines(checks))
    return f"{before}{BEGIN}\n\n{table}\n\n{END}{after}"
