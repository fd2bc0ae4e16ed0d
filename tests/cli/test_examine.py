"""The examination of checkpoints, as its command runs it."""

import json

import pytest

from tests.helpers import preloaded
from tfbigbatch import train
from tfbigbatch.cli import examine as command
from tfbigbatch.errors import InputError

SMALL = ("--fit_examples=256", "--sharpness_examples=128", "--noise_examples=1024")


def examine(*arguments):
    return preloaded.tfbigbatch("examine", *SMALL, *arguments)


@pytest.mark.slow  # Two processes; what they call is tested in tests/reports/test_checkpoint_analysis.py.
def test_all_checkpoints_are_measured_once(tmp_path, quick_config):
    train.run(quick_config(keep_checkpoints=5), model_dir=str(tmp_path / "run"))
    results = tmp_path / "looked" / "digits"
    last = examine(f"--results={results}", "--last", str(tmp_path / "run"))
    assert last.returncode == 0, last.stderr
    first = json.loads((tmp_path / "looked" / "digits.jsonl").read_text())
    assert first["step"] == 24
    # As a command that was killed while it wrote leaves it.
    with open(f"{results}.jsonl", "a") as file:
        file.write('{"row": "dig')
    whole = examine(f"--results={results}", str(tmp_path / "run"))
    assert whole.returncode == 0, whole.stderr
    assert whole.stdout.count("largest eigenvalue") == 4 and "step 24:" not in whole.stdout
    looks = [json.loads(line) for line in (tmp_path / "looked" / "digits.jsonl").read_text().splitlines()]
    assert looks[0] == first and sorted(look["step"] for look in looks) == [0, 8, 16, 24]
    assert {"digits.jsonl", "digits.md", "digits.png"} <= {path.name for path in (tmp_path / "looked").iterdir()}


def test_it_says_what_it_expects(tmp_path):
    outcome = examine(f"--results={tmp_path}/looked")
    assert outcome.returncode == 1 and "RUN_DIR" in outcome.stderr


@pytest.mark.parametrize(
    "odd", [b"3", b'{"row": "LEGW"}', b"\xff\n{}", b'{"row": 3, "batch_size": 8, "seed": 0, "step": 1}']
)
def test_lines_of_another_file_are_refused(tmp_path, odd):
    whole = b'{"row": "LEGW", "batch_size": 8, "seed": 0, "step": 1, "distance": 2.0}\n'
    (tmp_path / "found.jsonl").write_bytes(whole + odd + b"\n" + whole)
    with pytest.raises(InputError, match=r"found.jsonl does not hold the measurements of tfbigbatch examine \(line 2"):
        command._read(str(tmp_path / "found.jsonl"))
