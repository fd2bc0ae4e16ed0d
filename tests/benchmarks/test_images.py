"""The benchmarks of images: one smoke run each."""

import json
import os
import subprocess
import sys

import pytest

from tests.helpers.datasets import made_images

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    folder = tmp_path_factory.mktemp("jpegs")
    for number in range(6):
        (folder / f"{number}.JPEG").write_bytes(made_images.jpeg_of(number))
    (folder / "words.txt").write_text("no picture")
    return folder


def run(name, *arguments):
    return subprocess.run(
        [sys.executable, os.path.join("benchmarks", name), *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.mark.slow
def test_the_pipeline_is_timed(source, tmp_path):
    results = tmp_path / "images.json"
    outcome = run(
        "images.py",
        f"--source={source}",
        "--only=bare_decode,bare_decode_kept_in,tfbigbatch,tfbigbatch_opencv",
        *("--records=64", "--files=2", "--image_size=16", "--batch_size=8", "--turns=1", "--batches=1"),
        f"--results={results}",
    )
    assert outcome.returncode == 0, outcome.stderr
    stored = json.loads(results.read_text())
    assert all(speed > 0 for speed in stored["median"].values()) and len(stored["median"]) == 4
    assert set(stored["seconds_to_first_batch"]) == {"start", "middle_of_epoch"}


def test_a_folder_without_pictures_is_told(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(os.path.join(ROOT, "benchmarks"))
    import pictures

    with pytest.raises(ValueError, match="holds no JPEG"):
        pictures.read(str(tmp_path))
