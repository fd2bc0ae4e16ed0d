"""The figure of measured checkpoints."""

import pytest

from tfbigbatch.reports import checkpoint_report


@pytest.mark.slow
def test_a_task_without_accuracy_or_noise_scale_is_drawn(tmp_path):
    measured = [
        {"row": "housing", "batch_size": 32, "seed": 0, "step": step, "distance": 0.1 * step, "eigenvalue_1": -0.5}
        for step in (0, 10, 20)
    ]
    path = tmp_path / "figure.png"
    checkpoint_report.figure(str(path), measured, "housing")
    assert path.read_bytes().startswith(b"\x89PNG")
    assert "housing" in "\n".join(checkpoint_report.table(measured).markdown())
