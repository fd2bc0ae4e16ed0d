"""Previews of a recipe at other batch sizes, by their command."""

from tests.helpers.preloaded import tfbigbatch


def test_scale_shows_a_recipe_at_other_batch_sizes():
    arguments = ["scale", "--config=experiments/mnist/lstm_small_batch.py", "--batch_size=1024,8192,16384"]
    recipe = ["--config.schedule.learning_rate=0.1", "--config.schedule.warmup_epochs=0.25"]
    outcome = tfbigbatch(*arguments, *recipe, "--rule=legw,linear")
    assert outcome.returncode == 0, outcome.stderr
    assert "scaled by legw: x128 batch: learning rate" in outcome.stdout and "scaled by linear" in outcome.stdout
    rows = [line.split("|") for line in outcome.stdout.splitlines() if line.startswith("|  8,192")]
    assert [[cell.strip() for cell in row[2:-1]] for row in rows] == [
        ["x64", "0.8", "16 epochs", "117", "183", "64% of the run is warm-up"],
        ["x64", "6.4", "0.25 epochs", "2", "183", "few steps"],
    ]
    assert "127% of the run is warm-up: invalid" in outcome.stdout
    refused = tfbigbatch(*arguments, "--rule=lgew")
    assert refused.returncode == 1 and "Did you mean 'legw'" in refused.stderr


def test_scale_begins_at_the_batch_of_the_file(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        "from tfbigbatch.config import new_config\n\n\ndef get_config():\n    config = new_config('digits_lstm')\n"
        "    config.batch_size = 64\n    return config\n"
    )
    outcome = tfbigbatch("scale", f"--config={file}", "--config.batch_size=512")
    assert outcome.returncode == 0 and "batch      64: 22.45 steps per epoch" in outcome.stdout


def test_scale_shows_the_moments_and_the_weight_decay_where_asked():
    arguments = ["scale", "--config=bert/lamb:32k", "--config.schedule.batch_size=512", "--batch_size=512,8192"]
    arguments += ["--dataset_size=1000000"]
    outcome = tfbigbatch(*arguments, "--config.schedule.moments=half_life", "--config.schedule.weight_decay=kept")
    assert outcome.returncode == 0, outcome.stderr
    assert "beta_2 0.999 -> 0.9841, weight_decay 0.01 -> 0.04" in outcome.stdout
    assert "optimizer at 512: as tuned" in outcome.stdout and "optimizer at 8,192: beta_2 0.999 ->" in outcome.stdout
    assert "optimizer" not in tfbigbatch(*arguments).stdout
    refused = tfbigbatch("scale", "--config=mnist/lstm_small_batch", "--config.schedule.moments=half_life")
    assert refused.returncode == 1 and "scales beta_2, normuon_beta" in refused.stderr


def test_scale_shows_a_batch_ramp():
    arguments = ["scale", "--config=digits/lstm_small_batch", "--config.ramp.name=doubling", "--config.ramp.to=512"]
    arguments += ["--config.ramp.over=20 epochs"]
    outcome = tfbigbatch(*arguments)
    assert outcome.returncode == 0, outcome.stderr
    assert "batch 64 from epoch 5.01: 112 steps, learning rate x1.414" in outcome.stdout
    for more, message in (
        ("--config.ramp.over=50 epochs", "the ramp is longer than the run"),
        ("--config.ramp.to=100", "to=100 is no larger multiple of the first batch, 32; expected such as 96 or 128"),
    ):
        refused = tfbigbatch(*arguments, more)
        assert refused.returncode == 1 and message in refused.stderr, refused.stderr
