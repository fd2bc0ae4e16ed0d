import json

import pytest

from tests.data.finetuning import test_glue, test_race
from tests.helpers.datasets import made_squad
from tests.helpers.preloaded import tfbigbatch


def predictions(folder, content):
    path = folder / "predictions.json"
    path.write_text(json.dumps(content))
    return f"--predictions={path}"


def test_squad_is_scored_and_the_unanswered_are_named(tmp_path):
    data = f"--data={made_squad.write(tmp_path / 'one.json')}"
    given = predictions(tmp_path, {"a": "the broncos", "b": "24"})
    outcome = tfbigbatch("score", "squad", data, given, f"--results={tmp_path}/scores.json")
    assert outcome.returncode == 0, outcome.stderr
    assert "no prediction for 1 questions, which count 0, such as c" in outcome.stdout
    assert "exact_match                      33.333" in outcome.stdout
    assert json.loads((tmp_path / "scores.json").read_text())["unanswered"] == 1


def test_the_rules_of_v2_follow_from_the_data(tmp_path):
    data = f"--data={made_squad.write(tmp_path / 'two.json', version_2=True)}"
    given = predictions(tmp_path, {"a": "Broncos", "b": "24-10", "c": ""})
    outcome = tfbigbatch("score", "squad", data, given)
    assert outcome.returncode == 0, outcome.stderr
    assert "no_answer_exact_match            100.000" in outcome.stdout and "best_f1" not in outcome.stdout
    (tmp_path / "odds.json").write_text(json.dumps({"a": 2.5, "b": -1.0, "c": 3.0}))
    odds = f"--no_answer_odds={tmp_path}/odds.json"
    outcome = tfbigbatch("score", "squad", data, given, odds)
    assert "f1                               100.000\n" in outcome.stdout
    assert "best_f1_threshold                2.500" in outcome.stdout


def test_glue_is_scored_from_a_file_as_it_is_handed_in(tmp_path):
    rows = ["0\ta\tb\tentailment", "1\ta\tb\tnot_entailment", "2\ta\tb\tentailment"]
    data = test_glue.write(tmp_path, "RTE", "dev", test_glue.MADE["RTE", "dev"][0], *rows)
    path = tmp_path / "RTE.tsv"
    path.write_text("index\tprediction\n2\tentailment\n0\tentailment\n1\tentailment\n")
    arguments = ["score", "glue", f"--data={data}", f"--predictions={path}"]
    outcome = tfbigbatch(*arguments, "--task=RTE")
    assert outcome.returncode == 0 and "accuracy                         66.667" in outcome.stdout, outcome.stderr
    none = tfbigbatch(*arguments)
    assert none.returncode == 1 and "--task is missing" in none.stderr


def test_race_is_scored_by_level(tmp_path):
    data = test_race.write_tar(tmp_path / "race.tar.gz", test_race.FILES)
    arguments = ["score", "race", f"--data={data}"]
    outcome = tfbigbatch(*arguments, predictions(tmp_path, {"middle/2-0": "B", "high/1-0": "D"}))
    assert outcome.returncode == 0, outcome.stderr
    assert "no prediction for 1 questions, which count 0, such as high/1-1" in outcome.stdout
    assert "middle                           100.000\nhigh                             50.000" in outcome.stdout


@pytest.mark.parametrize(
    "arguments, said",
    [
        ([], "expected one data set"),
        (["squat"], "'squat' is not a data set with scores here. Did you mean 'squad'"),
        (["squad"], "x.json cannot be read"),
    ],
)
def test_a_bad_argument_is_one_message(arguments, said):
    outcome = tfbigbatch("score", *arguments, "--data=x.json", "--predictions=y.json")
    assert outcome.returncode == 1 and "error: " in outcome.stderr and "Traceback" not in outcome.stderr
    assert said in outcome.stderr
