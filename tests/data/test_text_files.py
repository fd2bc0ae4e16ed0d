"""Texts are UTF-8 with or without a mark; every reader of texts for training takes them so."""

import gzip
import io
import json
import tempfile

import pytest

from tests.helpers.datasets import bert_sets, translation_sets
from tfbigbatch.data import text_files
from tfbigbatch.data.bert.prepare import corpus as bert_corpus
from tfbigbatch.data.finetuning import glue, squad
from tfbigbatch.data.language_model import corpus
from tfbigbatch.data.tokenizer import Vocabulary
from tfbigbatch.data.translation import prepare

MARK = b"\xef\xbb\xbf"
TEXT = "one two\nthree\n"
WIDE = ("utf-16", "utf-16le", "utf-16be", "utf-32", "utf-32le", "utf-32be")


def written(path, content):
    path.write_bytes(content)
    return str(path)


@pytest.mark.parametrize("encoding", WIDE)
def test_utf_16_and_32_are_refused_with_what_to_do(encoding):
    content, said = TEXT.encode(encoding), "made is UTF-16 or UTF-32; expected UTF-8. Convert the text: iconv -f utf-16"
    with pytest.raises(ValueError, match=said):
        text_files.skip_mark(io.BytesIO(content), "made")
    with pytest.raises(ValueError, match=said):
        text_files.decoded(content, "made")


def test_a_mark_is_skipped_once_and_only_at_the_beginning():
    file = io.BytesIO(MARK + TEXT.encode())
    assert text_files.skip_mark(file, "made") == 3 and file.read() == TEXT.encode()
    assert text_files.skip_mark(io.BytesIO(TEXT.encode()), "made") == 0
    assert text_files.decoded(MARK + MARK + b"a", "made") == "\ufeffa" and text_files.decoded(b"", "made") == ""
    with pytest.raises(ValueError, match=r"made is not UTF-8 \(invalid start byte, byte 1 of the file\)"):
        text_files.decoded(b"a\xfcb", "made")


def read_bert_corpus(folder, content):
    path = written(folder / "t.txt.gz", gzip.compress(content))
    found = bert_corpus.documents({path: bert_corpus.scan(path, lambda: None)})
    assert len(found) == 2
    return found.layouts, list(found.texts())


def read_corpus_of_words(folder, content):
    paths = {split: written(folder / split, content) for split in corpus.SPLITS}
    out = tempfile.mkdtemp(dir=folder)
    corpus.prepare(paths, out)
    return corpus.load(out).vocabulary


def read_parallel_text(folder, content):
    path = translation_sets.write(folder, "t", content, packed=True)
    scan, copied = prepare.scan(path, lambda: None), io.BytesIO()
    prepare._copy([path], copied)
    by_grain = [line for offset in scan.offsets for line in text_files.lines(path, int(offset), count=1)]
    assert by_grain == list(text_files.lines(path)) == TEXT.splitlines(keepends=True)
    return by_grain, copied.getvalue(), scan.lines


def read_glue(folder, content):
    (folder / "RTE").mkdir(exist_ok=True)
    written(folder / "RTE" / "dev.tsv", content)
    return glue.read(str(folder), "RTE", "dev")


SQUAD = {"data": [{"paragraphs": [{"context": "x", "qas": [{"id": "a", "question": "b"}]}]}]}
READERS = {
    "pretraining": (read_bert_corpus, '{"text": "Cats."}\n{"text": "Dogs."}\n'),
    "words": (read_corpus_of_words, TEXT),
    "parallel": (read_parallel_text, TEXT),
    "vocabulary": (
        lambda folder, content: Vocabulary.load(written(folder / "v", content)).tokens,
        "".join(f"{token}\n" for token in bert_sets.TOKENS),
    ),
    "glue": (read_glue, "index\tsentence1\tsentence2\tlabel\n0\ta\tb\tentailment\n"),
    "squad": (lambda folder, content: squad.read(written(folder / "squad.json", content)), json.dumps(SQUAD)),
}


@pytest.mark.parametrize("name", READERS)
def test_every_reader_reads_the_same_with_a_mark_as_without_one_and_refuses_utf16(tmp_path, monkeypatch, name):
    monkeypatch.setattr(prepare, "GRAIN", 1)
    read, text = READERS[name]
    assert read(tmp_path, MARK + text.encode()) == read(tmp_path, text.encode())
    with pytest.raises(ValueError, match="UTF-16|is not JSON in UTF-8"):
        read(tmp_path, text.encode("utf-16"))
