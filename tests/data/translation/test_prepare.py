"""From parallel texts to a prepared folder, and what its records hold."""

import numpy as np
import pytest
import tensorflow as tf

from tests.helpers.datasets.compared import digests
from tests.helpers.datasets.translation_sets import pair, prepared, sentence, write
from tfbigbatch.data.records import tfrecord
from tfbigbatch.data.translation import manifest as translation_manifest
from tfbigbatch.data.translation import prepare

pytest.importorskip("sentencepiece")


def pairs_of(folder, split="train"):
    """(source, target) of each record, as text; by TensorFlow."""
    manifest = translation_manifest.load(folder)
    for path in manifest.splits[split].files:
        for record in tf.data.TFRecordDataset(path).as_numpy_iterator():
            features = tf.train.Example.FromString(record).features.feature
            sides = []
            for side in ("source", "target"):
                ids = np.frombuffer(features[side].bytes_list.value[0], "<u2")
                assert features[f"{side}_length"].int64_list.value == [len(ids)]
                sides.append(manifest.vocabulary.text(ids))
            yield tuple(sides)


def expected(first, count):
    return [(sentence(number, 0), sentence(number, 1)) for number in range(first, first + count)]


def test_records_hold_the_pairs_as_they_are(tmp_path, monkeypatch):
    monkeypatch.setattr(prepare, "GRAIN", 7)
    monkeypatch.setattr(prepare, "_FEWEST", 3)
    train = [pair(tmp_path, "a", 40), pair(tmp_path, "b", 25, first=40, packed=True)]
    tests = [pair(tmp_path, "c", 10, first=70), pair(tmp_path, "d", 5, first=80)]
    validation = [pair(tmp_path, "e", 5, first=85), pair(tmp_path, "f", 4, first=90)]
    folder, content, already = prepared(tmp_path, train, validation, tests)
    assert not already and set(content["counts"]) == {"train", "validation", "test", "test_2"}
    assert list(pairs_of(folder)) == expected(0, 65)
    assert list(pairs_of(folder, "validation")) == expected(85, 5) + expected(90, 4)
    assert list(pairs_of(folder, "test_2")) == expected(80, 5)
    manifest = translation_manifest.load(folder)
    assert manifest.texts("test") == tuple(map(list, zip(*expected(70, 10))))
    assert len(manifest.vocabulary) == content["vocabulary_size"] == 340 and manifest.id_type == np.uint16
    for name, split in manifest.splits.items():
        assert split.examples == len(manifest.lengths[name]) == content["counts"][name]["pairs"]
        offsets = np.concatenate([tfrecord.offsets(path) for path in split.files])
        np.testing.assert_array_equal(split.offsets, offsets)
    counts = content["counts"]["train"]
    ids = [[len(side) for side in manifest.vocabulary.ids(list(one))] for one in expected(0, 65)]
    np.testing.assert_array_equal(manifest.lengths["train"], ids)
    assert [counts["source_pieces"], counts["target_pieces"]] == np.sum(ids, axis=0).tolist()
    assert len(manifest.splits["train"].files) == 6


def test_pairs_that_cannot_be_trained_on_are_left_out_and_counted(tmp_path):
    lines = [expected(0, 100), [("", "der Hund."), (" \u00a0", ""), ("the dog", "\t"), ("tree " * 60, "Baum " * 9)]]
    lines += [[("is", "Haus " * 40), ("  the \t dog\u2028runs ", "läuft\r")]]
    train = [
        tuple(
            write(tmp_path, name, [one[side] for some in lines for one in some]) for side, name in ((0, "s"), (1, "t"))
        )
    ]
    held = [tuple(write(tmp_path, f"held.{side}", ["the dog.", "", "tree " * 30, "ж 漢"]) for side in range(2))]
    folder, content, _ = prepared(tmp_path, train, test=held, max_length=50, max_eval_length=20)
    counts = content["counts"]["train"]
    found = [counts[name] for name in ("lines", "pairs", "empty", "too_long", "extreme_ratio", "cut")]
    assert found == [106, 101, 3, 1, 1, 0]
    kept = list(pairs_of(folder))
    assert kept[-1] == ("the dog runs", "läuft") and kept[:-1] == expected(0, 100)
    # A test set keeps what it has, but for the ends of long sentences; its texts stay as they came.
    assert list(pairs_of(folder, "test")) == [(line, line) for line in ("the dog.", "", ("tree " * 20).strip(), "ж 漢")]
    assert translation_manifest.load(folder).texts("test")[1] == ["the dog.", "", "tree " * 30, "ж 漢"]
    counts = content["counts"]["test"]
    assert [counts["pairs"], counts["empty"], counts["cut"]] == [4, 0, 2]


