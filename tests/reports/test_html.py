import base64
import os
import re
import time
from html.parser import HTMLParser

import pytest

from tests.helpers import made_runs
from tfbigbatch.config import new_config
from tfbigbatch.reports import html
from tfbigbatch.reports.html import Section, render, write_page
from tfbigbatch.reports.report import Report
from tfbigbatch.reports.table import Table


class Reader(HTMLParser):
    """What a browser would make of a page: its elements' attributes, and its text."""

    def __init__(self, page):
        super().__init__()
        self.elements, self.words = [], ""
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_data(self, data):
        self.words += data


def test_names_are_escaped_and_pictures_are_within_the_page(tmp_path):
    name, picture = "<script>alert('&\"')</script>", tmp_path / "a.png"
    picture.write_bytes(b"\x89PNG")
    parts = {"paragraphs": [name], "tables": [Table([name], [[name]])], "pictures": [(str(picture), name)]}
    read = Reader(render(name, [Section("", **parts), Section(name, **parts)]))
    assert "script" not in [tag for tag, _ in read.elements] and read.words.count(name) == 12
    pictures = [attributes for tag, attributes in read.elements if tag == "img"]
    assert [attributes["alt"] for attributes in pictures] == [name, name]
    kind, data = pictures[0]["src"].split(",")
    assert kind == "data:image/png;base64" and base64.b64decode(data) == b"\x89PNG"


def config(**fields):
    made = new_config("digits_lstm").to_dict()
    return {**made, **fields}


def look(step):
    noise = {"critical_batch_size": 40.0 + step, "low": 20.0, "high": 90.0}
    return {
        "loss": 1.0 / step,
        **{f"noise_scale/{name}": value for name, value in noise.items()},
        "layers/trust_ratio/lstm/kernel": 0.1 * step,
        "layers/trust_ratio/logits/bias": 1.0,
    }


@pytest.fixture
def folder(tmp_path):
    """One run that ended, with instruments; one that is going; one that is gone; and one that has just begun."""
    made_runs.write(tmp_path / "a", config(), 0.9, train={step: look(step) for step in (5, 10)})
    made_runs.write(tmp_path / "b", config(batch_size=64), 0.8, train={5: look(5)})
    going = tmp_path / "going"
    made_runs.write(
        going, config(batch_size=128, optimizer={"name": "<b>&"}), status="running", step=0, curve={4: 0.25}
    )
    with open(going / "metrics.jsonl", "a") as file:
        file.write('{"step": 8, "split": "eval", "accu')
    made_runs.write(tmp_path / "gone", config(batch_size=256), status="diverged", step=9, reason="loss became nan")
    made_runs.write(tmp_path / "new", config(batch_size=512))
    for name in ("status.json", "metrics.jsonl"):
        os.remove(tmp_path / "new" / name)
    return tmp_path


def test_the_page_holds_all_and_asks_for_nothing(folder, tmp_path):
    report = Report.of_folders([str(folder)], target=0.8)
    (tmp_path / "out").mkdir()
    written = write_page(report, str(tmp_path / "out" / "page"))
    page = (tmp_path / "out" / "page.html").read_text()
    read = Reader(page)
    for words in ("5 runs: 2 ended, 1 running, 1 diverged, 1 not started", "diverged: loss became nan", "none yet"):
        assert words in read.words
    assert "25.00% at 4" in read.words and "Target: 80%" in read.words
    assert "optimizer.name" in read.words and "<b>&" in read.words and "keep_checkpoints" not in read.words
    pictures = [attributes["src"] for tag, attributes in read.elements if tag == "img"]
    pngs = [path for path in written if path.endswith(".png")]
    assert [path.rpartition("_")[2] for path in pngs] == [
        *("batch.png", "curves.png", "updates.png", "runs.png", "1.png", "2.png")
    ]
    within = {base64.b64decode(source.partition(",")[2]) for source in pictures}
    assert within == {open(path, "rb").read() for path in pngs}
    assert not re.search(r"(?:src|href)\s*=\s*\"(?!data:|#)|url\(|@import|<script|<link", page)


def test_the_table_of_runs_says_how_far_each_is(folder):
    made_runs.write(folder / "stopped", config(batch_size=1024), status="preempted", step=5)
    written = time.time() - 300
    for name in ("status.json", "metrics.jsonl"):
        os.utime(folder / "going" / name, (written, written))
    report = Report.of_folders([str(folder)])
    table = html.runs_table(report)
    found = {line[0]: dict(zip(table.headings, line, strict=True)) for line in table.rows}
    assert found["a"]["status"] == "ended" and found["a"]["steps"] == "20 of 20 (100%)"
    assert found["a"]["seconds"] == "3.0" and found["stopped"]["status"].startswith("preempted; the same command")
    assert found["going"]["status"] == "running, wrote 5 minutes ago" and found["going"]["steps"] == "4 of 20 (20%)"
    assert found["going"]["last test accuracy"] == "25.00% at 4" and found["going"]["seconds"] == ""
    assert found["gone"]["status"] == "diverged: loss became nan" and found["gone"]["last test accuracy"] == "none yet"


def headings(page):
    return re.findall(r"<h2>(.*?)</h2>", page)


def test_what_was_not_measured_has_no_section(folder, tmp_path):
    written = write_page(Report.of_folders([str(folder / "new")]), str(tmp_path / "page"))
    page = (tmp_path / "page.html").read_text()
    assert headings(page) == ["Runs", "Versions"] and written == [str(tmp_path / "page.html")]
    assert "1 run: 1 not started" in Reader(page).words
    write_page(Report.of_folders([str(folder / "going")]), str(tmp_path / "page"))
    assert headings((tmp_path / "page.html").read_text()) == ["Runs", "Curves", "Versions"]


def test_the_best_checkpoint_is_in_the_table_of_runs(folder, tmp_path):
    (folder / "a" / "best").mkdir()
    (folder / "a" / "best" / "step-10.index").touch()
    write_page(Report.of_folders([str(folder / "a")]), str(tmp_path / "page"))
    words = Reader((tmp_path / "page.html").read_text()).words
    assert "best test accuracy, kept" in words and "45.00% at 10" in words and "90.00% at 20" in words
