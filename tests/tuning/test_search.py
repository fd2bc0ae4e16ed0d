"""The search by halving, with a made-up trainer whose best learning rate is known."""

import concurrent.futures
import os
import re

import pytest

from tests.helpers.fake_trainer import BEST_RATE, TOTAL, fake_trainer
from tfbigbatch.config import load_config, override
from tfbigbatch.errors import InputError, Preempted
from tfbigbatch.run_directory.metric import Metric
from tfbigbatch.tuning.candidates import SearchSpace
from tfbigbatch.tuning.executors import Here
from tfbigbatch.tuning.halving import SHARES, STAY, Rungs
from tfbigbatch.tuning.result import fields_of, tuned_of
from tfbigbatch.tuning.search import Search, rungs_of


def search_in(folder, *, advance=fake_trainer, executor=None, budget=3.0, rate=0.1, metric=True, rungs=None, **options):
    config = load_config("digits/lstm_small_batch")
    override(config, [f"schedule.learning_rate={rate}", "duration=51200 examples"])
    space = SearchSpace(config, dataset_size=1437, batch_size=512, **options)
    assert space.total_steps == TOTAL
    said = []
    made = Search(
        space=space,
        rungs=rungs or Rungs.of_budget(budget),
        budget=budget,
        folder=str(folder),
        advance=advance,
        executor=executor or Here(),
        metric=Metric.of_task("digits_lstm") if metric else None,
        say=said.append,
    )
    made.prepare()
    made.said = said
    return made


def calls(search):
    """The parts that each candidate was trained in: [(first step, last step), ...]."""
    found = []
    for each in search.candidates:
        with open(f"{each.directory}.calls") as file:
            found.append([tuple(map(int, line.split())) for line in file])
    return found


def test_the_best_wins_and_the_budget_holds(tmp_path):
    search = search_in(tmp_path)
    winner = search.run()
    rates = [each.config.schedule.learning_rate for each in search.candidates]
    assert winner.config.schedule.learning_rate == min(rates, key=lambda rate: abs(rate / BEST_RATE - 1))
    assert 2.0 < search.spent <= 3.0
    assert sum(each.is_done for each in search.candidates) == 2
    # Each step of each candidate was trained once.
    for parts in calls(search):
        assert parts[0][0] == 0 and all(after[0] == before[1] for before, after in zip(parts, parts[1:]))


@pytest.mark.parametrize("total_steps", [1, 2, 3, 10, 48, 64, 101, 379, 12_345])
def test_rungs_lie_at_steps_and_cost_what_is_planned(total_steps):
    for budget in (1.0, 2.0, 3.0, 4.0):
        found = rungs_of(budget, SHARES, STAY, total_steps)
        assert found.cost <= budget
        assert [share * total_steps for share in found.shares] == pytest.approx(
            [round(share * total_steps) for share in found.shares]
        )
    assert [round(share, 2) for share in rungs_of(3.0, SHARES, STAY, 10).shares] == [0.1, 0.2, 0.3, 0.4]


def test_the_cost_is_said_before_and_each_rung_when_it_is_done(tmp_path):
    search = search_in(tmp_path)
    search.run()
    assert search.said[0] == "plan       7 candidates, rungs at 5%, 15%, 30%, 40%: 2.85 runs of 100 steps; at most 3"
    # 51,200 examples at 1,000 a second.
    assert search.said[1].startswith("time       a run takes about 51 s, the search about 144 s"[:34])
    rungs = [line for line in search.said if line.startswith("rung")]
    assert [re.search(r"step (\d+): (\d) of \d stay", line).groups() for line in rungs][:1] == [("5", "5")]
    assert len(rungs) == 3


def test_a_search_that_was_stopped_takes_the_same_turns(tmp_path):
    whole = search_in(tmp_path / "whole")
    whole.run()
    left = {"calls": 9}

    def stops(config, **options):
        if not left["calls"]:
            raise Preempted("stopped on request")
        left["calls"] -= 1
        return fake_trainer(config, **options)

    with pytest.raises(Preempted, match="the same search continues"):
        search_in(tmp_path / "parts", advance=stops).run()
    again = search_in(tmp_path / "parts")
    winner = again.run()
    assert winner.number == whole.ranked()[0].number
    assert [each.steps for each in again.candidates] == [each.steps for each in whole.candidates]
    assert calls(again) == calls(whole)


