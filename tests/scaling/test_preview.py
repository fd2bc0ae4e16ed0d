import pytest

from tfbigbatch.scaling import Recipe
from tfbigbatch.scaling.preview import plot, preview, table

RECIPE = Recipe(128, 0.1, warmup_epochs=0.25, epochs=25, decay="linear")


def test_each_batch_size_is_a_row_with_its_updates_and_doubts():
    rows = preview(RECIPE, (128, 8192, 16384), rule="legw", dataset_size=60_000)
    assert [(row["warmup_steps"], row["total_steps"]) for row in rows] == [(117, 11719), (117, 183), (117, 92)]
    assert [row["learning_rate"] for row in rows] == pytest.approx([0.1, 0.8, 0.1 * 128**0.5])
    assert [row["note"] for row in rows] == [
        "",
        "64% of the run is warm-up",
        "the warm-up is longer than the run: invalid",
    ]
    lines = table(rows)
    assert lines[0].split() == ["batch", "factor", "learning", "rate", "warm-up", "steps", "total", "steps"]
    assert lines[2].split()[:6] == ["8,192", "x64", "0.8", "16", "epochs", "117"]


def test_a_batch_above_the_data_set_is_refused():
    with pytest.raises(ValueError, match="batch_size=61000 is larger than the data set of 60000"):
        preview(RECIPE, (61_000,), rule="none", dataset_size=60_000)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"batch_sizes": (128, 0.5)}, r"batch_sizes\[1\]=0.5 is not a whole number"),
        ({"batch_sizes": 128}, "batch_sizes=128 is not a sequence"),
        ({"dataset_size": 0}, "dataset_size=0 is out of range"),
        ({"rule": "lgew"}, "rule='lgew' is unknown. Did you mean 'legw'"),
        ({"recipe": "cosine"}, "recipe='cosine' is not a tfbigbatch.Recipe"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        preview(**{"recipe": RECIPE, "batch_sizes": (128,), "rule": "legw", "dataset_size": 60_000, **arguments})


def test_the_schedules_are_drawn(tmp_path):
    rows = preview(RECIPE, (128, 1024, 16384), rule="legw", dataset_size=60_000)
    plot(tmp_path / "scale.png", rows, dataset_size=60_000, rule="legw", title="a$_$b.py")
    assert (tmp_path / "scale.png").read_bytes().startswith(b"\x89PNG")
