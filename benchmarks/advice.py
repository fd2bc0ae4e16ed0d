"""Sets the advice of `tfbigbatch advise` beside the best rows of the studies of MNIST-LSTM, PTB-small and Multi30k.

    python benchmarks/advice.py --mnist_dir=FOLDER --ptb_dir=data/ptb_prepared --multi30k_dir=data/multi30k_en_de \\
      --results=results/advice

Each problem's advice is measured from the recipe of its study's baseline for --seconds, and compared with the rows of
results/mnist.json, ptb.json and multi30k.json: which batch holds the baseline, which rule, learning rate and optimizer
is best at each batch. RESULTS.json keeps the advice of each problem as soon as it is measured, and a problem that is in
it is not measured again; RESULTS.md has the tables, RESULTS_PROBLEM.png the plots.
"""

import dataclasses
import os

import ml_collections
from absl import flags

from tfbigbatch import Recipe, experiment
from tfbigbatch.utils import command
from tfbigbatch.utils.files import read_json, write_json, write_text

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

flags.DEFINE_string("mnist_dir", None, "Folder with MNIST's four files.")
flags.DEFINE_string("ptb_dir", None, "Folder that prepare-ptb wrote.")
flags.DEFINE_string("multi30k_dir", None, "Folder that prepare-wmt wrote.")
flags.DEFINE_float("seconds", 150.0, "Of measuring for each problem.", lower_bound=10.0)
flags.DEFINE_string("results", "advice", "Path of the results, without an extension.")


@dataclasses.dataclass(frozen=True)
class Problem:
    """A study with a baseline and rows at larger batches.

    Attributes:
      title: of the table.
      study: name of the results' file.
      tolerance: how much worse than the baseline still holds it, in the metric.
      why: where the tolerance is from.
    """

    title: str
    study: str
    tolerance: float
    why: str


PROBLEMS = {
    "mnist": Problem("MNIST-LSTM, test accuracy", "mnist", 0.002, "0.2 points, the README's aim"),
    "ptb": Problem("PTB-small, test perplexity", "ptb", 2.32, "2%, the aim of results/README.md"),
    "multi30k": Problem("Multi30k, test BLEU", "multi30k", 0.49, "the baseline's standard deviation over three seeds"),
}


def rows_of(problem):
    """(baseline, the other rows, whether higher is better) of a study's results."""
    found = read_json(os.path.join(ROOT, "results", f"{problem.study}.json"))
    baseline = next(row for row in found["runs"] if row["name"] == "baseline")
    others = [row for row in found["runs"] if row["batch_size"] > baseline["batch_size"]]
    return baseline, others, found["higher_is_better"]


def measure(problem, baseline, data_dir, seconds, plot):
    """The advice for the recipe of a study's baseline, and what it suggests at the study's batches."""
    from tfbigbatch.advice import advise_experiment

    _, others, _ = rows_of(problem)
    config = ml_collections.ConfigDict(experiment.completed(baseline["config"]))
    advice = advise_experiment(config, data_dir=data_dir, seconds=seconds, name=problem.title)
    print(f"\n{advice}\n", flush=True)
    advice.plot(plot)
    batches = sorted({row["batch_size"] for row in others})
    at = {str(batch): dataclasses.asdict(advice.at(batch)) for batch in batches}
    expected = {str(batch): dataclasses.asdict(advice.row(batch)) for batch in batches}
    return {"advice": advice.to_dict(), "at": at, "expected": expected}


def peak(row):
    """The peak learning rate of a row."""
    schedule = row["config"]["schedule"]
    return (
        Recipe(schedule["batch_size"], schedule["learning_rate"]).at(row["batch_size"], schedule["rule"]).learning_rate
    )


def compared(problem, found):
    """For each batch of the study: the best row, the best of the tuned optimizer, and what was advised."""
    baseline, others, higher = rows_of(problem)
    sign = 1 if higher else -1
    lines = []
    for batch in sorted({row["batch_size"] for row in others}):
        there = [row for row in others if row["batch_size"] == batch]
        best = max(there, key=lambda row: sign * row["mean"])
        tuned = max(
            (row for row in there if row["config"]["optimizer"] == baseline["config"]["optimizer"]),
            key=lambda row: sign * row["mean"],
        )
        advised = found["at"][str(batch)]
        lines.append(
            {
                "batch_size": batch,
                "steps": best["steps"],
                "best": best,
                "best_of_tuned_optimizer": tuned,
                "best_rate": peak(tuned),
                "holds": sign * (best["mean"] - baseline["mean"]) >= -problem.tolerance,
                "advised": advised,
                "expected_examples": found["expected"][str(batch)]["examples"],
                "warned": bool(advised["warnings"]),
                # Another optimizer's learning rate says nothing of the tuned one's.
                "rate_within": advised["learning_rate_low"] <= peak(tuned) <= advised["learning_rate_high"]
                if advised["optimizer"] == baseline["config"]["optimizer"]["name"]
                else None,
            }
        )
    return baseline, lines