def test_a_candidate_that_diverges_costs_its_steps_until_then(tmp_path):
    # Of the range of 1.2 to 19.2 all but the lowest diverge in ten steps.
    search = search_in(tmp_path, rate=1.2)
    winner = search.run()
    diverged = [each for each in search.candidates if each.diverged]
    assert diverged and all(each.steps <= 10 for each in diverged)
    assert not winner.diverged
    assert "diverged" in str(tuned_of(search))


def test_where_all_diverge_lower_rates_are_tried_and_at_last_the_message_says_what_to_do(tmp_path):
    # 40 is ten times too high, and even a fourth of it diverges.
    search = search_in(tmp_path / "high", rate=10.0)
    winner = search.run()
    assert winner.number >= search.rungs.first and any("all diverged" in line for line in search.said)
    with pytest.raises(InputError, match="all of [0-9]+ candidates diverged before step .* Give a lower learning rate"):
        search_in(tmp_path / "hopeless", rate=100_000.0).run()


def test_a_best_one_at_the_end_of_its_range_widens_it(tmp_path):
    # By the rule 0.04 to 0.64 are tried from 0.04, and the best is at 0.4: beyond the lower four of them.
    search = search_in(tmp_path, rate=0.02, search=("rate",), budget=4.0)
    winner = search.run()
    assert len(search.candidates) > search.rungs.first
    assert any(line.startswith("wider") for line in search.said)
    highest = max(each.point.rate for each in search.candidates[: search.rungs.first])
    assert winner.point.rate > highest
    assert search.spent <= 4.0


def test_the_last_comparison_is_by_the_metric_or_by_the_loss(tmp_path):
    def overfits(config, *, model_dir, stop_after=None):
        """The lowest loss has the worst accuracy."""
        fake_trainer(config, model_dir=model_dir, stop_after=stop_after)
        path = os.path.join(model_dir, "status.json")
        with open(path) as file:
            content = file.read()
        with open(path, "w") as file:
            file.write(re.sub(r'"accuracy": (0\.\d+)', lambda found: f'"accuracy": {1 - float(found[1])}', content))

    by_metric = search_in(tmp_path / "metric", advance=overfits).run()
    by_loss = search_in(tmp_path / "loss", advance=overfits, metric=False).run()
    assert by_metric.number != by_loss.number
    assert by_metric.metrics["accuracy"] > by_loss.metrics["accuracy"]


def test_a_lost_worker_continues_its_candidate_and_a_mistake_ends_the_search(tmp_path):
    left = {"failures": 2}

    def lost(config, **options):
        if left["failures"] and options["model_dir"].endswith("-03"):
            left["failures"] -= 1
            raise concurrent.futures.BrokenExecutor("a worker died")
        return fake_trainer(config, **options)

    search = search_in(tmp_path / "lost", advance=lost)
    search.run()
    assert sum("continues from its pause" in line for line in search.said) == 2
    assert search.spent <= 3.0

    def mistaken(config, **options):
        raise ValueError("the data has no labels")

    with pytest.raises(InputError, match="candidate 0 cannot be trained: the data has no labels"):
        search_in(tmp_path / "mistaken", advance=mistaken).run()


def test_a_folder_of_another_search_is_refused(tmp_path):
    search_in(tmp_path).run()
    with pytest.raises(InputError, match="schedule.learning_rate"):
        search_in(tmp_path, rate=0.2)


def test_the_result_tells_what_was_tried(tmp_path):
    search = search_in(tmp_path)
    search.run()
    tuned = tuned_of(search, test={"accuracy": 0.5}, command="tfbigbatch train")
    text = str(tuned)
    assert tuned.winner is tuned.candidates[0] and tuned.recipe.batch_size == 512
    assert "7 candidates, 2." in text and "winner" in text and "the next one" in text and "accuracy 0.5000" in text
    assert len(tuned.to_dict()["candidates"]) == 7
    path = tuned.plot(str(tmp_path / "picture.png"))
    assert os.path.getsize(path) > 10_000
    given = load_config("digits/lstm_small_batch")
    override(given, ["duration=51200 examples"])
    rate = tuned.recipe.learning_rate
    assert f"--config.schedule.learning_rate={rate}" in fields_of(given, tuned.winner.config)
    assert "log_every" not in fields_of(given, tuned.winner.config)


def test_one_candidate_is_a_run(tmp_path):
    search = search_in(tmp_path, budget=1.0)
    search.run()
    assert len(search.candidates) == 1 and search.spent == 1.0
    assert "one candidate ran to its end" in tuned_of(search).sureness()
    without = tuned_of(search_in(tmp_path, budget=1.0, metric=False))
    assert "the training loss cannot see overfitting" in str(without)
