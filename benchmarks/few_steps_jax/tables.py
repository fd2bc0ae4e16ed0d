"""Tables from the file of results, in the form of the files of studies: one row a method and batch size."""

import json
import statistics

import study_files

from tfbigbatch.errors import InputError
from tfbigbatch.reports.table import Table
from tfbigbatch.runs.metric import Metric
from tfbigbatch.utils import files

# Tasks with a validation set of their own.
OWN_VALIDATION = {"ptb", "multi30k"}
METRICS = {
    "ptb": "perplexity",
    "bert": "masked_lm_accuracy",
    "mnist_lstm": "accuracy",
    "mnist": "accuracy",
    "multi30k": "bleu",
}


def write(study, path, prefix):
    """Writes PREFIX_TASK.json and .md for each task of a study in a file of results.

    Args:
      study: a study file, or its name.
      path: of the file of results.
      prefix: of the paths of the tables.

    Raises:
      ValueError: the file has no results of that study.
    """
    with open(path, encoding="utf-8") as file:
        every = [json.loads(line) for line in file if line.strip()]
    lines = [line for line in every if line.get("study") == study_files.name(study)]
    if not lines:
        # Lines of earlier files name none.
        others = ", ".join(sorted({line.get("study", "an unnamed study") for line in every})) or "none"
        raise InputError(f"--results={path} has no results of --study={study}; it has those of: {others}.")
    for name in dict.fromkeys(line["task"] for line in lines):
        metric = Metric(METRICS[name], METRICS[name] != "perplexity", "test")
        mine = [line for line in lines if line["task"] == name]
        rows = [_row(line, metric) for line in [*_chosen(mine), *_of_trials(mine, metric)]]
        rows.sort(key=lambda row: (row["batch_size"], metric.order(row["mean"])))
        title = f"{study_files.load(study, name).title}, Keras 3 on JAX"
        content = {"higher_is_better": metric.higher_is_better, "title": title, "runs": rows}
        files.write_json(f"{prefix}_{name}.json", content)
        with open(f"{prefix}_{name}.md", "w", encoding="utf-8") as file:
            file.write(f"# {title}\n\n" + "\n".join(_table(rows, mine, metric)) + "\n")
        print(f"{prefix}_{name}.json, .md")


def _chosen(lines):
    return [line for line in lines if line["stage"] == "chosen"]


def _of_trials(lines, metric):
    """Of rows without chosen runs, the best trial, where trials train on all of the data: its seed is theirs."""
    ended = {(line["method"], line["batch"]) for line in _chosen(lines)}
    for line in lines:
        if OWN_VALIDATION & {line["task"]} and (line["method"], line["batch"]) not in ended:
            best = min(range(len(line["validation"])), key=lambda number: metric.order(line["validation"][number]))
            one = {name: [line[name][best]] for name in ("test", "seeds", "learning_rates")}
            yield {**line, **one, "trials": len(line["validation"]), "at_end": best in (0, len(line["validation"]) - 1)}


def _row(line, metric):
    values = [None if value is None else value / 100 if metric.is_fraction else value for value in line["test"]]
    ended = [value for value in values if value is not None]
    all_ended = len(ended) == len(values)
    return {
        "name": line["method"],
        "batch_size": line["batch"],
        "metric": metric.name,
        "values": values,
        "seeds": line["seeds"],
        "mean": statistics.fmean(ended) if all_ended else None,
        "standard_deviation": statistics.stdev(ended) if all_ended and len(ended) > 1 else None,
        "steps": line["steps"],
        "tuned": f"{line['learning_rates'][0]:g} of {line['trials']} trials" + ", at an end" * line["at_end"],
        "config": {"evaluate_on": "test", "optimizer": line["method"], "learning_rate": line["learning_rates"][0]},
        "device": line["device"],
    }


def _table(rows, lines, metric):
    """The rows, and the metric on validation data of each learning rate."""
    headings = ["method", "batch", f"{metric.title.replace('_', ' ')}, mean ± s.d.", "seeds", "steps", "learning rate"]
    cells = []
    for row in rows:
        spread = "" if row["standard_deviation"] is None else f" ± {metric.shown(row['standard_deviation'])}"
        value = "diverged" if row["mean"] is None else metric.shown(row["mean"]) + spread
        cells.append(
            [row["name"], f"{row['batch_size']:,}", value, str(len(row["values"])), f"{row['steps']:,}", row["tuned"]]
        )
    yield from Table(headings, cells, frozenset({"method", "learning rate"})).markdown(padded=False)
    yield from ("", "On validation data, one seed, by learning rate:", "")
    trials = [
        [
            line["method"],
            f"{line['batch']:,}",
            ", ".join(
                f"{rate:g}: {'diverged' if value is None else format(value, '.2f')}"
                for rate, value in sorted(zip(line["learning_rates"], line["validation"]))
            ),
        ]
        for line in lines
        if line["stage"] == "trials"
    ]
    yield from Table(
        ["method", "batch", "learning rate: metric"], trials, frozenset({"method", "learning rate: metric"})
    ).markdown(padded=False)
