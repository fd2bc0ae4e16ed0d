import os
import signal
import subprocess
import sys
import time

from tests.helpers.datasets.image_sets import BAD, CLASSES, encoded, files_of, picture, write_folder
from tests.helpers.preloaded import ROOT, tfbigbatch
from tfbigbatch.data.images import manifest as image_manifest

COMMAND = "prepare-imagenet"


def test_it_prepares_says_so_and_does_not_repeat(tmp_path):
    bad, png = f"train/{CLASSES[0]}/bad.jpg", f"val/{CLASSES[0]}/png.jpg"
    large = {f"train/{CLASSES[1]}/large.jpg": encoded(picture(size=(90, 60)))}
    files = {
        **files_of("train", 10),
        **files_of("val", 2),
        **large,
        bad: BAD,
        png: encoded(kind="PNG"),
        "train/notes.txt": b"",
    }
    source = write_folder(tmp_path / "set", files)
    arguments = [COMMAND, f"--source={source}", f"--output_dir={tmp_path}/out", "--processes=2"]
    arguments += ["--max_side=40", "--quality=75"]
    failed = tfbigbatch(*arguments)
    assert failed.returncode == 1 and "1 of 39 images cannot be used" in failed.stderr and bad in failed.stderr
    first = tfbigbatch(*arguments, "--max_bad_fraction=0.1")
    assert first.returncode == 0, first.stderr
    assert (
        "train/, val/ by class: 3 classes, 32 train images in 1 shards, 7 validation images in 1 shard" in first.stdout
    )
    for said in (
        f"left out  {bad}: ",
        f"fixed     1 images, such as {png}: PNG",
        "not used  1 files, such as train/notes.txt: ",
        "prepared:",
        "1 images made smaller: 40 pixels",
    ):
        assert said in first.stdout
    accounts = first.stdout.splitlines()[-3:]
    assert accounts[0] == "train, images: 32 read, 31 used; left out: 1 cannot be decoded"
    assert accounts[1] == "validation, images: 7 read, 7 used"
    assert accounts[2].startswith("others, files: 1 read, 0 used; left out: 1 not an image by name")
    again = tfbigbatch(*arguments, "--max_bad_fraction=0.1")
    assert again.returncode == 0 and "holds these images already" in again.stdout
    other = tfbigbatch(*arguments, "--max_bad_fraction=0.1", "--seed=3")
    assert other.returncode == 1 and "Choose another folder" in other.stderr
    assert image_manifest.load(f"{tmp_path}/out").splits["train"].examples == 31


def test_wrong_flags_are_explained(tmp_path):
    source = tfbigbatch(COMMAND, f"--source={tmp_path}/nowhere", f"--output_dir={tmp_path}/out")
    assert source.returncode == 1 and "nowhere is no folder. Understood are" in source.stderr


def test_workers_stop_with_the_command_and_it_goes_on_from_there(tmp_path):
    source = write_folder(tmp_path / "set", files_of("train", 700))
    arguments = [COMMAND, f"--source={source}", f"--output_dir={tmp_path}/out", "--processes=2"]
    code = (
        "import runpy; from tfbigbatch.data.images.prepare import prepare; "
        "prepare._FEWEST, prepare._IMAGES_EACH = 40, 5; "
        "runpy.run_module('tfbigbatch', run_name='__main__', alter_sys=True)"
    )
    command = [sys.executable, "-c", code, *arguments]
    finished = tmp_path / "out" / ".progress" / "train-00002-of-00040.json"
    for number, code in ((signal.SIGTERM, 42), (signal.SIGKILL, -signal.SIGKILL)):
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        while not finished.exists() and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(number)
        said = process.communicate(timeout=120)[0]
        assert process.returncode == code, said
        # The pipe closed, so no worker is left that held it; what it was at is not there under its name.
        shards = set((tmp_path / "out").glob("train-*"))
        records = {path.name.removesuffix(".json") for path in finished.parent.glob("train-*.json")}
        assert 0 < len(records) <= len(shards) < 40 and records <= {path.name for path in shards}
        assert not os.path.exists(tmp_path / "out" / "manifest.json")
        finished = tmp_path / "out" / ".progress" / "train-00006-of-00040.json"
    subprocess.run(command, cwd=ROOT, check=True)
    manifest = image_manifest.load(f"{tmp_path}/out")
    assert [split.examples for split in manifest.splits.values()] == [1890, 210]
