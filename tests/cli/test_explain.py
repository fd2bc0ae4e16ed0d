"""The explanation of what runs lose, as `report --explain` writes it."""

import re

from tests.helpers import preloaded
from tests.reports.test_losses import RUNS
from tfbigbatch.reports import losses


def test_tables_and_figures_are_drawn_from_the_file(tmp_path):
    losses.write_lines(str(tmp_path / "made.jsonl"), map(losses.RunLoss.to_json, RUNS[:4]))
    outcome = preloaded.tfbigbatch("report", "--explain", f"--results={tmp_path}/made")
    assert outcome.returncode == 0, outcome.stderr
    text = re.sub(" +", " ", (tmp_path / "made.md").read_text())
    assert text.startswith("made")
    assert "| large | 80 | 3 | 4.500 | 2 | 1 | 33.3% | 80 | 3.000 |" in text
    assert "| large | 80 | 3 | 6.000 | 6.100 | 445.9 | +1.900 | +0.900 | +1.100 | -0.100 |" in text
    assert "| small, bias | 20 | 3 | 3.900 | 4.100 | 60.3 | | | | |" in text
    for name in ("made_curves.png", "made_parts.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")


def test_it_says_what_it_expects(tmp_path):
    outcome = preloaded.tfbigbatch("report", "--explain", f"--results={tmp_path}/made")
    assert outcome.returncode == 1 and "RUN_DIR" in outcome.stderr
    outcome = preloaded.tfbigbatch(
        "report", "--explain", f"--results={tmp_path}/made", "--sweep=results/why/plateau_sweep.py:ptb"
    )
    assert outcome.returncode == 1 and "--model_dir" in outcome.stderr
