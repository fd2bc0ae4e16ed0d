"""Prepared folders of images and of translations, damaged by a seeded fuzzer; test_fuzzed_texts.py has BERT's."""

import numpy as np

from tests.helpers import mutations
from tests.helpers.datasets import made_images, translation_sets
from tests.helpers.fuzz_judge import few_and_many, judge
from tfbigbatch.data import stored_tokens
from tfbigbatch.data.images import manifest as image_manifest
from tfbigbatch.data.images.dataset import ImageRecords
from tfbigbatch.data.images.prepare import layouts
from tfbigbatch.data.translation import manifest as translation_manifest
from tfbigbatch.data.translation.dataset import TranslationRecords
from tfbigbatch.utils import files


def whole_files(folder, names):
    return {name: (folder / name).read_bytes() for name in names}


@few_and_many(120, 6000)
def test_a_folder_of_images(tmp_path, seeds):
    split = made_images.write_split(tmp_path, (5, 4))
    image_manifest.save(str(tmp_path), made_images.manifest_of(train=split))
    whole = whole_files(tmp_path, ("manifest.json", "train.index.npy"))

    def case(choices):
        name = choices.choice(("manifest.json", "manifest.json", "train.index.npy"))
        try:
            (tmp_path / name).write_bytes(mutations.of_file(choices, name, whole[name]))
            found = image_manifest.load(str(tmp_path))
            assert found.splits["train"].examples == 9
            ImageRecords(found.splits["train"], found, image_size=16)
        finally:
            (tmp_path / name).write_bytes(whole[name])

    outcomes = judge(seeds, case)
    assert min(outcomes["fine"], outcomes["refused"]) > 0


@few_and_many(120, 6000)
def test_a_folder_of_translations(tmp_path, seeds):
    texts = [[translation_sets.pair(tmp_path, *each)] for each in (("train", 40), ("held", 10, 40), ("last", 10, 50))]
    out, _, _ = translation_sets.prepared(tmp_path, *texts)
    folder = tmp_path / "out"
    kept = translation_manifest.load(out)
    names = [each.name for each in folder.iterdir() if each.suffix in (".json", ".npy", ".npz", ".txt", ".model")]
    whole = whole_files(folder, sorted(names))
    assert {"manifest.json", stored_tokens.COUNTS, "train.lengths.npy", "test.source.txt"} <= set(names)

    def case(choices):
        name = choices.choice(sorted(whole))
        damaged = mutations.of_file(choices, name, whole[name])
        try:
            (folder / name).write_bytes(damaged)
            found = translation_manifest.load(out)
            for split in ("validation", "test"):
                assert [len(side) for side in found.texts(split)] == [10, 10]
            assert np.array_equal(found.lengths["train"], kept.lengths["train"])
            TranslationRecords(found.splits["train"], found)
        finally:
            (folder / name).write_bytes(whole[name])

    outcomes = judge(seeds, case)
    assert min(outcomes["fine"], outcomes["refused"]) > 0


@few_and_many(100, 8000)
def test_an_index_that_stays_in_its_file(tmp_path, seeds):
    """Of sets with millions of records: what is read of it are its values, or an error."""
    np.save(tmp_path / "index.npy", np.arange(0, 4000, 7))
    content = (tmp_path / "index.npy").read_bytes()
    path = tmp_path / "damaged.npy"

    def case(choices):
        path.write_bytes(mutations.of_bytes(choices, content))
        found = files.read_array(str(path), "r")
        assert found.tolist() == np.load(path).tolist()

    outcomes = judge(seeds, case)
    assert min(outcomes["fine"], outcomes["refused"]) > 0


@few_and_many(100, 8000)
def test_labels_of_images(tmp_path, seeds):
    names = [f"val/{number}.jpg" for number in range(6)]
    numbers = {"n01440764": 0, "n01443537": 1}
    classes = sorted(numbers)
    by_place = "".join(f"{classes[number % 2]}\n" for number in range(6))
    by_name = "".join(f"{number}.jpg {classes[number % 2]} rest\n" for number in range(6))
    path = tmp_path / "labels.txt"

    def case(choices):
        path.write_bytes(mutations.of_bytes(choices, choices.choice((by_place, by_name)).encode()))
        text = layouts.text_of(str(path), str(path))
        found = layouts.labels_of(text, names, numbers, str(path))
        assert found.shape == (6,) and set(found.tolist()) <= {0, 1}

    outcomes = judge(seeds, case)
    assert min(outcomes["fine"], outcomes["refused"]) > 0
