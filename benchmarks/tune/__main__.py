"""`tune` beside what one would do without it, on the tasks of docs/results at their large batch.

    python benchmarks/tune --data_dir=data --runs=runs/tune --results=results/tune/runs.jsonl

Each task begins with the recipe that is tuned at its small batch. A method may cost a number of runs at the large
batch; it chooses on held-out training data or a validation set, and what it chose is measured on the test data.
`--tasks` and `--methods` select; a row that the results have is not run again, and a search that was stopped
continues. One process, which `taskset` may hold on a core: several run side by side, each with its own --results.
`--curves` stores the curves of each search that stopped no candidate early; `benchmarks/halving.py` replays them.

`random` trains as many candidates of the same ranges as the budget has runs. `hyperband` is KerasTuner's oracle, and
`optuna` Optuna's TPE sampler with its halving pruner, both over the same ranges, on the same candidates that pause and
continue, until the budget is spent: `pip install keras-tuner optuna`. `advice` trains what `advise` suggests. `all 16`
trains the first 16 candidates of `tune` to their end, `8 rates` and, at the small batch, `small batch` eight rates.
"""

from __future__ import annotations

import argparse
import copy
import dataclasses
import json
import math
import os
import random
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from tfbigbatch import train
from tfbigbatch.config import load_config, set_fields
from tfbigbatch.run_directory.metric import Metric
from tfbigbatch.tuning.candidates import SEARCHED, TUNED, Point, SearchSpace
from tfbigbatch.tuning.executors import Here
from tfbigbatch.tuning.halving import Rungs
from tfbigbatch.tuning.search import Candidate, Search
from tfbigbatch.tuning.tune import tune_experiment

MINIVAL = {"evaluate_on": "minival"}


@dataclasses.dataclass(frozen=True)
class Task:
    """One application, with the recipe of its small batch.

    Attributes:
      folder: of its data in the folder of all data; None where it needs none.
      config: makes the experiment at the small batch, with the optimizer of the task's best row.
      batch_size: the large batch.
      trial: what the choice is made on.
      optimizers: of that row: 'tuned', or another than the tuned recipe's.
      accumulation_steps: at the large batch.
      test: the split that is measured in the end.
    """

    folder: str | None
    config: Callable[[], Any]
    batch_size: int
    trial: Mapping[str, Any]
    optimizers: tuple[str, ...] = (TUNED,)
    accumulation_steps: int = 1
    test: str = "test"


def _few_steps(name: str, method: str, learning_rate: float) -> Callable[[], Any]:
    """An experiment of the benchmark of few steps at its small batch."""

    def make() -> Any:
        from tfbigbatch.config.files import executed, find

        module = executed(find("few_steps/sweep")[0])
        task = module.VARIANTS[name]
        config = module.config_of(task, task.small, module.METHODS[method][1])
        config.schedule.learning_rate = learning_rate
        return config

    return make


def _lenet() -> Any:
    config = load_config("mnist/lenet_small_batch")
    fields = {"batch_size": 64, "schedule.batch_size": 64, "schedule.learning_rate": 0.04, "duration": "10 epochs"}
    return set_fields(config, {**fields, "evaluate_every": "2 epochs", "checkpoint_every": "2 epochs"})


def _unseen(name: str) -> Any:
    """An experiment of unseen.py."""
    sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    import unseen

    return getattr(unseen, name)()


