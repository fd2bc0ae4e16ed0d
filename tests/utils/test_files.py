"""Atomic writes, and JSON files from elsewhere."""

import pytest

from tfbigbatch.utils import files


def test_the_content_comes_back(tmp_path):
    path = tmp_path / "a.json"
    path.write_text('{"é": [1]}', encoding="utf-8")
    assert files.read_json(str(path)) == files.read_json_dictionary(str(path)) == {"é": [1]}


@pytest.mark.parametrize(
    "content, said",
    [
        (b"{", "a.json is not JSON in UTF-8"),
        (b'"\xff"', "a.json is not JSON in UTF-8"),
        (b"[]", "a.json holds a list; expected a dictionary"),
        (None, "a.json cannot be read: No such file"),
    ],
)
def test_another_file_is_named(tmp_path, content, said):
    path = tmp_path / "a.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ValueError, match=said):
        files.read_json_dictionary(str(path))


def test_a_file_is_written_whole_or_stays_as_it_was(tmp_path):
    path = tmp_path / "file"
    files.atomic_write(path, lambda file: file.write(b"first"))
    assert path.read_bytes() == b"first"

    def half(file):
        file.write(b"hal")
        raise RuntimeError("interrupted")

    with pytest.raises(RuntimeError, match="interrupted"):
        files.atomic_write(path, half)
    assert path.read_bytes() == b"first"
