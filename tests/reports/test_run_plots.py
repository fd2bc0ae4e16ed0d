import pytest

from tests.helpers import made_runs
from tfbigbatch.reports.collect import Row, Run
from tfbigbatch.reports.run_plots import panels_of, run_curves
from tfbigbatch.runs.scalars import Scalars


def scalars(run):
    return Scalars(run.directory)


def row(directory, name="LEGW", batch_size=32, **options):
    made_runs.write(directory, {}, **options)
    return Row(name, {"batch_size": batch_size}, [Run(str(directory), 0)])


def test_each_scalar_has_a_panel_and_of_the_instruments_those_that_tell_of_a_run(tmp_path):
    train = {2: {"loss": 1.0, "epoch": 0.1, "learning_rate": 0.1, "sharpness/trace": 3.0, "layers/weight_norm/a": 1.0}}
    row(tmp_path, train=train, curve={2: 0.5})
    assert panels_of([Scalars(str(tmp_path))]) == [
        ("eval", "accuracy", "accuracy, evaluation"),
        ("train", "loss", "loss, training"),
        ("train", "learning_rate", "learning rate"),
        ("train", "sharpness/trace", "trace of the Hessian"),
    ]


# Names that matplotlib would take for a formula, or leave out of a legend; a loss that blew up; very unequal runs.
@pytest.mark.parametrize("empty", [False, True])
def test_they_are_drawn_whatever_there_is(tmp_path, empty):
    rows = [row(tmp_path / "none", "not begun")]
    if not empty:
        rows.append(row(tmp_path / "a", r"$\frac{$", train={1: {"loss": 1.0}, 2: {"loss": None}}, curve={2: 0.5}))
        train = {step: {"loss": 10.0**step} for step in range(1, 99)}
        rows.append(row(tmp_path / "b", "_" * 70, 512, train=train))
    run_curves(str(tmp_path / "plot.png"), rows, scalars, "a title")
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