# The learning rates of the small batch are the best of trials there: results/few_steps, docs/results/ptb.md.
TASKS = {
    "digits": Task(
        None, lambda: load_config("digits/lstm_small_batch"), 512, {**MINIVAL, "data.minival": 144}, ("lamb",)
    ),
    "mnist_lenet": Task("mnist", _lenet, 4096, {**MINIVAL, "data.minival": 5000}, ("lamb",)),
    "mnist_lstm": Task("mnist", _few_steps("mnist_lstm", "LARS", 3.0), 8192, {**MINIVAL, "data.minival": 5000}),
    "alexnet_bn": Task(
        "tiny_imagenet_prepared",
        _few_steps("alexnet_bn", "Muon", 0.002),
        2048,
        {**MINIVAL, "data.minival": 2500},
        test="validation",
    ),
    "bert": Task(
        "wikitext_1k_32",
        _few_steps("bert", "Muon", 0.00265),
        2048,
        {**MINIVAL, "data.minival": 2048},
        accumulation_steps=8,
        test="validation",
    ),
    "ptb": Task("ptb_prepared", _few_steps("ptb", "LAMB", 0.0071), 640, {"evaluate_on": "valid"}),
    "resnet": Task(
        "tiny_imagenet_prepared",
        _few_steps("resnet", "Muon", 0.018),
        2048,
        {**MINIVAL, "data.minival": 2500},
        test="validation",
    ),
    "multi30k": Task(
        "multi30k_en_de",
        _few_steps("multi30k", "Muon", 0.0075),
        1024,
        {"evaluate_on": "validation"},
        accumulation_steps=8,
    ),
    "sst2": Task("glue/SST-2", lambda: _unseen("sst2"), 512, {"evaluate_on": "validation"}),
    "characters": Task("wikitext-2", lambda: _unseen("characters"), 512, {"evaluate_on": "validation"}),
}
OVER_OPTIMIZERS = (TUNED, "muon", "lamb", "adamw")


@dataclasses.dataclass(frozen=True)
class Given:
    """What a method is given: an experiment to carry, a budget in runs, a folder, and the seed."""

    config: Any
    task: Task
    budget: float
    folder: str
    data_dir: str | None
    seed: int

    def search(self) -> Search:
        """A search without candidates: what the rivals train theirs with."""
        kind = _tasks_of(self.config)
        size = kind.count_examples(self.config.data.to_dict(), self.data_dir)
        space = SearchSpace(
            self.config, dataset_size=size, batch_size=self.task.batch_size, optimizers=self.task.optimizers
        )
        metric = Metric.of_task(self.config.task, self.config.evaluate_on)

        def advance(**options: Any) -> Any:
            return train.run(**options, data_dir=self.data_dir, in_memory=True)

        return Search(space, Rungs(1, (), ()), self.budget, self.folder, advance, Here(), metric)


def _tasks_of(config: Any) -> Any:
    from tfbigbatch import tasks

    return tasks.get(config.task)


def tuned(given: Given, *, optimizers: tuple[str, ...] | None = None, search: tuple[str, ...] = SEARCHED) -> Any:
    """`tune`: (candidates, the best first; cost)."""
    found = tune_experiment(
        given.config,
        batch_size=given.task.batch_size,
        folder=given.folder,
        data_dir=given.data_dir,
        budget=given.budget,
        optimizers=optimizers or given.task.optimizers,
        search=search,
        executor="here",
    )
    return found.candidates, found.cost


def at_random(given: Given) -> Any:
    """As many candidates of the same ranges as the budget has runs, all to their end."""
    search, draw = given.search(), random.Random(given.seed)
    return _to_the_end(
        search, [_point(search.space, [draw.random() for _ in SEARCHED]) for _ in range(int(given.budget))]
    )


def all_of_them(given: Given) -> Any:
    """The first candidates of `tune`, all to their end."""
    search = given.search()
    return _to_the_end(search, search.space.points(int(given.budget)))


def eight_rates(given: Given) -> Any:
    """Eight learning rates a factor of two apart around the carried recipe, all to their end."""
    search = given.search()
    carried = search.space.carried(search.space.optimizers[0])
    return _to_the_end(search, [dataclasses.replace(carried, rate=2.0**power) for power in range(-4, 4)])


def at_small_batch(given: Given) -> Any:
    """Eight learning rates at the batch size of the recipe."""
    small = dataclasses.replace(given.task, batch_size=given.config.batch_size)
    return eight_rates(dataclasses.replace(given, task=small))


