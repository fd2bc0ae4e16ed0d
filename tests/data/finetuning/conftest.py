import pytest

from tests.helpers.datasets import made_vocabulary


@pytest.fixture
def tokenizer(tmp_path):
    """Of letters, digits and signs, and of some words."""
    return made_vocabulary.tokenizer(tmp_path / "vocab.txt", ["the", "broncos", "japanese", "wo", "##n"])
