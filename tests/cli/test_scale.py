"""Previews of a recipe at other batch sizes, by their command."""

from tests.helpers.preloaded import tfbigbatch


def test_scale_shows_and_draws_a_recipe_at_other_batch_sizes(tmp_path):
    arguments = ["scale", "--config=experiments/mnist/lstm_small_batch.py", "--batch_size=1024,8192"]
    outcome = tfbigbatch(*arguments, "--rule=legw,linear", f"--plot={tmp_path}/scale.png")
    assert outcome.returncode == 0, outcome.stderr
    assert "scaled by legw: x64 batch: rate" in outcome.stdout and "8,192" in outcome.stdout
    assert {path.name for path in tmp_path.iterdir()} == {"scale_legw.png", "scale_linear.png"}
    refused = tfbigbatch(*arguments, "--rule=lgew")
    assert refused.returncode == 1 and "Did you mean 'legw'" in refused.stderr
