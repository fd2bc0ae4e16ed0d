"""How often each piece is to be predicted, counted in prepared folders."""

import dataclasses

import numpy as np
import pytest

from tests.helpers.datasets import translation_sets
from tfbigbatch.data.translation import manifest as translation_manifest
from tfbigbatch.data.translation import target_counts
from tfbigbatch.data.translation.vocabulary import END

pytest.importorskip("sentencepiece")


def test_they_are_the_pieces_of_the_target_sentences_and_an_end_each(tmp_path):
    folder, *_ = translation_sets.prepared(
        tmp_path, [translation_sets.pair(tmp_path, "a", 40)], test=[translation_sets.pair(tmp_path, "b", 5, first=90)]
    )
    manifest = translation_manifest.load(folder)
    pieces = manifest.vocabulary.ids([translation_sets.sentence(number, 1) for number in range(40)])
    expected = np.bincount(np.concatenate(pieces), minlength=len(manifest.vocabulary))
    expected[END] += 40
    np.testing.assert_array_equal(manifest.token_counts, expected)
    assert "when the data was prepared" in target_counts.of(manifest).source
    translation_manifest.save(folder, dataclasses.replace(manifest, token_counts=None))
    found = target_counts.of(translation_manifest.load(folder))
    np.testing.assert_array_equal(found.counts, expected)
    assert "counted now in its records: the folder was prepared without counts" in found.source
