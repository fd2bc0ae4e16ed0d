"""Writes the tables of README.md, docs/ and results/measurements/, and docs/pictures/, from the files of results/.

    python -m tools.pages                          # all tables and pictures
    python -m tools.pages --check                  # names what is not as the results are, and ends with 1
    python -m tools.pages --trust_ratios=RUN_DIR   # first stores the trust ratios of a run, for their picture

The pages hold the tables between comments: `tables` says how.
"""

from __future__ import annotations

import argparse
import json
import sys

from tfbigbatch.errors import InputError
from tfbigbatch.run_directory.metrics_log import Scalars
from tools.pages import pictures, tables
from tools.pages.stored_rows import ROOT


def main(arguments: list[str] | None = None) -> int:
    """Writes or checks; gives the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.pages", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; end with 1 where something is outdated")
    parser.add_argument("--trust_ratios", metavar="RUN_DIR", help="a run with instruments.layers.enabled, to store")
    options = parser.parse_args(arguments)
    if options.check:
        for name in outdated():
            print(f"{name}: outdated")
        return 1 if outdated() else 0
    if options.trust_ratios:
        store_trust_ratios(options.trust_ratios)
    for path in tables.pages():
        path.write_text(tables.written(path.read_text(encoding="utf-8")), encoding="utf-8")
    pictures.write()
    return 0


def outdated() -> list[str]:
    """The pages with a table, and the pictures, that do not show what the files of results/ hold."""
    texts = {path: path.read_text(encoding="utf-8") for path in tables.pages()}
    pages = [path.relative_to(ROOT).as_posix() for path, text in texts.items() if tables.written(text) != text]
    drawn = json.loads(pictures.SOURCES.read_text(encoding="utf-8"))
    return pages + [f"docs/pictures/{name}" for name, digest in pictures.digests().items() if drawn.get(name) != digest]


def store_trust_ratios(directory: str) -> None:
    """Stores the trust ratios of a run directory in `pictures.TRUST_RATIOS`.

    Raises:
      ValueError: the run has none.
    """
    layers = Scalars(directory).below("train", "layers/trust_ratio/")
    # What LAMB does not adapt, such as biases, has a ratio of 1 throughout.
    layers = {name: series for name, series in layers.items() if set(series.values()) != {1.0}}
    if not layers:
        raise InputError(
            f"{directory} has no trust ratios; expected a run with --config.instruments.layers.enabled=true"
        )
    steps = sorted({step for series in layers.values() for step in series})
    stored = {
        "title": "WikiText-2, a BERT of 2 x 64 at batch 2,048: trust ratios of LAMB",
        "steps": steps,
        "trust_ratios": {name: [_rounded(series.get(step)) for step in steps] for name, series in layers.items()},
    }
    (ROOT / pictures.TRUST_RATIOS).write_text(json.dumps(stored) + "\n", encoding="utf-8")


def _rounded(ratio: float | None) -> float | None:
    return None if ratio is None else float(f"{ratio:.4g}")


if __name__ == "__main__":
    sys.exit(main())
