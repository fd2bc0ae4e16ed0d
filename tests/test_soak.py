"""The soak, for seconds: a run with injected failures ends in the bits of the undisturbed one."""

import json

import pytest

from tests import soak


@pytest.mark.slow
@pytest.mark.parametrize(
    "workers, steps, kinds", [(1, 3000, ["kill", "damaged_checkpoint"]), (2, 400, ["lost_network"])]
)
def test_a_soak_ends_in_the_same_bits_and_is_not_repeated(tmp_path, workers, steps, kinds):
    arguments = [f"--model_dir={tmp_path}/runs", f"--workers={workers}", f"--steps={steps}", "--minutes=60"]
    arguments += [f"--failures={','.join(kinds)}", "--mean_time_between_failures=25", f"--results={tmp_path}/soak"]
    for _ in range(2):
        soak.main([*arguments, "--checkpoint_every=1 seconds", "--", "--config.model.hidden_units=8"])
        rows = [json.loads(line) for line in (tmp_path / "soak.jsonl").read_text().splitlines()]
        assert [each["failures"] for each in rows] == ["none", *kinds]
        assert all(each["same_bits"] for each in rows)
