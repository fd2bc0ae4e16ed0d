"""GLUE's files: small ones made here, and the real ones where they are at hand."""

import numpy as np
import pytest

from tests.helpers.datasets import real_data
from tfbigbatch.data.finetuning import glue, inputs
from tfbigbatch.tasks.scores import GLUE_TASKS as SCORED

# Rows of (train, dev, test).
SIZES = {
    "CoLA": (8551, 1043, 1063),
    "SST-2": (67349, 872, 1821),
    "MRPC": (3667, 408, 1725),
    "STS-B": (5749, 1500, 1379),
    "RTE": (2490, 277, 3000),
    "WNLI": (635, 71, 146),
}
ROWS = {(name, split): size for name, sizes in SIZES.items() for split, size in zip(("train", "dev", "test"), sizes)}
# Headers as the files that are handed out have them, and a row of each.
MADE = {
    ("CoLA", "train"): (None, 'gj04\t0\t*\tHe said "no.', ('He said "no.',), 0),
    ("CoLA", "test"): ("index\tsentence", "0\tb", ("b",), None),
    ("SST-2", "dev"): ("sentence\tlabel", "a b \t1", ("a b ",), 1),
    ("MRPC", "dev"): ("\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String", "1\t7\t8\ta\tb", ("a", "b"), 1),
    ("MRPC", "test"): ("\ufeffindex\t#1 ID\t#2 ID\t#1 String\t#2 String", "0\t7\t8\ta\tb", ("a", "b"), None),
    ("STS-B", "dev"): (
        "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore",
        "0\tg\tf\ty\t1\ts\ts\ta\tb\t3.800",
        ("a", "b"),
        3.8,
    ),
    ("QQP", "train"): ("id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate", "1\t2\t3\ta\tb\t0", ("a", "b"), 0),
    ("QQP", "test"): ("id\tquestion1\tquestion2", "1\ta\tb", ("a", "b"), None),
    ("MNLI", "train"): (
        "index\tpromptID\tpairID\tgenre\tsentence1_binary_parse\tsentence2_binary_parse\tsentence1_parse\t"
        "sentence2_parse\tsentence1\tsentence2\tlabel1\tgold_label",
        "0\t1\t2\tg\t(\t(\t(\t(\ta\tb\tentailment\tneutral",
        ("a", "b"),
        2,
    ),
    ("MNLI", "dev_mismatched"): (
        "index\tsentence1\tsentence2\tlabel1\tlabel2\tlabel3\tlabel4\tlabel5\tgold_label",
        "0\ta\tb\tneutral\tneutral\tneutral\tneutral\tneutral\tcontradiction",
        ("a", "b"),
        0,
    ),
    ("MNLI", "test_matched"): ("index\tsentence1\tsentence2", "0\ta\tb", ("a", "b"), None),
    ("QNLI", "train"): ("index\tquestion\tsentence\tlabel", "0\ta\tb\tnot_entailment", ("a", "b"), 1),
    ("RTE", "dev"): ("index\tsentence1\tsentence2\tlabel", "0\ta\tb\tentailment", ("a", "b"), 0),
    ("WNLI", "dev"): ("index\tsentence1\tsentence2\tlabel", "0\ta\tb\t1", ("a", "b"), 1),
}


def write(folder, name, split, *lines):
    (folder / name).mkdir(exist_ok=True)
    content = "".join(f"{line}\n" for line in lines if line is not None)
    (folder / name / f"{split}.tsv").write_text(content, encoding="utf-8", newline="\n")
    return str(folder)


@pytest.mark.parametrize("name, split", MADE)
def test_the_files_forms(tmp_path, name, split):
    header, row, texts, label = MADE[name, split]
    rows = glue.read(write(tmp_path, name, split, header, row, row), name, split)
    assert rows.texts == [texts] * 2 and rows.labels == (None if label is None else [label] * 2) and rows.bad == ()


def test_the_tasks_are_those_that_are_scored():
    assert set(glue.TASKS) == set(SCORED) == {name for name, _ in MADE}


