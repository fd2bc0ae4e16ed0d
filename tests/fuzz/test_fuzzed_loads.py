"""Runs that are loaded, and what an export is written over, damaged by a seeded fuzzer."""

import json
import os
import shutil
import zipfile

import pytest
import tf_keras

import tfbigbatch
from tests.fuzz.test_fuzzed_texts import emptied
from tests.helpers import mutations
from tests.helpers.fuzz_judge import few_and_many, judge
from tfbigbatch import experiment, train
from tfbigbatch.export import formats
from tfbigbatch.export.run import class_names
from tfbigbatch.runs import keras_file


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("fuzzed") / "run")
    config = experiment.new("digits_lstm")
    config.model.hidden_units = 2
    config.duration, config.evaluate_every = "2 steps", "2 steps"
    train.run(config, model_dir=folder, use_fake_data=True)
    return folder


def read(folder, name):
    with open(os.path.join(folder, name), "rb") as file:
        return file.read()


@few_and_many(6, 506)
def test_a_run_directory_that_is_loaded(tmp_path, run, seeds):
    """A network comes with the weights of the checkpoint, or one error says what is wrong."""
    weights = tfbigbatch.load_run(run).network.count_params()

    def case(choices):
        folder = tmp_path / "run"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(run, folder)
        name = choices.choice(("config.json", "metrics.jsonl", "status.json"))
        (folder / name).write_bytes(mutations.of_file(choices, name, read(run, name)))
        loaded = tfbigbatch.load_run(folder, choices.choice(("newest", 2)))
        assert loaded.network.count_params() == weights

    outcomes = judge(seeds, case)
    assert min(outcomes["fine"], outcomes["refused"]) > 0
    tf_keras.backend.clear_session()


@few_and_many(60, 1540)
def test_the_description_of_a_keras_file(tmp_path, seeds):
    """Nothing that a file names is imported or called, and what is wrong with it is a sentence."""
    path = tmp_path / "model.keras"
    tf_keras.Sequential([tf_keras.layers.Dense(1, "relu", kernel_regularizer="l2", input_shape=(3,))]).save(path)
    with zipfile.ZipFile(path) as file:
        members = {name: file.read(name) for name in file.namelist()}
    described = json.loads(members["config.json"])

    def case(choices):
        with zipfile.ZipFile(path, "w") as file:
            for name, content in {**members, "config.json": mutations.of_json(choices, described)}.items():
                file.writestr(name, content)
        assert isinstance(keras_file.read(str(path)), tf_keras.Model)

    outcomes = judge(seeds, case)
    assert min(outcomes["fine"], outcomes["refused"]) > 0
    tf_keras.backend.clear_session()


@few_and_many(150, 20_000)
def test_names_of_classes_and_folders_of_exports(tmp_path, seeds):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.json").write_text("{}")
    about = {"run": "/runs/one", "task": "digits_lstm", "step": 2, "files": {"keras2": "keras2.keras"}, "classes": None}

    def case(choices):
        if choices.random() < 0.5:
            (tmp_path / "run" / "classes.json").write_bytes(mutations.of_json(choices, ["cat", "dog", "owl"]))
            names = class_names(str(tmp_path / "run"))
            assert names is None or all(isinstance(each, str) for each in names)
            return
        output = emptied(tmp_path / "export")
        if choices.random() < 0.8:
            (output / formats.ABOUT).write_bytes(mutations.of_json(choices, about))
        if choices.random() < 0.8:
            (output / choices.choice(("keras2.keras", "notes.txt"))).write_bytes(b"kept")
        before = sorted(os.listdir(output))
        try:
            formats.folder_of(str(tmp_path / "run"), str(output), overwrite=choices.random() < 0.5)
        finally:
            # Looked at, and not yet changed.
            assert sorted(os.listdir(output)) == before

    outcomes = judge(seeds, case)
    assert min(outcomes["fine"], outcomes["refused"]) > 0
