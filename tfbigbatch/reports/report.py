"""What runs gave, written to files: table, results and plots, from their directories alone."""

import os

from tfbigbatch.reports import collect, plots
from tfbigbatch.reports.common_target import common_target
from tfbigbatch.reports.critical_batch import of_row
from tfbigbatch.reports.summary import summarise
from tfbigbatch.reports.table import cells, table
from tfbigbatch.runs.metric import Metric
from tfbigbatch.runs.scalars import Scalars
from tfbigbatch.utils.files import write_json, write_text, writing_errors


def make_folder(path):
    """Makes the folder that files named `path` plus an ending go to.

    For commands to call before their runs: what cannot be written is then an error now, and not in an hour.
    """
    folder = os.path.dirname(path) or "."
    with writing_errors(folder):
        os.makedirs(folder, exist_ok=True)


class Report:
    """The numbers of rows of one task, as they are now; reads the run directories at once.

    Args:
      rows: list of `runs.Row`.
      target: value of the task's metric; how soon the rows reach it is shown. None for not.
      title: of the plots; None for the task's name.
      baseline: name of the row that the others are held against; None for none.
      heading: of the table's first column.

    Attributes:
      rows, target, title, baseline, heading: as given.
      metric: `metric.Metric`, the target of the rows' task.
      summary: what `summary.summarise` gave of the rows.
    """

    def __init__(self, rows, *, target=None, title=None, baseline=None, heading="run"):
        task = collect.only_task(rows)
        sets = sorted({row.config["evaluate_on"] for row in rows})
        self.metric = Metric.of_task(task, " or ".join(sets))
        self.summary = summarise(rows, self.metric, target)
        self.title = title or task
        self.rows = rows
        self.target = target
        self.baseline = baseline
        self.heading = heading
        self._scalars = {}

    @classmethod
    def of_study(cls, study, model_dir):
        """The report of a `tfbigbatch.studies.study.Study` whose runs lie under `model_dir`."""
        rows = collect.of_entries(study.entries, model_dir)
        return cls(rows, target=study.target, title=study.title, baseline=study.baseline, heading="method")

    @classmethod
    def of_folders(cls, folders, target=None):
        """The report of the run directories in and under some folders.

        Args:
          folders: list of paths.
          target: value of the metric; None for one that half of the finished rows reach, where batch sizes differ.
        """
        rows = collect.found_in(folders)
        metric = Metric.of_task(collect.only_task(rows))
        return cls(rows, target=common_target(rows, metric) if target is None else target)

    def scalars(self, run):
        """The `Scalars` of a `runs.Run`, as they were when they were first asked for."""
        if run.directory not in self._scalars:
            self._scalars[run.directory] = Scalars(run.directory)
        return self._scalars[run.directory]

    def ranked(self):
        """The same rows, the best first."""
        rows = list(zip(self.summary, self.rows))
        rows.sort(key=lambda pair: self.metric.order(pair[0]["mean"]))
        return Report(
            [row for _, row in rows],
            target=self.target,
            title=self.title,
            baseline=self.baseline,
            heading=self.heading,
        )

    def table(self):
        """The lines of a Markdown table."""
        return table(self.summary, self.metric, self.target, self.heading)

    def cells(self):
        """The same table as lists of texts."""
        return cells(self.summary, self.metric, self.target, self.heading)

    def write_table(self, path):
        write_text(path, f"{self.title}\n\n" + "\n".join(self.table()) + "\n")

    def write_results(self, path):
        """The summary as JSON, with the configs and versions that gave it, and no path of the machine."""
        started = [[run.versions for run in row.runs if run.versions] for row in self.rows]
        versions = next((found[0] for found in started if found), {})
        listed = []
        for numbers, found in zip(self.summary, started):
            # One set of versions for all; a row that also ran under another says so.
            others = [other for other in found if other != versions]
            listed.append({**numbers, **({"other_versions": others} if others else {})})
        content = {
            "title": self.title,
            "higher_is_better": self.metric.higher_is_better,
            "target": self.target,
            "runs": listed,
            "versions": versions,
        }
        write_json(path, content)

    def write_curves(self, path):
        """A PNG of the metric against updates, all rows in one plot."""
        plots.curves(path, self.rows, self.metric, f"{self.title}: {self.metric.name} against updates")

    def write_plots(self, path):
        """PATH_batch.png, PATH_curves.png, PATH_seconds.png, and PATH_updates.png where there is a target.

        Returns:
          The paths.
        """
        name, title, baseline = self.metric.name, self.title, self.baseline
        written = [f"{path}_{plot}.png" for plot in ("batch", "curves", "seconds")]
        plots.against_batch(written[0], self.summary, self.metric, f"{title}: {name} against batch", baseline)
        plots.curves_by_batch(written[1], self.rows, self.metric, f"{title}: {name} against updates", baseline)
        plots.seconds(written[2], self.summary, f"{title}: time against batch", baseline)
        if self.target is not None:
            written.append(f"{path}_updates.png")
            goal = f"{title}: updates to {self.metric.shown_target(self.target)}"
            critical = [found for found in (of_row(row, self.scalars) for row in self.rows) if found]
            plots.updates_to_target(written[3], self.summary, self.metric, goal, self.target, baseline, critical)
        return written
