"""The lock of a prepared folder, and the fingerprint of what it was prepared from."""

import json

import pytest

from tfbigbatch.data.records import prepared_folder
from tfbigbatch.errors import InputError, Preempted


def fingerprint(source="/data/set", seed=0, rows=(("a.jpg", 3), ("b.jpg", 4))):
    return prepared_folder.fingerprint(source, "images", {"seed": seed}, ["cat", "dog"], rows)


def test_one_command_at_a_time_and_the_lock_ends_with_the_command(tmp_path):
    folder = str(tmp_path / "out")
    for _ in range(2):
        with prepared_folder.lock(folder) as work:
            assert work == str(tmp_path / "out" / prepared_folder.PROGRESS)
            with pytest.raises(ValueError, match="Another command is preparing --output_dir=.*out. Wait for it"):
                with prepared_folder.lock(folder):
                    pass
    with pytest.raises(KeyError):
        with prepared_folder.lock(folder):
            raise KeyError
    with prepared_folder.lock(folder):
        pass


def test_a_folder_that_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="--output_dir=.*file/out cannot be written: Not a directory"):
        with prepared_folder.lock(str(tmp_path / "file" / "out")):
            pass


def test_the_fingerprint_is_of_the_content_and_not_of_where_it_lies():
    assert fingerprint() == fingerprint("/elsewhere/set") == fingerprint("/data/set/")
    digests = {fingerprint(seed=seed, rows=rows)["digest"] for seed in (0, 1) for rows in ((), (("a.jpg", 4),))}
    assert len(digests) == 4 and fingerprint()["source"] == "set"
    # Folders that earlier versions began have this digest, and resume.
    assert fingerprint()["digest"].startswith("b7263a26685a")


def test_a_claimed_folder_is_of_one_fingerprint_unless_overwritten(tmp_path):
    folder, writes = str(tmp_path), [str(tmp_path / "manifest.json")]
    with prepared_folder.lock(folder) as work:
        prepared_folder.claim(folder, fingerprint(), writes, overwrite=False)
        (tmp_path / "manifest.json").write_text("{}")
        prepared_folder.claim(folder, fingerprint(), writes, overwrite=False)
        with pytest.raises(ValueError, match=r"prepared with other options \(seed 0, now 1\).*--overwrite"):
            prepared_folder.claim(folder, fingerprint(seed=1), writes, overwrite=False)
        assert (tmp_path / "manifest.json").exists()
        prepared_folder.claim(folder, fingerprint(seed=1), writes, overwrite=True)
        assert not (tmp_path / "manifest.json").exists()
        with open(f"{work}/plan.json", encoding="utf-8") as file:
            assert json.load(file) == fingerprint(seed=1)


def begin(folder, seed, *, shards=(), error=None):
    """A command that claims a folder, writes shards and ends, with an error where one is given."""
    with prepared_folder.lock(str(folder)) as work:
        prepared_folder.claim(str(folder), fingerprint(seed=seed), [str(folder / "manifest.json")], overwrite=False)
        for shard in shards:
            (folder / shard).write_text("records")
            (folder / ".progress" / f"{shard}.json").write_text("{}")
        if error:
            raise error
        return work


def test_a_command_that_failed_leaves_the_folder_to_a_corrected_one(tmp_path):
    with pytest.raises(InputError):
        begin(tmp_path, 0, shards=["train-0"], error=InputError("no pair is left"))
    begin(tmp_path, 1)
    # Nothing of the first is left, and the third is refused nothing: the second wrote no shard.
    assert not (tmp_path / "train-0").exists()
    begin(tmp_path, 2, shards=["train-0"])
    with pytest.raises(InputError, match="seed 2, now 3"):
        begin(tmp_path, 3)
    # The refused one has not marked the folder.
    with pytest.raises(InputError, match="seed 2, now 3"):
        begin(tmp_path, 3)
    assert (tmp_path / "train-0").exists()


def test_a_command_that_was_stopped_keeps_its_shards(tmp_path):
    with pytest.raises(Preempted):
        begin(tmp_path, 0, shards=["train-0"], error=Preempted())
    with pytest.raises(InputError, match="seed 0, now 1"):
        begin(tmp_path, 1)
    begin(tmp_path, 0)
    assert (tmp_path / "train-0").exists()


def test_a_finished_dataset_is_kept_whatever_failed_after_it(tmp_path):
    begin(tmp_path, 0, shards=["train-0"])
    (tmp_path / "manifest.json").write_text("{}")
    with pytest.raises(KeyError):
        begin(tmp_path, 0, error=KeyError())
    with pytest.raises(InputError, match="seed 0, now 1"):
        begin(tmp_path, 1)
