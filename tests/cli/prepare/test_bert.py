from tests.helpers.datasets import bert_sets
from tests.helpers.preloaded import tfbigbatch
from tfbigbatch.data.bert import manifest as bert_manifest

COMMAND = "prepare-bert"


def arguments_of(tmp_path, count=60):
    (tmp_path / "text").mkdir()
    for part in range(3):
        (tmp_path / "text" / f"{part}.txt").write_text(bert_sets.plain(count, first=part * count))
    vocabulary = bert_sets.write_vocabulary(tmp_path)
    return [COMMAND, f"--source={tmp_path}/text", f"--output_dir={tmp_path}/out", f"--vocab_file={vocabulary}"]


def test_it_prepares_says_so_and_does_not_repeat(tmp_path):
    arguments = [*arguments_of(tmp_path), "--max_seq_length=32", "--max_predictions_per_seq=5", "--processes=2"]
    arguments += ["--validation_fraction=0.1"]
    (tmp_path / "text" / "notes.md").write_text("not a text")
    first = tfbigbatch(*arguments)
    assert first.returncode == 0, first.stderr
    assert "source, files: 4 read, 3 used; left out: 1 not a text by name" in first.stdout
    assert "train, documents: 162 read, 162 used\n" in first.stdout and "% padding" in first.stdout
    assert "plain: 180 documents in 3 files, 0." in first.stdout and "MB; 2 shards" in first.stdout
    assert "out is prepared:" in first.stdout
    again = tfbigbatch(*arguments)
    assert again.returncode == 0 and "holds this already" in again.stdout
    other = tfbigbatch(*arguments, "--seed=3")
    assert other.returncode == 1 and "Choose another folder" in other.stderr and "Traceback" not in other.stderr
    assert bert_manifest.load(f"{tmp_path}/out").max_seq_length == 32


def test_wrong_flags_are_explained(tmp_path):
    both = tfbigbatch(COMMAND, f"--source={tmp_path}", f"--output_dir={tmp_path}/../out")
    assert both.returncode == 1 and "Give either --vocab_file=FILE or --train_vocab_size=NUMBER" in both.stderr
