"""GLUE's, SQuAD's and RACE's files, damaged by a seeded fuzzer; and predictions for them."""

import json
import os

import pytest

from tests.helpers import mutations
from tests.helpers.datasets import made_squad, made_vocabulary
from tests.helpers.fuzz_judge import few_and_many, judge
from tfbigbatch.data.finetuning import glue, race, squad, text_pairs
from tfbigbatch.tasks.scores import squad as squad_scores
from tfbigbatch.utils import files

PASSAGE = {
    "article": "a b c",
    "questions": ["d _ .", "e?"],
    "options": [["f", "g", "h", "i"], ["j", "k", "l", "m"]],
    "answers": ["D", "A"],
    "id": "high1.txt",
}


@pytest.fixture
def tokenizer(tmp_path):
    return made_vocabulary.tokenizer(tmp_path / "vocab.txt")


def table_of(name, split):
    """A file of a task of GLUE with 200 rows, as bytes."""
    task = glue.TASKS[name]
    test = split.startswith("test")
    columns = task.columns or ("index", *task.texts, *([] if test else [task.label]))
    if test and task.columns:
        columns = ("index", *task.texts)
    label = task.classes[-1] if task.classes else "2.5"
    row = "\t".join(label if column == task.label else f"some {column}" for column in columns)
    header = [] if task.columns and not test else ["\t".join(columns)]
    return "\n".join([*header, *[row] * 200]).encode() + b"\n"


@few_and_many(80, 4000)
def test_no_row_of_glue_is_lost_without_a_word(tmp_path, seeds):
    def case(choices):
        name = choices.choice(list(glue.TASKS))
        split = choices.choice(glue.splits(name))
        content = mutations.of_bytes(choices, table_of(name, split))
        path = tmp_path / name / f"{split}.tsv"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        rows = glue.read(str(tmp_path), name, split)
        lines = [line for line in content.removeprefix(b"\xef\xbb\xbf").split(b"\n") if line.rstrip(b"\r")]
        has_header = split.startswith("test") or not glue.TASKS[name].columns
        assert len(rows.texts) + len(rows.bad) == len(lines) - has_header
        assert rows.labels is None or len(rows.labels) == len(rows.texts)

    outcomes = judge(seeds, case)
    assert min(outcomes["fine"], outcomes["refused"]) > 0


@few_and_many(60, 2000)
def test_predictions_of_glue(tmp_path, seeds):
    path = tmp_path / "predictions.tsv"

    def case(choices):
        name = choices.choice(("MNLI", "STS-B", "CoLA"))
        prediction = (glue.TASKS[name].classes or ("3.5",))[0]
        lines = ["index\tprediction", *(f"{index}\t{prediction}" for index in range(20))]
        path.write_bytes(mutations.of_bytes(choices, "\n".join(lines).encode()))
        assert glue.read_predictions(str(path), name)

    judge(seeds, case)


@few_and_many(150, 9000)
def test_questions_of_squad(tmp_path, tokenizer, seeds):
    content = json.loads(open(made_squad.write(tmp_path / "squad.json", version_2=True), encoding="utf-8").read())
    path = tmp_path / "fuzzed.json"

    def case(choices):
        path.write_bytes(mutations.of_json(choices, content))
        questions = squad.read(str(path))
        windows = squad.windows(questions, tokenizer, max_seq_length=40, doc_stride=8, max_query_length=12)
        assert set(windows.question.tolist()) <= set(range(len(questions)))

    outcomes = judge(seeds, case)
    assert min(outcomes["fine"], outcomes["refused"]) > 0


@few_and_many(80, 2000)
def test_predictions_of_squad(tmp_path, seeds):
    answers = {"a": ["Broncos of Denver", "Broncos"], "b": ["24-10"], "c": []}
    path = tmp_path / "predictions.json"

    def read(choices, content):
        path.write_bytes(mutations.of_json(choices, content))
        return files.read_json_dictionary(str(path))

    def case(choices):
        predictions, odds = {"a": "the Broncos", "b": "24", "c": ""}, {"a": 0.1, "b": 0.5, "c": 0.9}
        if choices.random() < 0.5:
            predictions = read(choices, predictions)
        else:
            odds = read(choices, odds)
        scores = squad_scores.scores(answers, predictions, no_answer=True, odds=odds, threshold=0.5)
        assert 0.0 <= scores["f1"] <= 100.0 and scores["total"] == 3

    judge(seeds, case)


@few_and_many(120, 4000)
def test_passages_of_race(tmp_path, tokenizer, seeds):
    for level in race.LEVELS:
        os.makedirs(tmp_path / "dev" / level)

    def case(choices):
        (tmp_path / "dev" / "high" / "1.txt").write_bytes(mutations.of_json(choices, PASSAGE))
        questions = race.read(str(tmp_path), "dev")
        firsts = [tokenizer.ids(question.article) for question in questions]
        seconds = [tokenizer.ids(f"{question.text} {question.options[0]}") for question in questions]
        text_pairs.pack(tokenizer.vocabulary, firsts, seconds, 16)

    judge(seeds, case)
