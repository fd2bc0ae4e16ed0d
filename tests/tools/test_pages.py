"""The tables and pictures of the pages are as the files of results/, and the command makes them."""

import dataclasses
import gzip
import json
import os

import pytest

from tests.helpers.preloaded import ROOT
from tools.pages import __main__ as command
from tools.pages import architecture, headline, pictures, stored_rows, tables, tasks


def test_the_pages_and_pictures_show_what_the_results_are():
    assert command.outdated() == [], "python -m tools.pages writes them"


def test_every_task_has_a_page_with_a_table():
    with_tables = {path.name for path in tables.pages()}
    assert {task.page for task in headline.TASKS} <= with_tables and "README.md" in with_tables


def test_the_others_are_compared_at_the_batch_of_ours():
    table = headline.table("")
    assert [row[1] for row in table.rows] == [f"{small:,} → {large:,}" for small, large in _batches()]
    muon = stored_rows.find("results/few_steps/jax_bert.json", "Muon", 2048)
    shown = f"{muon.value.replace('% ±', ' ±')} (Muon, {muon.ended} seeds)"
    assert table.rows[0][-2] == shown and muon.ended == 8


def test_the_first_lines_of_the_readme_are_what_the_table_says():
    """The gain over the others at the large batch, and the loss against the small batch."""
    gains = []
    for task in headline.TASKS:
        _, (others, _), (ours, _) = task.columns()
        gains.append(others.metric.order(others.mean) - ours.metric.order(ours.mean))
    assert all(gain >= 0 for gain in gains) and len(gains) == 8
    # Accuracies are fractions; perplexity is on the third row, BLEU on the last.
    assert [round(100 * gain) for gain in gains[:2]] == [9, 6] and max(gains[3:7]) < 0.02
    assert round(gains[2]) == 6 and round(gains[7]) == 1
    lost = [task.lost() for task in headline.TASKS]
    assert [f"{each:.1f}" for each in lost] == ["2.7", "2.5", "3.3", "0.1", "3.1", "0.1", "0.2", "1.4"]
    factors = {large // small for small, large in _batches()}
    assert min(factors) == 16 and max(factors) == 64


def test_a_row_of_ours_is_of_the_most_seeds_and_one_of_the_others_the_best():
    bert = headline.TASKS[0]
    of_most_seeds = headline.with_most_seeds(bert.ours, 2048)
    assert [path for path, name, _ in of_most_seeds if name == "Muon"] == ["results/few_steps/jax_bert.json"]
    _, (others, _), _ = bert.columns()
    assert others.mean == max(stored_rows.find(path, name, 2048).mean for path, name, _ in bert.others)


def test_a_loss_has_a_sign():
    lost = [row[-1] for row in headline.table("").rows]
    assert lost[0] == "−2.70 points" and lost[2].startswith("−3.3") and lost[7] == "−1.43 BLEU"
    digits = headline.TASKS[3]
    batches = digits.batches[::-1]
    turned = dataclasses.replace(digits, small=digits.ours, others=digits.small, ours=digits.small, batches=batches)
    assert turned.lost() == pytest.approx(-digits.lost())


def _batches():
    return [task.batches for task in headline.TASKS]


def test_the_pictures_are_drawn_on_backgrounds_of_their_own(tmp_path):
    pictures.write(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {*pictures.made(), "sources.json"}
    assert json.loads((tmp_path / "sources.json").read_text()) == pictures.digests()
    for path in tmp_path.glob("*.svg"):
        text = path.read_text()
        assert "fill: #ffffff" in text and "stroke: #cccccc" in text and len(text) > 10_000


def test_every_picture_is_on_a_page():
    pages = [os.path.join(folder, name) for folder, _, names in os.walk(os.path.join(ROOT, "docs")) for name in names]
    text = ""
    for path in (each for each in pages if each.endswith(".md")):
        with open(path, encoding="utf-8") as page:
            text += page.read()
    for name in pictures.made():
        assert f"pictures/{name})" in text, name


@pytest.mark.parametrize(
    "asked, message",
    [
        ("results/digits.json rows=lstm_adamw|lstm_adam", "lacks the rows.*lstm_adam"),
        ("results/digits.json batches=513", "no row .* has a batch size of 513"),
        ("results/digits.json row=lstm_adamw", "options.*row"),
    ],
)
def test_a_table_that_cannot_be_written_is_an_error(asked, message):
    with pytest.raises(ValueError, match=message):
        tables.written(f"<!-- table: {asked} -->\n<!-- end of table -->")


def test_rows_come_by_batch_and_under_other_names():
    asked = 'results/mnist.json batches=8192,1024 rows=LEGW|naive names="LEGW=by LEGW"'
    text = tables.written(f"<!-- table: {asked} -->\nold\n<!-- end of table -->")
    assert [line.split(" | ")[:2] for line in text.splitlines()[3:-1]] == [
        ["| by LEGW", "8,192"],
        ["| learning rate kept", "8,192"],
        ["| by LEGW", "1,024"],
        ["| learning rate kept", "1,024"],
    ]
    assert tables.written(text) == text


def test_steps_to_a_target_are_of_the_seeds_own_curves():
    path, runs = "results/tiny_imagenet_resnet.json", "results/runs.jsonl.gz"
    row = stored_rows.find(path, "LARS", 2048)
    with gzip.open(os.path.join(ROOT, runs), "rt", encoding="utf-8") as file:
        curves = [run for run in map(json.loads, file) if run["evaluations"][-1].get("accuracy") is not None]
    ended = {run["evaluations"][-1]["accuracy"]: run["evaluations"] for run in curves}
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        values = next(
            each["values"] for each in json.load(file)["runs"] if each["name"] == "LARS" and each["steps"] == 732
        )
    firsts = [next(each["step"] for each in ended[value] if each["accuracy"] >= 0.4) for value in values]
    assert stored_rows.steps_to(row, 0.4, runs) == pytest.approx(sum(firsts) / len(firsts))
    assert stored_rows.steps_to(row, 0.99, runs) is None


def test_each_panel_has_the_small_batch_and_some_methods():
    for task in tasks.TASKS:
        methods = {method for method, _, _ in task.points()}
        assert task.baseline.mean is not None and len(methods) >= 4 and methods <= set(pictures.STYLES), task.title


@pytest.mark.parametrize("text", ["row A\n  a | b\n", "row A\n  a | b | c\na -> z\n", "  a | b | c\n"])
def test_a_diagram_that_cannot_be_drawn_is_an_error(text):
    with pytest.raises(ValueError, match="expected|arrows name"):
        architecture.parse(text)


def test_methods_of_several_optimizers_stand_side_by_side(monkeypatch):
    kept = stored_rows.rows("results/digits.json")[0]

    def row(name, **changes):
        return dataclasses.replace(kept, name=name, batch_size=64, steps=100, deviation=None, **changes)

    made = (row("LAMB, alone", mean=0.5), row("LARS, together", mean=0.25), row("LARS, far", mean=None, ended=0))
    monkeypatch.setattr(stored_rows, "rows", lambda path: made)
    asked = 'any.json columns="LARS|LAMB" rows="alone|together|far" names="alone=by itself"'
    text = tables.written(f"<!-- table: {asked} -->\n<!-- end of table -->")
    assert text.splitlines()[3:] == [
        "| by itself | 64 | 100 | not run | 50.00% |",
        "| together | 64 | 100 | 25.00% | not run |",
        "<!-- end of table -->",
    ]
