import bz2
import gzip
import json

import pytest

from tfbigbatch.data.bert.prepare import corpus
from tfbigbatch.data.records.preparation import HIDDEN

WIKITEXT = """ \n = Cats = \n \n Cats sleep . They eat = fish = here . \n = not a heading = \n
 = = Food = = \n \n Fish . \n \n = Dogs ( pet ) = \n \n Dogs run . \n"""
PLAIN = "\n\nOne.\nTwo.\n \n\u3000\nThree.\r\n\n"


def read(folder, text, name="text.txt"):
    """The sentences of each document of a file."""
    path = folder / name
    opened = {"gz": gzip.open, "bz2": bz2.open}.get(name.rpartition(".")[2], open)
    with opened(path, "wb") as file:
        file.write(text.encode() if isinstance(text, str) else text)
    scanned = corpus.scan(str(path), lambda: None)
    found = corpus.documents({str(path): scanned})
    texts = (corpus.sentences(layout, content) for content, layout, _ in found.texts())
    return scanned[0], [[line.strip() for line in lines if line.strip()] for lines in texts]


@pytest.mark.parametrize("name", ["text.txt", "text.txt.gz", "text.txt.bz2"])
def test_blank_lines_part_documents(tmp_path, name):
    assert read(tmp_path, PLAIN, name) == ("plain", [["One.", "Two."], ["Three."]])


def test_wikitext_begins_a_document_at_each_heading_of_the_first_level(tmp_path):
    name, found = read(tmp_path, WIKITEXT)
    assert name == "wikitext"
    assert found == [["Cats sleep .", "They eat = fish = here .", "Fish ."], ["Dogs run ."]]


def test_json_lines_have_a_text_each_and_other_forms_are_refused(tmp_path):
    lines = [json.dumps({"title": "x", "text": text}) for text in ("One. Two.\nThree.", "Four.")]
    assert read(tmp_path, "\n".join(lines), "a.jsonl") == ("json", [["One.", "Two.", "Three."], ["Four."]])
    with pytest.raises(ValueError, match="a.jsonl: A line of JSON has no 'text'"):
        read(tmp_path, '{"title": "x"}\n', "a.jsonl")
    for array in ('[{"text": "One."}]', '[\n{"text": "One."}\n]\n'):
        with pytest.raises(ValueError, match="a.json: It is one array of JSON; expected a line for each document"):
            read(tmp_path, array, "a.json")
    with pytest.raises(ValueError, match="wiki_00: It holds <doc> blocks; expected JSON lines.*--json"):
        read(tmp_path, '<doc id="1">\nA\n</doc>\n', "wiki_00")
    assert read(tmp_path, "[1] a note\n")[0] == "plain"
    # Half of a character, as JSON may escape it.
    assert read(tmp_path, '{"text": "fun \\ud83d x"}\n', "a.jsonl")[1] == [["fun \ufffd x"]]


def test_bytes_that_are_not_utf8_are_left_out_and_told(tmp_path):
    path = tmp_path / "text.txt"
    path.write_bytes(b"caf\xe9 x\n\nfine\n")
    found = corpus.documents({str(path): corpus.scan(str(path), lambda: None)}).texts()
    assert [(text, whole) for text, _, whole in found] == [("caf x\n", False), ("fine\n", True)]


def test_a_folder_gives_its_texts_in_order(tmp_path):
    junk = ("__MACOSX/AA/._wiki_01", "._b.txt", ".git/x.txt")
    for name in ("b.txt", "AA/wiki_01", "AA/wiki_00.bz2", "notes.md", "c.txt.gz", "picture.jpg", *junk):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    empty = tmp_path / "empty"
    empty.mkdir()
    names, _, unused = corpus.find(str(tmp_path))
    assert names == ["AA/wiki_00.bz2", "AA/wiki_01", "b.txt", "c.txt.gz"]
    assert unused == {HIDDEN: 3, "not a text by name (.txt, .tokens, .jsonl, ...)": 2}
    with pytest.raises(ValueError, match="holds no such file. Understood is"):
        corpus.find(str(empty))
    with pytest.raises(ValueError, match="does not exist"):
        corpus.find(str(tmp_path / "nowhere"))


@pytest.mark.parametrize(
    "paragraph, expected",
    [
        ("One. Two! Three? four", ["One.", "Two!", "Three? four"]),
        ('"Stop!" he said. She did.', ['"Stop!" he said.', "She did."]),
        (
            "Dr. No met J. R. R. Smith of the U.S. Army. Then (in 3.5 h) he left.",
            ["Dr. No met J. R. R. Smith of the U.S. Army.", "Then (in 3.5 h) he left."],
        ),
        ('He left . It rained ! " Why ? " She asked .', ["He left .", 'It rained ! "', 'Why ? "', "She asked ."]),
        ("No end", ["No end"]),
        ("", []),
    ],
)
def test_a_paragraph_is_cut_into_sentences(paragraph, expected):
    found = corpus.sentences("wikitext", paragraph)
    assert [sentence.strip() for sentence in found] == expected and "".join(found) == paragraph