def test_bad_rows_are_named_and_left_out(tmp_path, tokenizer, caplog):
    header, row, _, _ = MADE["QQP", "train"]
    # A carriage return within a text ends no row.
    good = [row, row.replace("a", "a\rc")] * 100
    bad = ["1\t2\t3\ta", "1\t2\t3\ta\tb\t2"]
    folder = write(tmp_path, "QQP", "train", header, *good, *bad)
    rows = glue.read(folder, "QQP", "train")
    assert len(rows.texts) == 200 and rows.texts[1] == ("a\rc", "b")
    assert rows.bad == ("line 202: 4 cells, expected 6", "line 203: label '2', expected 0 or 1")
    assert len(inputs.of_glue("QQP", "train", folder, tokenizer, max_seq_length=8)) == 200
    assert caplog.records[-1].getMessage().endswith("train.tsv: 2 of 202 rows left out")
    with pytest.raises(ValueError, match="2 of 100 rows are bad; line 100: 4 cells, expected 6; line 101: label '2'"):
        glue.read(write(tmp_path, "QQP", "train", header, *good[:98], *bad), "QQP", "train")
    header, row, _, _ = MADE["QQP", "test"]
    with pytest.raises(ValueError, match="1 of 201 rows are bad; line 202: 2 cells, expected 3"):
        glue.read(write(tmp_path, "QQP", "test", header, *[row] * 200, "1\ta"), "QQP", "test")


@pytest.mark.parametrize(
    "name, split, lines, said",
    [
        ("MRCP", "dev", [], "'MRCP' is not a task of GLUE. Did you mean 'MRPC'"),
        ("MNLI", "dev", [], "MNLI has no split 'dev'. Known: dev_matched, dev_mismatched, test_matched"),
        ("RTE", "dev", ["index\tsentence1\tsentence2", "0\ta\tb"], "lacks the column 'label'; expected sentence1"),
        ("RTE", "dev", [MADE["RTE", "dev"][0]], "holds no rows"),
        ("STS-B", "dev", [MADE["STS-B", "dev"][0], "0\tg\tf\ty\t1\ts\ts\ta\tb\t5.1"], "score '5.1', expected 0 to 5"),
        ("STS-B", "dev", [MADE["STS-B", "dev"][0], "0\tg\tf\ty\t1\ts\ts\ta\tb\tx"], "score 'x'"),
    ],
)
def test_what_cannot_be_read_is_refused(tmp_path, name, split, lines, said):
    folder = write(tmp_path, name, split, *lines)
    with pytest.raises(ValueError, match=said):
        glue.read(folder, name, split)
    with pytest.raises(ValueError, match="train.tsv cannot be read: No such file or directory"):
        glue.read(folder, "RTE", "train")


def test_arrays_of_pairs_and_of_single_texts(tmp_path, tokenizer):
    folder = write(tmp_path, "RTE", "train", MADE["RTE", "dev"][0], "0\ta\tb c\tentailment", "1\td\te\tnot_entailment")
    pairs = inputs.of_glue("RTE", "train", folder, tokenizer, max_seq_length=8)
    words = [
        " ".join(tokenizer.vocabulary.tokens[number] for number in row) for row in pairs.features["input_word_ids"]
    ]
    assert words == ["[CLS] a [SEP] b c [SEP] [PAD] [PAD]", "[CLS] d [SEP] e [SEP] [PAD] [PAD] [PAD]"]
    assert pairs.labels.tolist() == [0, 1] and pairs.labels.dtype == np.int32 and pairs.classes == 2
    single = inputs.of_glue("SST-2", "dev", write(tmp_path, "SST-2", "dev", *MADE["SST-2", "dev"][:2]), tokenizer)
    assert single.features["input_word_ids"].shape == (1, 128) and not single.features["input_type_ids"].any()


def test_similarities_are_floats_and_a_test_set_has_no_labels(tmp_path, tokenizer):
    made = write(tmp_path, "STS-B", "dev", *MADE["STS-B", "dev"][:2])
    scores = inputs.of_glue("STS-B", "dev", made, tokenizer)
    assert scores.labels.dtype == np.float32 and scores.labels[0] == np.float32(3.8) and scores.classes is None
    header, row = (line.rpartition("\t")[0] for line in MADE["STS-B", "dev"][:2])
    hidden = inputs.of_glue("STS-B", "test", write(tmp_path, "STS-B", "test", header, row), tokenizer)
    assert np.isnan(hidden.labels).all() and hidden.unlabelled == 1
    write(tmp_path, "CoLA", "test", *MADE["CoLA", "test"][:2])
    assert inputs.of_glue("CoLA", "test", str(tmp_path), tokenizer).labels.tolist() == [-1]


def test_the_real_files():
    folder = real_data.path("glue")
    for (name, split), count in ROWS.items():
        rows = glue.read(folder, name, split)
        assert len(rows.texts) == count and rows.bad == (), (name, split)
        assert (rows.labels is None) == (split == "test")
