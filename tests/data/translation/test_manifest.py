"""A prepared folder of pairs that is whole, or says what is wrong with it."""

import os

import numpy as np
import pytest

from tfbigbatch.data.translation import fake
from tfbigbatch.data.translation import manifest as translation_manifest

pytest.importorskip("sentencepiece")


@pytest.fixture
def folder(tmp_path):
    translation_manifest.save(str(tmp_path), fake.pairs(str(tmp_path)), {})
    return str(tmp_path)


def test_what_has_changed_is_told(folder):
    lengths = os.path.join(folder, "train.lengths.npy")
    np.save(lengths, np.load(lengths) + 1)
    with pytest.raises(ValueError, match="train.lengths.npy does not hold what was written"):
        translation_manifest.load(folder)
    os.remove(lengths)
    with pytest.raises(ValueError, match="train.lengths.npy cannot be read"):
        translation_manifest.load(folder)
    with open(os.path.join(folder, "vocabulary.model"), "ab") as file:
        # An unknown field: still a model, but another one.
        file.write(b"\xfa\x7f\x01x")
    with pytest.raises(ValueError, match="vocabulary.model is not the vocabulary that the text was prepared with"):
        translation_manifest.load(folder)


def test_texts_that_are_gone_or_of_another_length_are_told(folder):
    manifest, path = translation_manifest.load(folder), os.path.join(folder, "test.reference.txt")
    with open(path, "ab") as file:
        file.write("ein\x85Satz\u2028mehr\r\n".encode())
    with pytest.raises(ValueError, match="test.reference.txt has 21 lines; the set has 20 sentences"):
        manifest.texts("test")
    os.remove(path)
    with pytest.raises(ValueError, match="test.reference.txt cannot be read"):
        manifest.texts("test")
    with pytest.raises(ValueError, match="test.reference.txt: no such file"):
        translation_manifest.load(folder)
    with pytest.raises(ValueError, match="--data_dir is missing: give a folder of prepared pairs of sentences"):
        translation_manifest.load(None)
