import pytest

from tfbigbatch.data.whole_file import replace


def test_a_file_is_written_whole_or_stays_as_it_was(tmp_path):
    path = tmp_path / "file"
    replace(path, lambda file: file.write(b"first"))
    assert path.read_bytes() == b"first"

    def half(file):
        file.write(b"hal")
        raise RuntimeError("interrupted")

    with pytest.raises(RuntimeError, match="interrupted"):
        replace(path, half)
    assert path.read_bytes() == b"first"
