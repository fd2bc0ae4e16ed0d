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


@pytest.mark.slow
def test_reduced_decoding_is_compared(source, tmp_path):
    results = tmp_path / "reduced.json"
    outcome = run("reduced_decoding.py", f"--source={source}", "--image_size=8,64", f"--results={results}")
    assert outcome.returncode == 0, outcome.stderr
    small, large = json.loads(results.read_text())["sizes"]
    assert large["reduced"] == 0 and large["milliseconds"] == {}
    # Pictures of one colour are the same at any size.
    assert 0 < small["reduced"] <= small["crops"] == 24
    assert all(difference <= 1.0 for difference in small["mean_absolute_difference"].values())


@pytest.mark.slow
def test_stored_sizes_are_compared(source, tmp_path):
    results = tmp_path / "stored.json"
    outcome = run(
        "stored_pictures.py",
        f"--source={source}",
        *("--stored=8:90,9999:90", "--records=16", "--files=2", "--image_size=8", "--batch_size=4"),
        *("--turns=1", "--batches=1", "--crops=1", f"--results={results}"),
    )
    assert outcome.returncode == 0, outcome.stderr
    figures = json.loads(results.read_text())["figures"]
    assert set(figures) == {"originals", "8:90", "9999:90"}
    assert figures["8:90"]["bytes"] < figures["originals"]["bytes"] == figures["9999:90"]["bytes"] == 1.0
    # The same bytes have the same pixels: no noise at all.
    assert figures["9999:90"]["psnr"]["training"] is None and (figures["8:90"]["psnr"]["validation"] or 99) > 20
    assert all(each["images_per_second_of_core"]["tfbigbatch_opencv"] > 0 for each in figures.values())
    refused = run("stored_pictures.py", f"--source={source}", "--stored=320")
    assert refused.returncode == 1 and "--stored=320: expected MAX_SIDE:QUALITY" in refused.stderr


@pytest.mark.slow
def test_stages_of_the_pipeline_are_timed(source, tmp_path):
    results = tmp_path / "stages.json"
    setting = "--records=64", "--files=2", "--image_size=8", "--batch_size=32"
    outcome = run("image_stages.py", f"--source={source}", *setting, "--turns=1", "--batches=2", f"--results={results}")
    assert outcome.returncode == 0, outcome.stderr
    stored = json.loads(results.read_text())
    assert stored["microseconds"]["tfbigbatch_opencv"] > 0 and "decode" in stored["added"]
    refused = run("image_stages.py", f"--source={source}", *setting, "--batches=3")
    assert refused.returncode == 1 and "expected whole windows of 64 records" in refused.stderr


@pytest.mark.slow
def test_decoders_are_compared(source, tmp_path):
    results = tmp_path / "decoders.json"
    outcome = run("image_decoders.py", f"--source={source}", "--image_size=8", "--turns=1", f"--results={results}")
    assert outcome.returncode == 0, outcome.stderr
    figures = json.loads(results.read_text())["figures"]
    assert figures["TensorFlow, as the pipeline"]["mean_absolute_difference"] == 0.0
    # Pictures of one colour are the same, resized by any library.
    assert figures["Pillow"]["milliseconds"] > 0 and figures["Pillow"]["mean_absolute_difference"] < 2


def test_a_folder_without_pictures_is_told(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(os.path.join(ROOT, "benchmarks"))
    import pictures

    with pytest.raises(ValueError, match="holds no JPEG"):
        pictures.read(str(tmp_path))
