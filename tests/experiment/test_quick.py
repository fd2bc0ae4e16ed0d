"""Quick runs: any experiment on a few examples, its sizes brought down together."""

import pytest

from tfbigbatch import experiment, schedules, tasks
from tfbigbatch.errors import InputError


class Few:
    """A training split of a few examples."""

    def __init__(self, examples):
        self.examples = examples

    def examples_in_epoch(self, batch_size):
        return self.examples

    def evaluation_steps(self, batch_size):
        return self.examples


def quick_on(monkeypatch, config, examples, held_out=1, **options):
    """The banner of a quick run on so many training examples."""
    task = tasks.get(config.task)
    monkeypatch.setattr(task, "__init__", lambda self, **given: setattr(self, "train", Few(examples)))
    monkeypatch.setattr(task, "held_out", lambda self, split: Few(held_out))
    monkeypatch.setattr(task, "check_data", lambda data, data_dir: None)
    return experiment.quick(config, data_dir=".", **options)


def steps(config, field, examples):
    holder, _, name = field.rpartition(".")
    text = (config[holder] if holder else config)[name]
    return schedules.to_steps(text, batch_size=config.batch_size, dataset_size=examples)


@pytest.mark.parametrize("examples", [3, 32, 2_000, 1_000_000])
@pytest.mark.parametrize(
    "name",
    [
        "imagenet/resnet50_lars:32k",
        "imagenet/resnet50:8k",
        "imagenet/alexnet:bn_lars_16k",
        "bert/lamb:64k_32k",
        "bert/mlperf:16k",
        "wmt/gnmt_mlperf",
        "ptb/large",
        "digits/lstm_legw",
    ],
)
def test_any_experiment_fits_a_few_examples(monkeypatch, name, examples):
    config = experiment.load(name)
    quick_on(monkeypatch, config, examples)
    assert 1 <= config.batch_size <= max(1, examples // 4) and config.batch_size <= 128
    assert config.accumulation_steps <= 2 and len(config.phases) in (0, 2)
    assert config.evaluation_batch_size <= 2 * config.batch_size
    phase = experiment.phases(config)[0]
    total = steps(phase, "duration", examples)
    assert total >= 1 and total * config.batch_size <= 100_000
    # The schedule can be built: warm-up, boundaries and decay lie within the run.
    recipe = experiment.tuned_recipe(phase, examples).at(phase.batch_size, config.schedule.rule)
    assert recipe.warmup_steps(examples) <= max(1, total // 4)
    recipe.schedule(examples, keras="tf_keras")
    for field in ("evaluate_every", "checkpoint_every", "log_every"):
        assert 1 <= steps(config, field, examples) <= total * len(experiment.phases(config))


def test_a_ramp_and_phases_keep_their_structure(monkeypatch):
    config = experiment.load("mnist/lstm_small_batch")
    config.ramp.update({"name": "doubling", "to": 2048, "over": "9 epochs"})
    quick_on(monkeypatch, config, 60_000)
    assert config.ramp.name == "growth" and [size for _, size in config.ramp.growth] == [2 * config.batch_size]
    phased = experiment.load("bert/lamb:64k_32k")
    quick_on(monkeypatch, phased, 1_000)
    assert phased.phases == ({"duration": phased.duration},) * 2


def test_without_data_it_takes_seconds_on_made_up_data():
    for name in ("imagenet/resnet50_lars:32k", "ptb/large", "digits/lstm_adasum", "bert/lamb:64k_32k"):
        config = experiment.load(name)
        lines = experiment.quick(config)
        assert sum(steps(phase, "duration", 64) for phase in experiment.phases(config)) == 8
        assert config.batch_size == 16 and "8 steps, 2 epochs of made-up data" in lines[-1]


def test_the_learning_rate_follows_the_batch_by_the_rule(monkeypatch):
    config = experiment.load("imagenet/resnet50_lars:32k")
    quick_on(monkeypatch, config, 33)
    assert config.batch_size == config.schedule.batch_size == 8
    assert config.schedule.learning_rate == pytest.approx(21.2 * (8 / 32768) ** 0.5, rel=1e-3)
    linear = experiment.load("imagenet/resnet50:8k")
    quick_on(monkeypatch, linear, 33)
    assert linear.schedule.learning_rate == pytest.approx(0.1 * 8 / 256, rel=1e-3)


def test_moments_that_scale_follow_the_batch(monkeypatch):
    config = experiment.load("bert/lamb:32k")
    config.schedule.batch_size, config.schedule.moments, config.schedule.weight_decay = 512, "half_life", "kept"
    decay = config.optimizer.weight_decay
    quick_on(monkeypatch, config, 1000)
    assert config.schedule.batch_size == config.batch_size == 32
    assert config.optimizer.beta_2 == pytest.approx(0.999 ** (32 / 512))
    # The learning rate follows by the square root.
    assert config.optimizer.weight_decay == pytest.approx(decay / 4)


def test_the_banner_says_what_changed(monkeypatch):
    config = experiment.load("imagenet/resnet50_lars:32k")
    lines = quick_on(monkeypatch, config, 32)
    text = "\n".join(lines)
    assert all(line.startswith("quick      ") for line in lines)
    assert "batch_size: 32768 -> 8" in lines[0]
    assert "model.image_size: 224 -> 64" in text and "duration: 2892 steps -> 20 steps" in text


def test_fields_of_the_user_win_and_the_others_follow(monkeypatch):
    config = experiment.load("imagenet/resnet50_lars:32k")
    config.batch_size, config.model.image_size, config.duration = 16, 96, "2 epochs"
    quick_on(monkeypatch, config, 33, keep=("batch_size", "model.image_size", "duration"))
    assert (config.batch_size, config.model.image_size, config.duration) == (16, 96, "2 epochs")
    assert config.schedule.batch_size == 16
    assert config.schedule.learning_rate == pytest.approx(21.2 * (16 / 32768) ** 0.5, rel=1e-3)


def test_a_small_experiment_stays_as_it_is_but_for_its_length(monkeypatch):
    config = experiment.load("digits/lstm_small_batch")
    quick_on(monkeypatch, config, 1_437)
    assert config.batch_size == 32 and config.schedule.learning_rate == 0.3
    assert steps(config, "duration", 1_437) == round(5 * 1_437 / 32)


def test_adasum_keeps_replicas_to_combine(monkeypatch):
    config = experiment.load("digits/lstm_adasum")
    quick_on(monkeypatch, config, 1_437)
    assert config.simulated_replicas == 2 and config.batch_size % 2 == 0
    made_up = experiment.load("digits/lstm_adasum")
    experiment.quick(made_up)
    assert made_up.simulated_replicas == 8


def test_a_large_held_out_set_is_evaluated_once(monkeypatch):
    evaluations = []
    for held_out in (5, 50_000):
        config = experiment.load("imagenet/resnet50_lars:32k")
        quick_on(monkeypatch, config, 32, held_out)
        evaluations.append(steps(config, "duration", 32) // steps(config, "evaluate_every", 32))
    assert evaluations == [2, 1]  # Of 20 steps after 7 and 14, and at the end as ever.


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
    config = experiment.load("digits/lstm_legw")
    for name, value in change.items():
        holder, _, last = name.rpartition(".")
        (config[holder] if holder else config)[last] = value
    with pytest.raises(InputError, match=said):
        experiment.quick(config, keep=tuple(change))
