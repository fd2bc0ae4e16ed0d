"""Weights that a run begins with, of checkpoints and files of others, damaged by a seeded fuzzer."""

import json
import shutil
import zipfile

import numpy as np
import tf_keras

from tests.helpers import mutations
from tests.helpers.fuzz_judge import few_and_many, judge
from tests.helpers.references.bert_in_numpy import made_arrays
from tests.models import test_bert_checkpoints as bert_files
from tests.training.test_checkpoints import trained
from tfbigbatch.models import bert_checkpoints
from tfbigbatch.runs import initial_weights
from tfbigbatch.training.checkpoints import Checkpoints


def dense():
    return tf_keras.Sequential(
        [
            tf_keras.layers.Dense(3, activation="relu", name="hidden", input_shape=(2,)),
            tf_keras.layers.Dense(2, name="head"),
        ]
    )


@few_and_many(20, 2520)
def test_checkpoints_of_runs(tmp_path, seeds):
    """What is assigned is whole: the values of the save, or none at all."""
    network, optimizer = trained()
    network.set_weights([np.full_like(each, 2.0) for each in network.get_weights()])
    Checkpoints(network, optimizer, str(tmp_path / "whole")).save(1)
    path = str(tmp_path / "whole" / "step-1")
    names = sorted(each.name for each in (tmp_path / "whole").iterdir() if each.name.startswith("step-1"))

    def case(choices):
        shutil.rmtree(tmp_path / "damaged", ignore_errors=True)
        shutil.copytree(tmp_path / "whole", tmp_path / "damaged")
        damaged = tmp_path / "damaged" / choices.choice(names)
        damaged.write_bytes(mutations.of_bytes(choices, damaged.read_bytes()))
        before = [np.zeros_like(each) for each in network.get_weights()]
        network.set_weights(before)
        try:
            initial_weights.load_into(network, path.replace("whole", "damaged"))
        finally:
            for value in network.get_weights():
                assert np.unique(value).tolist() in ([0.0], [2.0])

    outcomes = judge(seeds, case)
    assert outcomes["refused"] > outcomes["fine"]


@few_and_many(30, 1200)
def test_files_of_keras(tmp_path, seeds):
    dense().save(tmp_path / "whole.keras")
    dense().save_weights(tmp_path / "whole.weights.h5")
    with zipfile.ZipFile(tmp_path / "whole.keras") as file:
        members = {name: file.read(name) for name in file.namelist()}
    network = dense()

    def case(choices):
        kind = choices.random()
        path = tmp_path / ("damaged.weights.h5" if kind < 0.4 else "damaged.keras")
        if kind < 0.7:
            whole = tmp_path / path.name.replace("damaged", "whole")
            path.write_bytes(mutations.of_bytes(choices, whole.read_bytes()))
        else:
            # A file that is whole, of a network that is not.
            changed = {**members, "config.json": mutations.of_json(choices, json.loads(members["config.json"]))}
            with zipfile.ZipFile(path, "w") as file:
                for name, content in changed.items():
                    file.writestr(name, content)
        initial_weights.load_into(network, str(path))

    outcomes = judge(seeds, case)
    assert min(outcomes["fine"], outcomes["refused"]) > 0
    tf_keras.backend.clear_session()


@few_and_many(60, 4000)
def test_checkpoints_of_bert_that_others_made(tmp_path, seeds):
    arrays = made_arrays(seed=1)
    google = bert_files.write_google(tmp_path, arrays)
    safetensors = tmp_path / "whole.safetensors"
    bert_files.write_safetensors(safetensors, bert_files.as_hugging_face(arrays))
    whole = safetensors.read_bytes()
    length = int.from_bytes(whole[:8], "little")
    header, content = json.loads(whole[8 : 8 + length]), whole[8 + length :]
    ends = ("index", "data-00000-of-00001")
    parts = {end: (tmp_path / f"bert_model.ckpt.{end}").read_bytes() for end in ends}

    def case(choices):
        kind = choices.random()
        if kind < 0.3:
            damaged = choices.choice(ends)
            for end in ends:
                bytes_of = mutations.of_bytes(choices, parts[end]) if end == damaged else parts[end]
                (tmp_path / f"damaged.{end}").write_bytes(bytes_of)
            path = google.replace("bert_model.ckpt", "damaged")
        else:
            path = str(tmp_path / "damaged.safetensors")
            text = mutations.of_json(choices, header)
            damaged = len(text).to_bytes(8, "little") + text + content
            with open(path, "wb") as file:
                file.write(mutations.of_bytes(choices, whole) if kind < 0.5 else damaged)
        read = bert_checkpoints.read(path)
        assert all(isinstance(each, np.ndarray) for each in read.values())
        assert bert_checkpoints.sizes_of(read)["layers"] >= 1

    outcomes = judge(seeds, case)
    assert min(outcomes["fine"], outcomes["refused"]) > 0
