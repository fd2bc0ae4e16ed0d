from tests.helpers.preloaded import tfbigbatch


def test_it_prepares_says_so_and_does_not_repeat(tmp_path):
    for split in ("train", "valid", "test"):
        (tmp_path / f"ptb.{split}.txt").write_text("one two\nthree\n" if split == "train" else "one four\n")
    arguments = ["prepare-ptb", f"--source={tmp_path}", f"--output_dir={tmp_path}/out"]
    first = tfbigbatch(*arguments)
    assert first.returncode == 0, first.stderr
    assert "is prepared" in first.stdout and "3 tokens, 1 made <unk>" in first.stdout
    again = tfbigbatch(*arguments)
    assert again.returncode == 0 and "holds this corpus already" in again.stdout
    (tmp_path / "ptb.test.txt").write_text("another\n")
    other = tfbigbatch(*arguments)
    assert other.returncode == 1 and "Choose another folder" in other.stderr
