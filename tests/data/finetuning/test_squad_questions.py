import json
import os

import pytest

from tests.helpers import made_squad
from tfbigbatch.data.finetuning import squad_questions

# A folder of data sets, each in a folder of its name; tests that need one skip where it is absent.
REAL = os.path.join(os.environ.get("TFBIGBATCH_DATA", "data"), "squad", "dev-v1.1.json")


def test_both_versions_are_read(tmp_path):
    one = squad_questions.read(made_squad.write(tmp_path / "one.json"))
    assert [question.id for question in one] == ["a", "b", "c"]
    assert one[0].answers == (("Broncos of Denver", 4), ("Broncos", 4))
    assert one[2].context == made_squad.OTHER and not one[2].impossible
    two = squad_questions.read(made_squad.write(tmp_path / "two.json", version_2=True))
    assert two[2].answers == () and two[2].impossible
    assert squad_questions.answer_texts(two) == {"a": ["Broncos of Denver", "Broncos"], "b": ["24-10"], "c": []}


def test_some_of_the_articles_may_be_read(tmp_path):
    path = made_squad.write(tmp_path / "squad.json")
    content = json.loads((tmp_path / "squad.json").read_text())
    again = json.loads(json.dumps(content["data"][0]).replace('"id": "', '"id": "2'))
    (tmp_path / "squad.json").write_text(json.dumps({"data": [*content["data"], again]}))
    assert [question.id for question in squad_questions.read(path, 1)] == ["2a", "2b", "2c"]
    assert [question.id for question in squad_questions.read(path, 0, 1)] == ["a", "b", "c"]
    with pytest.raises(ValueError, match="holds no question in its articles 2 to the last"):
        squad_questions.read(path, 2)


def questions(*entries):
    return {"data": [{"paragraphs": [{"context": "x", "qas": list(entries)}]}]}


@pytest.mark.parametrize(
    "content, said",
    [
        ("{", "is not JSON"),
        ([], "not of SQuAD's form"),
        ({"data": [{}]}, "not of SQuAD's form .KeyError.'paragraphs'"),
        (questions(), "holds no question"),
        (questions({"id": "a"}), "KeyError.'question'.*expected 'id'"),
        (questions({"id": "a", "question": "", "answers": [{"text": "x"}]}), "KeyError.'answer_start'"),
        (questions(*[{"id": "a", "question": ""}] * 2), "'a' is there twice"),
    ],
)
def test_a_bad_file_is_named(tmp_path, content, said):
    path = tmp_path / "bad.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(ValueError, match=said) as caught:
        squad_questions.read(str(path))
    assert str(path) in str(caught.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ValueError, match="nothing.json cannot be read: No such file"):
        squad_questions.read(str(tmp_path / "nothing.json"))


def test_the_development_set():
    if not os.path.exists(REAL):
        pytest.skip("SQuAD is not at hand")
    found = squad_questions.read(REAL)
    assert len(found) == 10570 and len({question.context for question in found}) == 2067
    assert sum(len(question.answers) for question in found) == 34726
