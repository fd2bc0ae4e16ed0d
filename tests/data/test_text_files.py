"""Texts are UTF-8 with or without a mark; every reader of texts for training takes them so."""

import gzip
import io

import pytest

from tests.helpers.datasets import bert_sets, made_squad, translation_sets
from tfbigbatch.data import text_files
from tfbigbatch.data.bert.prepare import corpus as bert_corpus
from tfbigbatch.data.finetuning import glue, squad
from tfbigbatch.data.images.prepare import layouts
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


class TestEveryReader:
    """The same with a mark as without one, and UTF-16 refused."""

    def check(self, read, content):
        assert read(MARK + content) == read(content)
        with pytest.raises(ValueError, match="UTF-16"):
            read(content.decode().encode("utf-16"))

    @pytest.mark.parametrize(
        "layout, text",
        [
            ("plain", "One.\n\nTwo.\n"),
            ("wikitext", " = Cats = \n \n Cats . \n \n = Dogs = \n \n Dogs . \n"),
            ("json", '{"text": "Cats."}\n{"text": "Dogs."}\n'),
        ],
    )
    def test_bert_corpora(self, tmp_path, layout, text):
        def read(content):
            path = written(tmp_path / "t.txt.gz", gzip.compress(content))
            scanned = bert_corpus.scan(path, lambda: None)
            found = list(bert_corpus.documents({path: scanned}).texts())
            assert (scanned[0], len(found)) == (layout, 2)
            return [(text, whole) for text, _, whole in found]

        self.check(read, text.encode())

    def test_language_model_texts(self, tmp_path):
        def read(content):
            paths = {split: written(tmp_path / split, content) for split in corpus.SPLITS}
            corpus.prepare(paths, str(tmp_path / "out"), overwrite=True)
            return corpus.load(str(tmp_path / "out")).vocabulary

        self.check(read, TEXT.encode())

    @pytest.mark.parametrize("packed", [False, True])
    def test_parallel_texts(self, tmp_path, packed, monkeypatch):
        monkeypatch.setattr(prepare, "GRAIN", 1)

        def read(content):
            path = translation_sets.write(tmp_path, "t", content, packed)
            scan, copied = prepare.scan(path, lambda: None), io.BytesIO()
            prepare._copy([path], copied)
            by_grain = [line for offset in scan.offsets for line in text_files.lines(path, int(offset), count=1)]
            assert by_grain == list(text_files.lines(path)) == TEXT.splitlines(keepends=True)
            return by_grain, copied.getvalue(), scan.lines

        self.check(read, TEXT.encode())

    def test_vocabularies(self, tmp_path):
        content = "".join(f"{token}\n" for token in bert_sets.TOKENS).encode()
        self.check(lambda content: Vocabulary.load(written(tmp_path / "v", content)).tokens, content)

    def test_classes_of_images(self, tmp_path):
        self.check(lambda content: layouts.text_of(written(tmp_path / "l", content)), b"n01440764 tench\n")

    def test_glue(self, tmp_path):
        (tmp_path / "RTE").mkdir()

        def read(content):
            written(tmp_path / "RTE" / "dev.tsv", content)
            return glue.read(str(tmp_path), "RTE", "dev")

        self.check(read, b"index\tsentence1\tsentence2\tlabel\n0\ta\tb\tentailment\n")

    def test_squad(self, tmp_path):
        with open(made_squad.write(tmp_path / "made.json"), "rb") as file:
            content = file.read()
        path = tmp_path / "squad.json"
        assert squad.read(written(path, MARK + content)) == squad.read(written(path, content))
        with pytest.raises(ValueError, match="is not JSON in UTF-8"):
            squad.read(written(path, content.decode().encode("utf-16")))
