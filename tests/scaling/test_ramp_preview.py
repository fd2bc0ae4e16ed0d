import pytest

from tfbigbatch import BatchRamp, Recipe
from tfbigbatch.scaling.ramp_preview import lines, plot

SIZE = 1_000
RAMP = BatchRamp.doubling(Recipe(10, 0.1, 0.5, epochs=12, decay="linear"), 40, over="6 epochs")


def test_the_stages_the_steps_saved_and_the_throughput():
    # 300 steps of 10 examples, 150 of 20, 150 of 40; 1,200 and 300 steps at a constant batch.
    found = lines(RAMP, RAMP.stages(SIZE), dataset_size=SIZE, examples_per_second=20)
    assert found[:3] == [
        "batch 10 from epoch 0: 300 steps, learning rate x1",
        "batch 20 from epoch 3: 150 steps, learning rate x1.414",
        "batch 40 from epoch 6: 150 steps, learning rate x2",
    ]
    assert found[4] == ("600 steps fewer than at batch 10 throughout, 300 more than the 300 at batch 40 throughout")
    assert found[-4:-1] == ["  batch 10: 20 (x1)", "  batch 20: 40 (x2)", "  batch 40: 80 (x4)"]
    # Half a second a step.
    assert found[-1] == (
        "so at 0.5 s a step the run takes 5 minutes; at 20 examples per second throughout 10 minutes, as batch 10 does"
    )
    assert lines(RAMP, RAMP.stages(SIZE), dataset_size=SIZE)[-1] == "  batch 40: x4"


def test_a_rate_of_zero_is_refused():
    with pytest.raises(ValueError, match="examples_per_second=0 is out of range; expected a finite number above 0"):
        lines(RAMP, RAMP.stages(SIZE), dataset_size=SIZE, examples_per_second=0)


@pytest.mark.parametrize("streams", [False, True])
def test_the_ramp_is_drawn(streams, tmp_path):
    stages = RAMP.stages_of_epochs(lambda batch_size: SIZE // batch_size * batch_size) if streams else RAMP.stages(SIZE)
    plot(tmp_path / "ramp.png", RAMP, stages, dataset_size=SIZE, title="a$_$b.py")
    assert (tmp_path / "ramp.png").read_bytes().startswith(b"\x89PNG")
