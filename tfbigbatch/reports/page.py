"""The page of a report: one HTML file that can be sent to anyone, and its plots beside it."""

import collections
import os
import time

from tfbigbatch import experiment
from tfbigbatch.reports import collect, html
from tfbigbatch.reports.run_plots import run_curves
from tfbigbatch.reports.trust_plot import limits, trust_map, trust_ratios
from tfbigbatch.runs.run_states import run_states
from tfbigbatch.utils.files import write_text

_PNG_END = b"IEND\xaeB`\x82"
_CAPTIONS = {
    "batch": "At the end, against batch size. Bars are standard deviations over seeds.",
    "curves": "Against updates: the mean over seeds, from the least to the greatest shaded.",
    "seconds": "Time of a run against batch size.",
    "updates": "Updates to the target against batch size: along the dotted line twice the batch takes half of them.",
}


def write_page(report, path):
    """Writes PATH.html and, beside it, every PNG in it but those that the runs drew themselves.

    Args:
      report: `report.Report`.
      path: of the files, without their endings.

    Returns:
      The paths, the page's first.

    Raises:
      ValueError: matplotlib is not installed, or a file cannot be written.
    """
    scaling = report.write_plots(path)
    every = f"{path}_runs.png"
    run_curves(every, report.rows, report.scalars, f"{report.title}: all runs against updates")
    trust = _write_trust_maps(report, path)
    sections = [
        ("", [html.paragraph(_overview(report)), html.table(report.cells())]),
        ("Runs", [html.table(run_states(report.rows, report.scalars, report.metric))]),
        (
            "Curves",
            [_picture(file, _caption(path, file)) for file in scaling if file.endswith("_curves.png")]
            + [_picture(every, "Every run: a line each, as far as it is.")],
        ),
        ("Batch size", [_picture(file, _caption(path, file)) for file in scaling if not file.endswith("_curves.png")]),
        ("Trust ratios", [_picture(file, caption) for file, caption in trust] or [html.paragraph(_NO_TRUST)]),
        ("Loss between and around weights", _drawn_by_runs(report)),
        ("Configs", _configs(report.rows)),
        ("Versions", [html.paragraph(words) for words in _versions(report.rows)]),
    ]
    write_text(f"{path}.html", html.document(report.title, [section for section in sections if section[1]]))
    return [f"{path}.html", *scaling, every, *(file for file, _ in trust)]


_NO_TRUST = (
    "No run has them. LARS and LAMB tell them with --config.instruments.layers.enabled=true, every so many updates as "
    "--config.instruments.layers.every says."
)


def _overview(report):
    states = collections.Counter({"done": "ended"}.get(run.state, run.state) for row in report.rows for run in row.runs)
    words = ", ".join(f"{count} {state}" for state, count in states.items())
    target = "" if report.target is None else f" Target: {report.metric.shown_target(report.target)}."
    written = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    count = sum(states.values())
    return (
        f"{count} run{'s' if count > 1 else ''}: {words}.{target} As of {written}; the same command renews this page."
    )


def _write_trust_maps(report, path):
    """PATH_trust_1.png, ...: of each row's first run that has trust ratios. Returns (path, caption) of each."""
    found = []
    for row in report.rows:
        for run in row.runs:
            layers = trust_ratios(report.scalars(run))
            if layers:
                found.append((f"{row.name} at {row.batch_size:,}, seed {run.seed}", layers))
                break
    least, largest = limits([layers for _, layers in found])
    written = []
    for number, (name, layers) in enumerate(found, 1):
        file = f"{path}_trust_{number}.png"
        trust_map(file, layers, f"Trust ratios: {name}", least, largest)
        written.append(
            (file, f"{name}: the trust ratio of each variable at each look. One colour is one ratio in all.")
        )
    return written


def _drawn_by_runs(report):
    pieces = []
    for row in report.rows:
        for run in row.runs:
            for name in ("interpolation", "surface"):
                file = os.path.join(run.directory, "instruments", f"{name}.png")
                png = _read(file) if os.path.exists(file) else b""
                # A run may be drawing it just now.
                if png.endswith(_PNG_END):
                    pieces.append(html.picture(png, f"{row.name} at {row.batch_size:,}, seed {run.seed}: {name}"))
    return pieces


def _configs(rows):
    """A table of the fields in which the rows differ, the seed apart."""
    flat = [experiment.flat({**row.config, "seed": None}) for row in rows]
    fields = collect.differing(flat)
    if len(rows) == 1:
        return [html.paragraph("One config; the seed apart nothing differs.")]
    head = ["run", *fields]
    lines = [[row.name, *(str(config.get(field, "")) for field in fields)] for row, config in zip(rows, flat)]
    return [html.paragraph("The fields that differ; all others are equal in all runs."), html.table([head, *lines])]


def _versions(rows):
    """A line for each set of versions that runs ran under."""
    found = {}
    for row in rows:
        for run in row.runs:
            if run.versions:
                found[", ".join(f"{name} {version}" for name, version in sorted(run.versions.items()))] = None
    return list(found)


def _caption(path, file):
    return _CAPTIONS[file[len(path) + 1 : -len(".png")]]


def _picture(file, caption):
    return html.picture(_read(file), caption)


def _read(file):
    with open(file, "rb") as opened:
        return opened.read()
