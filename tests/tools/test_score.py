import json
import os

import pytest

from tests.data import made_squad
from tests.tools.test_tools import tool

# A folder of data sets, each in a folder of its name; tests that need one skip where it is absent.
REAL = os.path.join(os.environ.get("TFBIGBATCH_DATA", "data"), "squad")


def predictions(folder, content):
    path = folder / "predictions.json"
    path.write_text(json.dumps(content))
    return f"--predictions={path}"


def test_squad_is_scored_and_the_unanswered_are_named(tmp_path):
    data = f"--data={made_squad.write(tmp_path / 'one.json')}"
    given = predictions(tmp_path, {"a": "the broncos", "b": "24"})
    outcome = tool("tools/score.py", "squad", data, given, f"--results={tmp_path}/scores.json")
    assert outcome.returncode == 0, outcome.stderr
    assert "no prediction for 1 questions, which count 0, such as c" in outcome.stdout
    assert "exact_match                      33.333" in outcome.stdout
    assert json.loads((tmp_path / "scores.json").read_text())["unanswered"] == 1


def test_the_rules_of_v2_follow_from_the_data(tmp_path):
    data = f"--data={made_squad.write(tmp_path / 'two.json', version_2=True)}"
    given = predictions(tmp_path, {"a": "Broncos", "b": "24-10", "c": ""})
    outcome = tool("tools/score.py", "squad", data, given)
    assert outcome.returncode == 0, outcome.stderr
    assert "no_answer_exact_match            100.000" in outcome.stdout


@pytest.mark.parametrize(
    "arguments, said",
    [
        ([], "expected one data set"),
        (["squat"], "'squat' is not a data set with scores here. Did you mean 'squad'"),
        (["squad"], "x.json cannot be read"),
    ],
)
def test_a_bad_argument_is_one_message(arguments, said):
    outcome = tool("tools/score.py", *arguments, "--data=x.json", "--predictions=y.json")
    assert outcome.returncode == 1 and "error: " in outcome.stderr and "Traceback" not in outcome.stderr
    assert said in outcome.stderr


def test_the_published_score_of_a_real_system():
    if not os.path.exists(os.path.join(REAL, "dev-v1.1.json")):
        pytest.skip("SQuAD is not at hand")
    given = f"--predictions={REAL}/predictions/bert_ensemble.json"
    outcome = tool("tools/score.py", "squad", f"--data={REAL}/dev-v1.1.json", given)
    assert "exact_match                      86.206\nf1                               92.196\n" in outcome.stdout
