import pytest

from tests.helpers.datasets import translation_sets
from tests.helpers.preloaded import tfbigbatch
from tfbigbatch.data.translation import manifest

pytest.importorskip("sentencepiece")
COMMAND = "prepare-wmt"


def test_it_prepares_says_so_and_does_not_repeat(tmp_path):
    a, b, c = (translation_sets.pair(tmp_path, name, 60, first=100 * place) for place, name in enumerate("abc"))
    empty = tuple(translation_sets.write(tmp_path, f"d.{side}", ["the", ""]) for side in range(2))
    arguments = [COMMAND, f"--output_dir={tmp_path}/out", "--vocabulary_size=340"]
    arguments += [f"--source_files={a[0]},{b[0]},{empty[0]}", f"--target_files={a[1]},{b[1]},{empty[1]}"]
    arguments += [f"--test_source_files={c[0]}", f"--test_target_files={c[1]}"]
    first = tfbigbatch(*arguments)
    assert first.returncode == 0, first.stderr
    assert "lines: train 122, test 60; 0.0 MB; 4 shards" in first.stdout and "out is prepared:" in first.stdout
    assert "train, pairs: 122 read, 121 used; left out: 1 with an empty sentence" in first.stdout
    assert "vocabulary: 340 pieces" in first.stdout
    assert manifest.load(f"{tmp_path}/out").splits["test"].examples == 60
    again = tfbigbatch(*arguments)
    assert again.returncode == 0 and "holds this already" in again.stdout
    other = tfbigbatch(*arguments, "--max_length=20")
    assert other.returncode == 1 and "Choose another folder" in other.stderr and "Traceback" not in other.stderr
