import pytest

from tfbigbatch.utils.files import atomic_write


def test_a_file_is_written_whole_or_stays_as_it_was(tmp_path):
    path = tmp_path / "file"
    atomic_write(path, lambda file: file.write(b"first"))
    assert path.read_bytes() == b"first"

    def half(file):
        file.write(b"hal")
        raise RuntimeError("interrupted")

    with pytest.raises(RuntimeError, match="interrupted"):
        atomic_write(path, half)
    assert path.read_bytes() == b"first"