def by_hyperband(given: Given) -> Any:
    """KerasTuner's Hyperband, whose trials continue as a run resumes, until the budget is spent."""
    import keras_tuner

    search = given.search()
    objective = keras_tuner.Objective("loss", "min")
    oracle = keras_tuner.oracles.HyperbandOracle(objective=objective, max_epochs=27, factor=3, seed=given.seed)
    hyper = keras_tuner.HyperParameters()
    for name in SEARCHED:
        hyper.Float(name, 0.0, 1.0)
    oracle.update_space(hyper)
    oracle._set_project_dir(given.folder, "hyperband")
    candidates: dict[str, Candidate] = {}
    while search.spent < given.budget:
        trial = oracle.create_trial("tuner")
        if trial.status != "RUNNING":
            break
        values = trial.hyperparameters.values
        before = values.get("tuner/trial_id")
        point = _point(search.space, [values[name] for name in SEARCHED])
        candidate = candidates[before] if before in candidates else search.add(point)
        candidates[trial.trial_id] = candidate
        step = max(1, round(values.get("tuner/epochs", 27) / 27 * search.total_steps))
        search.train([candidate], step, "")
        oracle.update_trial(trial.trial_id, {"loss": _mean_loss(search, candidate, step)})
        trial.status = "COMPLETED"
        oracle.end_trial(trial)
    return _finished(search), search.spent