def test_the_files_are_the_same_for_any_number_of_processes(tmp_path, monkeypatch):
    train = [pair(tmp_path, "a", 2500)]
    one, *_ = prepared(tmp_path, train, test=train[:1], name="one")
    two, *_ = prepared(tmp_path, train, test=train[:1], name="two", processes=2)
    assert digests(one) == digests(two) and len(digests(one)) == 3 + 3 + 2 + 4 + 2 + 1


def test_a_finished_command_does_nothing_but_put_back_a_text_that_was_lost(tmp_path):
    train, test = [pair(tmp_path, "a", 120)], [pair(tmp_path, "b", 9, first=200)]
    folder, content, already = prepared(tmp_path, train, test=test)
    before = digests(folder)
    assert not already and prepared(tmp_path, train, test=test) == (folder, content, True)
    (tmp_path / "out" / "test.reference.txt").unlink()
    assert not prepared(tmp_path, train, test=test)[2] and digests(folder) == before
    with pytest.raises(ValueError, match=r"or with the options .*'max_length': 50.*Choose another folder"):
        prepared(tmp_path, train, test=test, max_length=40)


def test_a_vocabulary_is_given(tmp_path):
    first, content, _ = prepared(tmp_path, [pair(tmp_path, "a", 100)], name="first")
    options = {"vocabulary": f"{first}/vocabulary.model"}
    folder, other, _ = prepared(tmp_path, [pair(tmp_path, "b", 20, first=300)], **options)
    assert other["vocabulary_sha256"] == content["vocabulary_sha256"] and other["counts"]["train"]["pairs"] == 20
    with pytest.raises(ValueError, match="a.0 is not a sentencepiece model"):
        prepared(tmp_path, [pair(tmp_path, "a", 9)], vocabulary=str(tmp_path / "a.0"))


BAD = {
    "are not parallel": ([b"a\nb\n", b"a\n"], r"s has 2 lines, \S*t has 1: they are not parallel"),
    "empty": ([b"a\n", b""], "t is empty. Expected a text with a sentence a line"),
    "not UTF-8": ([b"a\nb\n", b"a\nb\xfc\n"], r"t, line 2, is not UTF-8 \(invalid start byte, byte 1 of the line\)"),
    "left out": ([b"\n\n", b"a\nb\n"], "Every training pair was left out"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_texts_are_told_with_file_and_line(tmp_path, case):
    (source, target), said = BAD[case]
    bad = (write(tmp_path, "s", source), write(tmp_path, "t", target))
    good = pair(tmp_path, "a", 100)
    model = f"{prepared(tmp_path, [good], name='model')[0]}/vocabulary.model"
    with pytest.raises(ValueError, match=said):
        prepared(tmp_path, [bad], vocabulary=model)
    if case != "left out":
        with pytest.raises(ValueError, match=said):
            prepared(tmp_path, [good], test=[bad], vocabulary=model)
        # Put right, the text is prepared by the same command.
        for side in ("s", "t"):
            write(tmp_path, side, b"a\nb\n")
        prepared(tmp_path, [good], test=[bad], vocabulary=model)


def test_as_many_targets_as_sources_are_asked_for():
    with pytest.raises(ValueError, match="--source_files names 2 files, --target_files 1: expected a target for each"):
        prepare.splits_of((["a", "b"], ["c"]))
    with pytest.raises(ValueError, match="--test_source_files names 0 files, --test_target_files 1"):
        prepare.splits_of((["a"], ["c"]), test=([], ["c"]))
    with pytest.raises(ValueError, match="Give the training text: --source_files="):
        prepare.splits_of(([], []))
