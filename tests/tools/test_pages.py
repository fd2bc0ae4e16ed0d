"""The tables and pictures of the pages are as the files of results/, and the command makes them."""

import json
import os

from tests.helpers.preloaded import ROOT
from tools.pages import __main__ as command
from tools.pages import headline, pictures, stored_rows, tables, tune


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


def _batches():
    return [task.batches for task in headline.TASKS]


def test_rows_of_tune_stand_by_task_beside_those_of_its_page(tmp_path, monkeypatch):
    point = {"optimizer": "muon", "rate": 2.0, "half_life": 0.5, "decay": 0.25, "warmup": 0.1}
    row = {"task": "alexnet_bn", "method": "tune 3", "point": point, "cost": 2.85, "seconds": 90.0}
    rows = [{**row, "seed": 0, "test": 0.40}, {**row, "seed": 1, "test": 0.42}]
    rows.append({**row, "seed": 0, "task": "sst2", "method": "8 rates", "test": 0.77})
    rows.append({**row, "seed": 0, "task": "sst2", "method": "random 3", "test": 0.75})
    (tmp_path / "runs.jsonl").write_text("\n".join(map(json.dumps, rows)))
    monkeypatch.setattr(tune, "PATH", tmp_path / "runs.jsonl")
    table = tune.table(["by hand", "tune 3", "random 3"], {"tune 3": "3 runs"})
    assert table.headings == ("task", "batch", "by hand", "3 runs", "random 3")
    lines = {line[0]: line[1:] for line in table.rows}
    ours = next(task for task in headline.TASKS if task.page == "alexnet_bn.md").columns()[2][0]
    by_hand = ours.value.replace("% ±", " ±")
    assert lines["tiny-imagenet, AlexNet-BN: accuracy"] == ["128 → 2,048", by_hand, "41.00 ± 1.41%", "-"]
    assert lines["SST-2, Transformer: accuracy"] == ["32 → 512", "77.00%", "-", "75.00%"] and len(lines) == 2
    chosen = tune.choices(["tune 3"]).rows
    assert chosen == [["tiny-imagenet, AlexNet-BN", "tune 3", "muon", "x2", "0.50", "x0.25", "10%", "2.85", "1.5"]]


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
