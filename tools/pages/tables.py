"""Tables in Markdown pages, written from the files of results/.

A page says which table it has, and the command writes what stands between the two comments:

    <!-- table: results/mnist.json batches=128,8192 rows="baseline|LEGW + LAMB" -->
    <!-- end of table -->

| option | meaning |
|---|---|
| `batches` | batch sizes, in this order; left out, all |
| `rows` | names of rows, between bars, in this order; left out, all |
| `names` | other words for the names, between bars, `old=new` |
| `columns` | beginnings of names, between bars: "AdamW, alone" and "LAMB, alone" become one row; `rows` has the rest |

`<!-- table: headline folder=docs/results/ -->` is the table of `headline`, with links to pages in that folder,
`<!-- table: keras_own -->` and `<!-- table: tpu -->` are those of `keras_own` and `tpu`. `<!-- table: tune
columns="tune 3|random 3" names="tune 3=tune" -->` has a column for each of these methods of benchmarks/tune, and
`<!-- table: tune rows="tune 3" -->` what they chose.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from tfbigbatch.reports.table import Table
from tools.pages import headline, keras_own, stored_rows, tpu, tune
from tools.pages.stored_rows import ROOT, Row

BLOCK = re.compile(r"(<!-- table: (.+?) -->\n).*?(<!-- end of table -->)", re.DOTALL)
OPTIONS = {"batches", "rows", "names", "columns", "folder"}
# Words for the names that sweeps give their rows.
NAMES = {"baseline": "small batch", "naive": "learning rate kept"}


def pages() -> list[Path]:
    """The pages with such tables."""
    found = [ROOT / "README.md"]
    found += [path for folder in ("docs", "results/measurements") for path in sorted((ROOT / folder).glob("**/*.md"))]
    return [path for path in found if BLOCK.search(path.read_text(encoding="utf-8"))]


def written(text: str) -> str:
    """A page's text with its tables as the results are now.

    Raises:
      ValueError: a table asks for rows that its file lacks, or has an unknown option.
    """
    return BLOCK.sub(lambda match: match[1] + "\n".join(_lines(match[2])) + "\n" + match[3], text)


def _lines(asked: str) -> list[str]:
    path, *words = shlex.split(asked)
    options = dict(word.split("=", 1) for word in words)
    if unknown := set(options) - OPTIONS:
        raise ValueError(f"table {asked!r} has the options {sorted(unknown)}; expected some of {sorted(OPTIONS)}")
    if path == "headline":
        return _unpadded(headline.table(options.get("folder", "")))
    if path in ("keras_own", "tpu"):
        return _unpadded({"keras_own": keras_own, "tpu": tpu}[path].table())
    if path == "tune":
        if "rows" in options:
            return _unpadded(tune.choices(options["rows"].split("|")))
        return _unpadded(tune.table(options["columns"].split("|"), _names(options)))
    table = _side_by_side if "columns" in options else _table
    return _unpadded(table(_chosen(path, options), options))


def _unpadded(table: Table) -> list[str]:
    """Markdown without spaces that align it: one row changed is one line changed."""
    rule = "".join("---|" if heading in table.texts else "---:|" for heading in table.headings)
    return [f"| {' | '.join(line)} |" if line else f"|{rule}" for line in (table.headings, (), *table.rows)]


def _chosen(path: str, options: dict[str, str]) -> list[Row]:
    rows = list(stored_rows.rows(path))
    if "batches" in options:
        batches = [int(each) for each in options["batches"].split(",")]
        rows = [row for batch in batches for row in rows if row.batch_size == batch]
    if "rows" in options:
        names = options["rows"].split("|")
        found = [(row, row.name.partition(", ")[2] if "columns" in options else row.name) for row in rows]
        if missing := set(names) - {name for _, name in found}:
            raise ValueError(f"{path} lacks the rows {sorted(missing)}; it has {sorted({name for _, name in found})}")
        # By batch first, as they come.
        batches = list(dict.fromkeys(row.batch_size for row in rows))
        rows = [
            row
            for batch in batches
            for wanted in names
            for row, name in found
            if (row.batch_size, name) == (batch, wanted)
        ]
    if not rows:
        raise ValueError(f"no row of {path} has a batch size of {options['batches']}")
    return rows


def _names(options: dict[str, str]) -> dict[str, str]:
    return NAMES | dict(each.split("=", 1) for each in options["names"].split("|")) if "names" in options else NAMES


def _side_by_side(rows: list[Row], options: dict[str, str]) -> Table:
    """The values alone, those of names that differ in their beginning in one line."""
    names, columns = _names(options), options["columns"].split("|")
    values: dict[tuple[str, int, int], dict[str, str]] = {}
    for row in rows:
        column, _, name = row.name.partition(", ")
        line = values.setdefault((names.get(name, name), row.batch_size, row.steps), {})
        if row.ended:
            line[column] = row.value
    headings = ["method", "batch", "steps", *columns]
    cells = [
        [name, f"{batch:,}", f"{steps:,}", *(line.get(column, "not run") for column in columns)]
        for (name, batch, steps), line in values.items()
        if any(column in line for column in columns)
    ]
    return Table(headings, cells, frozenset({"method"}))


def _table(rows: list[Row], options: dict[str, str]) -> Table:
    names = _names(options)
    targets = any(row.steps_to_target is not None for row in rows)
    tuned = any(row.tuned for row in rows)
    headings = ["method", "batch", f"{rows[0].metric.title.replace('_', ' ')}, mean ± s.d.", "seeds", "steps"]
    headings += ["steps to target"] * targets + ["learning rate tuned"] * tuned
    cells = []
    for row in rows:
        seeds = str(row.ended) if row.ended == row.seeds else f"{row.ended} of {row.seeds}"
        line = [names.get(row.name, row.name), f"{row.batch_size:,}", row.value, seeds, f"{row.steps:,}"]
        if targets:
            line.append("never" if row.steps_to_target is None else f"{round(row.steps_to_target):,}")
        cells.append(line + [row.tuned] * tuned)
    return Table(headings, cells, frozenset({"method", "learning rate tuned"}))
