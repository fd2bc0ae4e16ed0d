"""RACE's passages: small ones made here, and the real ones where they are at hand."""

import json

import numpy as np
import pytest

from tests.helpers.datasets import image_sets, real_data
from tfbigbatch.data.finetuning import inputs, race

PASSAGE = {
    "article": "a b c",
    "questions": ["d _ .", "e?"],
    "options": [["f", "g", "h", "\\1"], ["j", "k", "l", "m"]],
    "answers": ["D", "A"],
    "id": "high1.txt",
}
OTHER = {"article": "n", "questions": ["o"], "options": [["p", "q", "r", "s"]], "answers": ["B"], "id": "middle2.txt"}
FILES = {"high/1.txt": PASSAGE, "middle/2.txt": OTHER}


def write_tar(path, files, prefix="RACE/dev/"):
    """Writes a tar file of passages, dictionaries or bytes; gives its path."""
    members = {
        f"{prefix}{name}": passage if isinstance(passage, bytes) else json.dumps(passage).encode()
        for name, passage in files.items()
    }
    path.write_bytes(image_sets.tar_of(members, mode="w:gz"))
    return str(path)


def test_all_tar_files_hold_the_same_questions(tmp_path):
    junk = {"high/notes.md": b"", "high/._1.txt": b"\x00\x05", "../test/high/1.txt": PASSAGE}
    sources = [write_tar(tmp_path / "any_name.tgz", {**FILES, **junk})]
    for name, prefix in (("RACE.tar.gz", "RACE/dev/"), ("RACE-dev.tar.gz", "input/raw_data/RACE/dev/")):
        folder = tmp_path / name.split(".")[0]
        folder.mkdir()
        write_tar(folder / name, FILES, prefix)
        sources.append(str(folder))
    found = [race.read(source, "dev") for source in sources]
    assert all(questions == found[0] for questions in found)
    assert [question.id for question in found[0]] == ["middle/2-0", "high/1-0", "high/1-1"]
    assert [question.answer for question in found[0]] == [1, 3, 0]
    assert found[0][1].options == ("f", "g", "h", "\\1") and found[0][1].article == "a b c"


def test_four_choices_a_question(tmp_path, tokenizer):
    features, levels = inputs.of_race("dev", write_tar(tmp_path / "RACE.tar.gz", FILES), tokenizer, max_seq_length=10)
    ids = features.features["input_word_ids"]
    assert ids.shape == (3, 4, 10) and ids.dtype == np.int32 and features.tokens_per_example == 40
    words = [[" ".join(tokenizer.vocabulary.tokens[number] for number in row) for row in choices] for choices in ids]
    assert words[0][2] == "[CLS] n [SEP] o r [SEP]" + " [PAD]" * 4
    assert words[1][0] == "[CLS] a b c [SEP] d f . [SEP] [PAD]" and words[1][3] == "[CLS] a b c [SEP] d \\ 1 . [SEP]"
    assert words[2][0] == "[CLS] a b c [SEP] e ? j [SEP] [PAD]"
    np.testing.assert_array_equal(features.features["input_type_ids"][2, 0], [0] * 5 + [1] * 4 + [0])
    assert features.labels.tolist() == [1, 3, 0] and features.classes == 4
    assert levels.tolist() == ["middle", "high", "high"]


def test_a_level_and_a_part_of_the_questions(tmp_path, tokenizer):
    tar = write_tar(tmp_path / "RACE.tar.gz", FILES)

    def labels(**arguments):
        features, levels = inputs.of_race("dev", tar, tokenizer, max_seq_length=10, **arguments)
        return features.labels.tolist(), set(levels)

    assert labels(level="middle") == ([1], {"middle"})
    assert labels(level="high") == ([3, 0], {"high"})
    assert labels(questions=2) == ([1, 3], {"middle", "high"})
    assert labels(level="high", questions=1) == ([3], {"high"})
    with pytest.raises(ValueError, match="RACE has no level 'midle'. Did you mean 'middle'"):
        labels(level="midle")
    with pytest.raises(ValueError, match="3 questions of RACE, dev, high: there are 2. Give 0 for all, or fewer"):
        labels(level="high", questions=3)


@pytest.mark.parametrize(
    "passage, said",
    [
        (b"{", "dev/high/1.txt is not of RACE's form"),
        ({**PASSAGE, "answers": ["D"]}, "shorter than arguments 1-2"),
        ({**PASSAGE, "answers": ["D", "E"]}, "question 1 has 4 options and the answer 'E'"),
        ({**OTHER, "options": [["p", "q", "r"]]}, "question 0 has 3 options"),
    ],
)
def test_a_bad_passage_is_named(tmp_path, passage, said):
    tar = write_tar(tmp_path / "RACE.tar.gz", {"high/1.txt": passage})
    with pytest.raises(ValueError, match=said):
        race.read(tar, "dev")


def test_a_source_that_is_none_is_refused(tmp_path):
    with pytest.raises(ValueError, match="is neither RACE's tar file nor a folder with it. Expected RACE.tar.gz"):
        race.read(str(tmp_path), "dev")
    with pytest.raises(ValueError, match="--data_dir is missing. Expected RACE.tar.gz"):
        race.read(None, "dev")
    with pytest.raises(ValueError, match="RACE has no split 'valid'. Known: dev, test, train"):
        race.read(str(tmp_path), "valid")
    tar = write_tar(tmp_path / "RACE.tar.gz", FILES)
    with pytest.raises(ValueError, match="holds no passage of train"):
        race.read(tar, "train")
    content = (tmp_path / "RACE.tar.gz").read_bytes()
    for damaged in (content[: len(content) // 2], b"<html>", content[:40] + b"\0\0\0\0" + content[44:]):
        (tmp_path / "RACE.tar.gz").write_bytes(damaged)
        with pytest.raises(ValueError, match="cannot be read as a tar file"):
            race.read(tar, "dev")


@pytest.mark.parametrize("split, counts", [("dev", (1436, 3451)), ("test", (1436, 3498))])
def test_the_real_passages(split, counts):
    questions = race.read(real_data.path("race"), split)
    assert tuple(sum(question.level == level for question in questions) for level in ("middle", "high")) == counts
    assert len({question.id for question in questions}) == len(questions)
