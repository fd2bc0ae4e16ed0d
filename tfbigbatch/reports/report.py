"""Report: table, results and plots of run directories."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from tfbigbatch.errors import InputError
from tfbigbatch.reports import collect, plots
from tfbigbatch.reports.collect import Row
from tfbigbatch.reports.table import Table, results_table, summarise
from tfbigbatch.run_directory.metric import Metric
from tfbigbatch.utils.files import write_json, write_text, writing_errors


def make_folder(path: str) -> None:
    """Makes the parent folder of `path`; called before the runs, so that a mistake is an error at the start."""
    folder = os.path.dirname(path) or "."
    with writing_errors(folder):
        os.makedirs(folder, exist_ok=True)


class Report:
    """The results of rows of one task at this moment; reads the run directories when it is made.

    Args:
      rows: from `collect`.
      target: value of the task's metric; the report shows the steps to it. None for none.
      title: of table and plots; None for the task's name.
      baseline: name of the row that the others are compared with; None for none.
      heading: of the table's first column.

    Attributes:
      rows, target, title, baseline, heading: the arguments.
      metric: the target of the rows' task.
      summary: from `table.summarise`.
    """

    def __init__(
        self,
        rows: list[Row],
        *,
        target: float | None = None,
        title: str | None = None,
        baseline: str | None = None,
        heading: str = "run",
    ) -> None:
        task = collect.only_task(rows)
        sets = sorted({row.config["evaluate_on"] for row in rows})
        self.metric = Metric.of_task(task, " or ".join(sets))
        self.summary = summarise(rows, self.metric, target)
        self.title = title or task
        self.rows = rows
        self.target = target
        self.baseline = baseline
        self.heading = heading

    @classmethod
    def of_sweep(cls, sweep: Any, model_dir: str) -> Report:
        """The report of a `sweeps.Sweep` with its runs under `model_dir`, tuned rows at their chosen learning rates.

        Raises:
          ValueError: all rows are tuned, and no learning rate is chosen yet.
        """
        entries = sweep.chosen(model_dir).entries
        if not entries:
            raise InputError(
                f"{model_dir}: no row of {sweep.title!r} has all of its trials yet. The `tfbigbatch sweep` that began "
                "them resumes them."
            )
        rows = collect.of_entries(entries, model_dir)
        return cls(rows, target=sweep.target, title=sweep.title, baseline=sweep.baseline, heading="method")

    @classmethod
    def of_folders(cls, folders: Iterable[str], target: float | None = None) -> Report:
        """The report of the run directories in and under some folders.

        Args:
          folders: their paths.
          target: value of the metric; None for none.
        """
        return cls(collect.found_in(folders), target=target)

    def table(self) -> Table:
        """The summary as a table."""
        return results_table(self.summary, self.metric, self.target, self.heading)

    def write_table(self, path: str) -> None:
        """Writes the table as Markdown."""
        write_text(path, f"{self.title}\n\n" + "\n".join(self.table().markdown()) + "\n")

    def write_results(self, path: str) -> None:
        """Writes the summary as JSON, with configs and package versions, and without paths of this machine."""
        listed = []
        for numbers in self.summary:
            config = {name: value for name, value in numbers["config"].items() if name != "experiment"}
            listed.append({**numbers, "config": config})
        content = {
            "title": self.title,
            "higher_is_better": self.metric.higher_is_better,
            "target": self.target,
            "runs": listed,
            "versions": collect.versions(self.rows),
        }
        write_json(path, content)

    def write_plots(self, path: str) -> dict[str, str]:
        """Writes PATH_batch.png, PATH_curves.png and, with a target, PATH_updates.png.

        What has nothing to show is left out; plots against batch size take two sizes.

        Args:
          path: of the files, without their endings.

        Returns:
          The paths, by the names 'batch', 'curves' and 'updates'.
        """
        written = {}
        if len({row["batch_size"] for row in self.summary if row["mean"] is not None}) > 1:
            written["batch"] = f"{path}_batch.png"
            title = f"{self.title}: {self.metric.name} against batch"
            plots.against_batch(written["batch"], self.summary, self.metric, title, self.baseline)
        if any(run.curve(self.metric) for row in self.rows for run in row.runs):
            written["curves"] = f"{path}_curves.png"
            title = f"{self.title}: {self.metric.name} against steps"
            plots.curves_by_batch(written["curves"], self.rows, self.metric, title, self.baseline)
        reached = any(row["updates_to_target"] is not None for row in self.summary)
        if self.target is not None and reached and len({row["batch_size"] for row in self.summary}) > 1:
            written["updates"] = f"{path}_updates.png"
            title = f"{self.title}: steps to {self.metric.shown_target(self.target)}"
            plots.against_batch(written["updates"], self.summary, self.metric, title, self.baseline, self.target)
        return written