def by_optuna(given: Given) -> Any:
    """Optuna's TPE sampler with its halving pruner, until the budget is spent."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    search = given.search()
    study = optuna.create_study(
        sampler=optuna.samplers.TPESampler(seed=given.seed, n_startup_trials=4, multivariate=True),
        pruner=optuna.pruners.SuccessiveHalvingPruner(min_resource=5, reduction_factor=2),
    )

    def objective(trial: optuna.Trial) -> float:
        point = _point(search.space, [trial.suggest_float(name, 0.0, 1.0) for name in SEARCHED])
        candidate, loss = search.add(point), math.inf
        for percent in (5, 15, 30, 100):
            step = max(1, round(percent / 100 * search.total_steps))
            search.train([candidate], step, "")
            loss = min(1e9, _mean_loss(search, candidate, step))
            trial.report(loss, percent)
            if trial.should_prune():
                raise optuna.TrialPruned()
        return loss

    while search.spent < given.budget:
        study.optimize(objective, n_trials=1)
    return _finished(search), search.spent


def by_advice(given: Given) -> Any:
    """What `advise` suggests, in one run."""
    from tfbigbatch.tuning.experiment import advise_experiment

    search = given.search()
    suggested = advise_experiment(given.config, data_dir=given.data_dir, seconds=60.0).at(given.task.batch_size)
    own = suggested.optimizer in ("momentum", search.space.optimizers[0])
    name = search.space.optimizers[0] if own else suggested.optimizer
    epochs = search.space.tuned.epochs
    carried = search.space.carried(name)
    middle = search.space.recipe_of(dataclasses.replace(carried, rate=1.0)).learning_rate
    rate, warmup = suggested.learning_rate / middle, suggested.warmup_epochs / epochs
    candidate = search.add(dataclasses.replace(carried, rate=rate, warmup=warmup))
    search.train([candidate], search.total_steps, "")
    return search.ranked(), search.spent


def _to_the_end(search: Search, points: Iterable[Point]) -> Any:
    search.train([search.add(point) for point in points], search.total_steps, "")
    return search.ranked(), search.spent


def _point(space: SearchSpace, values: Iterable[float]) -> Point:
    """A candidate of the ranges that `tune` has, from numbers in [0, 1]."""
    return space.within(space.optimizers[0], dict(zip(SEARCHED, values)))


def _mean_loss(search: Search, candidate: Candidate, step: int) -> float:
    rows = search.losses(candidate, step)
    return sum(rows) / len(rows)


def _finished(search: Search) -> Sequence[Candidate]:
    """The candidates, best first; where none ran to its end, the best of those that came furthest runs to it now."""
    if not any(each.is_done for each in search.candidates):
        furthest = max(each.steps for each in search.candidates)
        there = [each for each in search.candidates if each.steps == furthest]
        search.train([min(there, key=lambda each: _mean_loss(search, each, furthest))], search.total_steps, "")
    return search.ranked()


METHODS: dict[str, tuple[float, Callable[[Given], Any]]] = {
    "tune 3": (3.0, tuned),
    "tune 2": (2.0, tuned),
    "tune 4": (4.0, tuned),
    "tune 4, optimizers": (4.0, lambda given: tuned(given, optimizers=OVER_OPTIMIZERS)),
    "tune 3, rate alone": (3.0, lambda given: tuned(given, search=("rate",))),
    "random 3": (3.0, at_random),
    "hyperband 3": (3.0, by_hyperband),
    "optuna 3": (3.0, by_optuna),
    "advice": (1.0, by_advice),
    "8 rates": (8.0, eight_rates),
    "all 16": (16.0, all_of_them),
    "small batch": (8.0, at_small_batch),
}


def row_of(name: str, method: str, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """Runs a method on a task, and measures what it chose on the test data."""
    task, (budget, choose) = TASKS[name], METHODS[method]
    config = set_fields(copy.deepcopy(task.config()), task.trial)
    config.seed = seed
    config.accumulation_steps = task.accumulation_steps
    if options.fields:
        from tfbigbatch.config import override

        override(config, options.fields)
    folder = os.path.join(options.runs, f"{name}-{method.replace(', ', '-').replace(' ', '-')}-{seed}")
    data_dir = os.path.join(options.data_dir, task.folder) if task.folder else None
    began = time.perf_counter()
    candidates, cost = choose(Given(config, task, budget, folder, data_dir, seed))
    winner = candidates[0]
    there = copy.deepcopy(winner.config)
    there.evaluate_on = task.test
    metrics = train.run(there, model_dir=winner.directory, data_dir=data_dir, mode="eval")["metrics"]
    metric = Metric.of_task(config.task, task.test)
    found = {
        "task": name,
        "method": method,
        "seed": seed,
        "cost": round(cost, 3),
        "test": metrics[metric.name],
        "held_out": winner.metrics[metric.name],
        "point": dataclasses.asdict(winner.point),
        "learning_rate": winner.config.schedule.learning_rate,
        "seconds": round(time.perf_counter() - began, 1),
    }
    if options.curves and all(each.is_done or each.diverged for each in candidates):
        with open(options.curves, "a") as file:
            file.write(json.dumps(curves_of(found, candidates, metric)) + "\n")
    shutil.rmtree(folder, ignore_errors=True)
    return found


def curves_of(row: Mapping[str, Any], candidates: Iterable[Candidate], metric: Metric) -> dict[str, Any]:
    """The curves of a search that stopped no candidate early, candidates in order of creation."""
    return {
        **{name: row[name] for name in ("task", "method", "seed")},
        "higher_is_better": metric.higher_is_better,
        "candidates": [
            {
                "point": dataclasses.asdict(each.point),
                "held_out": each.metrics.get(metric.name),
                "steps": [step for step, _ in each.curve],
                "losses": [float(f"{loss:.5g}") if math.isfinite(loss) else None for _, loss in each.curve],
            }
            for each in sorted(candidates, key=lambda each: each.number)
        ],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data_dir", default="data")
    parser.add_argument("--runs", default="runs/tune")
    parser.add_argument("--results", default="results/tune/runs.jsonl")
    parser.add_argument("--curves", help="file of the curves of searches that ran to their end")
    parser.add_argument("--tasks", default=",".join(TASKS))
    parser.add_argument("--methods", default=";".join(METHODS), help="separated by semicolons")
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--fields", action="append", default=[], help="FIELD=VALUE of all configs")
    options = parser.parse_args()
    rows = []
    if os.path.exists(options.results):
        with open(options.results) as file:
            rows = [json.loads(line) for line in file]
    done = {(row["task"], row["method"], row["seed"]) for row in rows}
    os.makedirs(os.path.dirname(options.results) or ".", exist_ok=True)
    for seed in map(int, options.seeds.split(",")):
        for method in options.methods.split(";"):
            for name in options.tasks.split(","):
                if (name, method, seed) in done:
                    continue
                row = row_of(name, method, seed, options)
                with open(options.results, "a") as file:
                    file.write(json.dumps(row) + "\n")
                print(f"RESULT     {json.dumps(row)}", flush=True)


if __name__ == "__main__":
    main()
