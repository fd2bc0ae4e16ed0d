import pytest

from tfbigbatch import BatchRamp, Recipe
from tfbigbatch.scaling.preview import plot, plot_ramp, preview, ramp_lines, table

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


def test_the_schedules_are_drawn(tmp_path):
    rows = preview(RECIPE, (128, 1024, 16384), rule="legw", dataset_size=60_000)
    plot(tmp_path / "scale.png", rows, dataset_size=60_000, rule="legw", title="a$_$b.py")
    assert (tmp_path / "scale.png").read_bytes().startswith(b"\x89PNG")


SIZE = 1_000
RAMP = BatchRamp.doubling(Recipe(10, 0.1, 0.5, epochs=12, decay="linear"), 40, over="6 epochs")


def test_the_stages_of_a_ramp_and_the_steps_saved():
    # 300 steps of 10 examples, 150 of 20, 150 of 40; 1,200 and 300 steps at a constant batch.
    found = ramp_lines(RAMP, RAMP.stages(SIZE), dataset_size=SIZE)
    assert found[:3] == [
        "batch 10 from epoch 0: 300 steps, learning rate x1",
        "batch 20 from epoch 3: 150 steps, learning rate x1.414",
        "batch 40 from epoch 6: 150 steps, learning rate x2",
    ]
    assert found[4] == ("600 steps fewer than at batch 10 throughout, 300 more than the 300 at batch 40 throughout")
    assert found[-1].endswith("x4 at batch 40")


@pytest.mark.parametrize("streams", [False, True])
def test_the_ramp_is_drawn(streams, tmp_path):
    stages = RAMP.stages_of_epochs(lambda batch_size: SIZE // batch_size * batch_size) if streams else RAMP.stages(SIZE)
    plot_ramp(tmp_path / "ramp.png", RAMP, stages, dataset_size=SIZE, title="a$_$b.py")
    assert (tmp_path / "ramp.png").read_bytes().startswith(b"\x89PNG")
