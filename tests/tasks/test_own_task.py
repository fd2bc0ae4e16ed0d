"""A task of a user's own, as experiments/README.md shows it, in every command that reads a config."""

import os
import re

import pytest

from tests.helpers import preloaded
from tfbigbatch import tasks, train
from tfbigbatch.config import load_config
from tfbigbatch.config.files import SHIPPED
from tfbigbatch.reports.measured_run import training_loss
from tfbigbatch.reports.report import Report
from tfbigbatch.sweeps.series import run_series
from tfbigbatch.sweeps.sweep import Entry
from tfbigbatch.tasks.image_classification import DigitsLSTM
from tfbigbatch.tpu import step

README = os.path.join(SHIPPED, "README.md")


@pytest.fixture
def file(tmp_path):
    with open(README, encoding="utf-8") as page:
        [code] = re.findall(r"^```python\n([^`]*tasks\.register[^`]*)^```$", page.read(), re.DOTALL | re.MULTILINE)
    path = tmp_path / "parity.py"
    path.write_text(code)
    return str(path)


@pytest.mark.slow
def test_it_is_trained_resumed_reported_and_measured(tmp_path, file):
    config = load_config(file)
    config.checkpoint_every = "6 steps"
    assert config.model.units == 16 and config.evaluate_on == "test" and "parity" in tasks.names()
    runs = str(tmp_path / "runs")
    stopped = train.run(config, model_dir=f"{runs}/one", stop_after=12)
    assert stopped["step"] == 12 and stopped["status"] != "done"
    done = train.run(config, model_dir=f"{runs}/one")
    assert done["status"] == "done" and done["step"] == 24 and 0.0 <= done["metrics"]["accuracy"] <= 1.0
    report = Report.of_folders([runs])
    assert report.metric.title == "test accuracy"
    assert f"{done['metrics']['accuracy']:.2%}" in "".join(report.table().markdown())
    with pytest.raises(ValueError, match="no loss in nats"):
        training_loss(f"{runs}/one")
    # A command that reads run directories alone executes the file that the run remembers; its copy, if told.
    arguments = ("tfbigbatch", "report", runs, f"--results={tmp_path}/report")
    known = preloaded.run(*arguments)
    assert known.returncode == 0, known.stderr
    assert os.path.exists(tmp_path / "report.html") and "experiment=" not in known.stdout
    os.rename(file, f"{file}.away")
    copied = preloaded.run(*arguments)
    copy = f"{runs}/one/experiment.py"
    assert copied.returncode == 1
    said = " ".join(copied.stderr.split())
    assert f"{file}, which is executed only if you name it" in said and copy in said and "--register=FILE" in said
    assert preloaded.run(*arguments, f"--register={copy}").returncode == 0
    os.remove(copy)
    unknown = preloaded.run(*arguments)
    assert unknown.returncode == 1 and "task 'parity' is unknown" in unknown.stderr and "--register" in unknown.stderr
    again = preloaded.run(*arguments, f"--register={file}.away")
    assert again.returncode == 1 and "is not a Python file" in again.stderr
    os.rename(f"{file}.away", file)
    assert preloaded.run(*arguments, f"--register={file}").returncode == 0


@pytest.mark.slow
def test_the_processes_of_a_sweep_know_it(tmp_path, file):
    config = load_config(file)
    config.duration = "2 steps"
    entries = [Entry("parity", config, (0,), "parity")]
    run_series(entries, model_dir=str(tmp_path), run=train.run, files=[file], processes=2)
    assert Report.of_folders([str(tmp_path / "parity")]).rows[0].runs[0].status["status"] == "done"


def test_its_step_is_traced_for_a_tpu(tmp_path, file):
    traced = step.trace(load_config(file), 2, data_dir=str(tmp_path))
    assert traced.inputs[0].shape == (32, 4)


class Whole(DigitsLSTM):
    """Every part, from another task."""


def test_a_name_and_a_class_are_checked():
    tasks.register("whole", Whole)
    assert tasks.get("whole") is Whole and tasks.model_defaults("whole") == DigitsLSTM.model_defaults
    tasks.register("whole", DigitsLSTM)
    assert tasks.get("whole") is DigitsLSTM
    for name in ("", "Whole", None, 3):
        with pytest.raises(ValueError, match="expected a name in lower case"):
            tasks.register(name, Whole)
    with pytest.raises(ValueError, match="name='gnmt'; .* none of tfbigbatch's own"):
        tasks.register("gnmt", Whole)
    for cls in (dict, Whole.loss, "whole", None):
        with pytest.raises(ValueError, match="expected a subclass of tfbigbatch.tasks.Task"):
            tasks.register("mine", cls)


@pytest.mark.parametrize(
    "evaluates_on, message",
    [
        ((), "One.evaluates_on names no held-out split"),
        ("test", "One.evaluates_on is a text; expected a tuple of names"),
    ],
)
def test_a_task_without_names_of_splits_is_refused(evaluates_on, message):
    with pytest.raises(ValueError, match=message):
        tasks.register("mine", type("One", (Whole,), {"evaluates_on": evaluates_on}))
    assert "mine" not in tasks.names()
