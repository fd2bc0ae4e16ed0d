import pytest

from tests.cli.test_translate import LINES, small_config
from tests.tools.test_tools import tool
from tfbigbatch import train

pytest.importorskip("sentencepiece")
TOOL = "tools/translate.py"


# A run to translate by, and a process with TensorFlow in it.
@pytest.mark.slow
def test_it_translates_a_file_and_says_so(tmp_path):
    train.run(small_config(), model_dir=str(tmp_path / "run"), use_fake_data=True)
    (tmp_path / "in").write_text("".join(f"{line}\n" for line in LINES))
    files = [f"--model_dir={tmp_path}/run", f"--input={tmp_path}/in", f"--output={tmp_path}/out"]
    outcome = tool(TOOL, *files, "--max_length=4", "--cut", "--batch_size=2", "--beam_size=1")
    assert outcome.returncode == 0, outcome.stderr
    assert "checkpoint  step 2 of" in outcome.stdout and "302 pieces" in outcome.stdout
    assert "in, line 3: 21 pieces; cut to --max_length=4" in outcome.stdout
    assert "translated  6 lines (2 empty, 1 cut) in" in outcome.stdout
    assert (tmp_path / "out").read_text().count("\n") == 6


def test_a_bad_flag_is_one_message():
    outcome = tool(TOOL, "--model_dir=x", "--input=y", "--output=z", "--batch_size=0")
    assert outcome.returncode == 1 and outcome.stderr.startswith("error: --batch_size=0: expected 1 or more")