def shown(value, higher):
    return f"{100 * value:.2f}%" if higher and value <= 1 else f"{value:.2f}" if value < 1e5 else f"{value:.1e}"


def spread(found):
    return f"{three(found['value'])} ({three(found['low'])} to {three(found['high'])})"


def three(value):
    return "no upper end" if value == "inf" else f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def report(results):
    """The tables as Markdown."""
    lines = ["# The advice beside the studies", ""]
    for name, problem in PROBLEMS.items():
        if name not in results:
            continue
        found = results[name]
        advice = found["advice"]
        baseline, compared_rows = compared(problem, found)
        higher = rows_of(problem)[2]
        held = [row["batch_size"] for row in compared_rows if row["holds"]]
        steps = advice["noise_scale"][-1]["last_step"]
        sizes = ", ".join(f"{size:,}" for size in sorted(map(int, advice["step_seconds"])))
        lines += [
            f"## {problem.title}",
            "",
            f"Baseline {shown(baseline['mean'], higher)} at batch {baseline['batch_size']:,}, {baseline['steps']:,} "
            f"steps; holds: within {problem.why}. Advised from {steps:,} steps, {advice['seconds']:.0f} s; speed at "
            f"{sizes}.",
            "",
            "| | advised | the study |",
            "| --- | --- | --- |",
            f"| noise scale now | {spread(advice['noise_now'])} | |",
            f"| critical batch of the run | {spread(advice['critical_batch_size'])} | |",
            _largest(advice, held, baseline, compared_rows),
            f"| worth using on one device | {advice['batch_size']:,} | |",
            "",
            "| batch | steps | best row | result | holds | warned | best with the tuned optimizer | its learning rate "
            "| advised (range) | within | advised optimizer |",
            "| ---: | ---: | --- | ---: | --- | --- | --- | ---: | ---: | --- | --- |",
        ]
        for row in compared_rows:
            lines.append(_line(row, higher))
        lines.append("")
    return "\n".join(lines)


def _line(row, higher):
    best, tuned, advised = row["best"], row["best_of_tuned_optimizer"], row["advised"]
    low, high = advised["learning_rate_low"], advised["learning_rate_high"]
    cells = [
        f"{row['batch_size']:,}",
        f"{row['steps']:,}",
        best["name"],
        shown(best["mean"], higher),
        "yes" if row["holds"] else "no",
        "yes" if row["warned"] else "no",
        f"{tuned['name']}, {shown(tuned['mean'], higher)}",
        f"{row['best_rate']:.3g}",
        f"{advised['learning_rate']:.3g} ({low:.3g} to {high:.3g})",
        {True: "yes", False: "no", None: "of another optimizer"}[row["rate_within"]],
        advised["optimizer"],
    ]
    return f"| {' | '.join(cells)} |"


def _largest(advice, held, baseline, compared_rows):
    tried = ", ".join(f"{row['batch_size']:,}" for row in compared_rows)
    largest = f"{max(held):,}" if held else f"none but {baseline['batch_size']:,}"
    return f"| largest batch that pays | {advice['largest_batch_size']:,} | holds the baseline: {largest}, of {tried} |"


def _main(unused):
    from tfbigbatch.runs.run_directory import versions

    options = flags.FLAGS
    path = f"{options.results}.json"
    results = read_json(path) if os.path.exists(path) else {}
    for name, problem in PROBLEMS.items():
        data_dir = options[f"{name}_dir"].value
        if name in results or data_dir is None:
            continue
        baseline, _, _ = rows_of(problem)
        results[name] = measure(problem, baseline, data_dir, options.seconds, f"{options.results}_{name}.png")
        results["versions"] = versions()
        write_json(path, results)
    write_text(f"{options.results}.md", report(results))
    print(f"results  {options.results}.json and .md")


if __name__ == "__main__":
    command.execute(_main)
