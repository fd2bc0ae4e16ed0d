import math
import os

import pytest

from tfbigbatch.run_directory import checkpoint_files
from tfbigbatch.run_directory.checkpoint_files import Best
from tfbigbatch.run_directory.metric import Metric

ACCURACY = Metric("accuracy")
LOSS = Metric("perplexity", higher_is_better=False)


def checkpoint(folder, step, text="data"):
    folder.mkdir(exist_ok=True)
    (folder / f"step-{step}.data-00000-of-00001").write_text(f"{text} {step}")
    (folder / f"step-{step}.index").write_text(f"index {step}")
    return str(folder / f"step-{step}")


def test_a_tie_keeps_the_earlier_and_nan_is_never_best():
    rows = [
        {"step": step, "split": split, "accuracy": value, "perplexity": value}
        for step, split, value in [(1, "eval", None), (2, "train", 9.0), (3, "eval", 0.5), (4, "eval", 0.5)]
    ]
    assert checkpoint_files.best_row(rows, ACCURACY) == Best(3, 0.5)
    rows.append({"step": 5, "split": "eval", "accuracy": 0.6, "perplexity": 0.6})
    assert checkpoint_files.best_row(rows, ACCURACY) == Best(5, 0.6)
    assert checkpoint_files.best_row(rows, LOSS) == Best(3, 0.5)
    assert checkpoint_files.best_row(rows, ACCURACY, among=[4]) == Best(4, 0.5)
    assert not checkpoint_files.is_better(math.nan, None, ACCURACY)
    assert not checkpoint_files.is_better(math.inf, Best(1, 0.1), ACCURACY)


def test_a_checkpoint_is_linked_with_its_index_last(tmp_path, monkeypatch):
    path, best = checkpoint(tmp_path / "checkpoints", 7), tmp_path / "best"
    linked, link = [], os.link
    monkeypatch.setattr(os, "link", lambda file, target: (linked.append(os.path.basename(target)), link(file, target)))
    checkpoint_files.add(path, str(best))
    assert linked == ["step-7.data-00000-of-00001", "step-7.index"]
    assert checkpoint_files.steps(str(best)) == [7]
    assert os.path.samefile(f"{path}.index", best / "step-7.index")


def test_a_crash_in_between_leaves_the_best_before(tmp_path, monkeypatch):
    best = tmp_path / "best"
    checkpoint_files.add(checkpoint(tmp_path / "checkpoints", 3), str(best))
    path, link = checkpoint(tmp_path / "checkpoints", 7), os.link

    def killed(file, target):
        if target.endswith(".index"):
            raise KeyboardInterrupt
        link(file, target)

    monkeypatch.setattr(os, "link", killed)
    with pytest.raises(KeyboardInterrupt):
        checkpoint_files.add(path, str(best))
    assert checkpoint_files.steps(str(best)) == [3]
    checkpoint_files.drop(str(best), after=7)
    assert sorted(os.listdir(best)) == ["step-3.data-00000-of-00001", "step-3.index"]


def test_without_hard_links_it_is_copied(tmp_path, monkeypatch):
    def refuse(*unused):
        raise PermissionError("no links here")

    monkeypatch.setattr(os, "link", refuse)
    path = checkpoint(tmp_path / "checkpoints", 7)
    checkpoint_files.add(path, str(tmp_path / "best"))
    assert (tmp_path / "best" / "step-7.data-00000-of-00001").read_text() == "data 7"
    assert not os.path.samefile(f"{path}.index", tmp_path / "best" / "step-7.index")


def test_what_a_resume_may_need_stays(tmp_path):
    best = tmp_path / "best"
    for step in (10, 20, 30, 40, 50):
        checkpoint(best, step)
    # A run that is resumed at 35 or 45 has its best at 30 or 40.
    checkpoint_files.prune(str(best), [45, 35])
    assert checkpoint_files.steps(str(best)) == [50, 40, 30]
    checkpoint_files.drop(str(best), after=35)
    assert checkpoint_files.steps(str(best)) == [30]
    checkpoint_files.prune(str(best), [])
    assert checkpoint_files.steps(str(best)) == [30]


def test_each_direction_has_its_best():
    assert ACCURACY.reaches(0.98, 0.98) and not ACCURACY.reaches(0.97, 0.98)
    assert LOSS.reaches(110.0, 120.0) and not LOSS.reaches(121.0, 120.0)
    assert sorted([0.1, None, 0.9], key=ACCURACY.order) == [0.9, 0.1, None]
    assert sorted([9.0, None, 1.0], key=LOSS.order) == [1.0, 9.0, None]
