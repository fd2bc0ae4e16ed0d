"""Quick runs: any experiment made small, on data or on made-up data."""

import pytest

from tests.helpers.datasets import image_sets
from tests.helpers.preloaded import tfbigbatch
from tfbigbatch.config import load_config, make_quick
from tfbigbatch.config.recipe import check_fields, check_plan, tuned_recipe
from tfbigbatch.errors import InputError

NAMES = [
    "imagenet/resnet50_lars:32k",
    "imagenet/alexnet:bn_lars_16k",
    "bert/lamb:64k_32k",
    "wmt/gnmt_mlperf",
    "ptb/large",
]


@pytest.mark.parametrize("data_dir, steps", [(None, 8), (".", 40)])
@pytest.mark.parametrize("name", NAMES)
def test_any_experiment_becomes_a_few_steps_of_a_small_batch(name, data_dir, steps):
    config = load_config(name)
    [line] = make_quick(config, data_dir=data_dir)
    assert f"{steps} steps of batch 16 on {data_dir or 'made-up data'}" in line
    assert (config.duration, config.batch_size, config.phases, config.ramp.name) == (f"{steps} steps", 16, (), "none")
    check_fields(config)
    check_plan(config)
    # The schedule can be built: warm-up, boundaries and decay lie within the run.
    recipe = tuned_recipe(config, 1000)
    assert recipe.warmup_steps(1000) <= 2
    recipe.schedule(1000, keras="keras3")


def test_the_learning_rate_and_the_moments_follow_the_batch_by_the_rule():
    config = load_config("imagenet/resnet50_lars:32k")
    make_quick(config)
    assert config.schedule.learning_rate == pytest.approx(21.2 * (16 / 32768) ** 0.5, rel=1e-3)
    linear = load_config("imagenet/resnet50:8k")
    make_quick(linear)
    assert linear.schedule.learning_rate == pytest.approx(0.1 * 16 / 256, rel=1e-3)
    scaled = load_config("bert/lamb:32k")
    scaled.schedule.batch_size, scaled.schedule.moments, scaled.schedule.weight_decay = 1024, "half_life", "kept"
    decay = scaled.optimizer.weight_decay
    make_quick(scaled)
    assert scaled.optimizer.beta_2 == pytest.approx(0.999 ** (16 / 1024))
    assert scaled.optimizer.weight_decay == pytest.approx(decay / 8)


def test_fields_of_the_user_win_and_the_rate_follows_them():
    config = load_config("imagenet/resnet50_lars:32k")
    config.batch_size, config.model.image_size, config.duration = 32, 96, "2 epochs"
    make_quick(config, data_dir=".", keep=("batch_size", "model.image_size", "duration"))
    assert (config.batch_size, config.model.image_size, config.duration) == (32, 96, "2 epochs")
    assert config.schedule.learning_rate == pytest.approx(21.2 * (32 / 32768) ** 0.5, rel=1e-3)


@pytest.mark.parametrize(
    "change, said",
    [
        ({"batch_size": 0}, "batch_size=0: expected 1 or more"),
        ({"schedule.batch_size": -1}, "schedule.batch_size=-1: expected 1 or more"),
        ({"duration": "5"}, "duration='5' does not say how long"),
        ({"schedule.rule": "legs"}, "schedule.rule='legs' is unknown"),
        ({"schedule.learning_rate": float("nan")}, "schedule.learning_rate=nan: expected a finite number"),
    ],
)
def test_what_the_user_gave_is_checked_by_its_name(change, said):
    config = load_config("digits/lstm_legw")
    for name, value in change.items():
        holder, _, last = name.rpartition(".")
        (config[holder] if holder else config)[last] = value
    with pytest.raises(InputError, match=said):
        make_quick(config, keep=tuple(change))


@pytest.mark.slow  # A minute: a residual network is traced.
def test_resnet_50_at_batch_32k_trains_on_36_pictures_at_the_first_try(tmp_path):
    pictures = {
        f"class{number % 12}/{number}.jpg": image_sets.encoded(image_sets.picture(number, (80, 60)))
        for number in range(36)
    }
    source = image_sets.write_folder(tmp_path / "pictures", pictures)
    prepared = tfbigbatch("prepare-imagenet", f"--source={source}", f"--output_dir={tmp_path}/data")
    assert prepared.returncode == 0, prepared.stderr
    command = ["train", "--config=imagenet/resnet50_lars:32k", "--quick"]
    command += [f"--model_dir={tmp_path}/run", f"--data_dir={tmp_path}/data"]
    first = tfbigbatch(*command)
    assert first.returncode == 0, first.stderr
    assert "done       40 steps" in first.stdout
    again = tfbigbatch(*command)
    assert again.returncode == 0 and "holds a finished run (40 steps)" in again.stdout
