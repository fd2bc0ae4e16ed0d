"""What a SavedModel takes and gives, for each kind of task, against the task's own pipeline and network."""

import json
import os

import numpy as np
import pytest
import tensorflow as tf

from tests.helpers.datasets import image_sets
from tfbigbatch import load_run, train
from tfbigbatch.config import new_config
from tfbigbatch.data.finetuning import text_pairs
from tfbigbatch.data.images.prepare import prepare
from tfbigbatch.data.tokenizer import Tokenizer, Vocabulary
from tfbigbatch.export import export_run


def short(task, **fields):
    config = new_config(task, **fields)
    config.duration = config.checkpoint_every = config.evaluate_every = "1 steps"
    config.batch_size = config.schedule.batch_size = config.evaluation_batch_size = 4
    return config


def trained(folder, config):
    """The directory of a run of one step on made-up data."""
    train.run(config, model_dir=str(folder / "run"), use_fake_data=True)
    return str(folder / "run")


def served(exported):
    return tf.saved_model.load(exported.files["saved_model"]).signatures["serving_default"]


@pytest.mark.slow
def test_jpeg_bytes_give_what_the_evaluation_sees(tmp_path):
    files = image_sets.files_of("train", 3) | image_sets.files_of("val", 2)
    source = image_sets.write_folder(tmp_path / "images", files)
    prepared = str(tmp_path / "prepared")
    prepare.prepare(source, prepared, prepare.Options())
    config = short("image_classification", model="resnet")
    config.model.update({"blocks": (1,), "width": 4, "image_size": 8})
    run = str(tmp_path / "run")
    train.run(config, model_dir=run, data_dir=prepared)
    with open(os.path.join(run, "classes.json"), encoding="utf-8") as file:
        assert json.load(file) == list(image_sets.CLASSES)
    exported = export_run(run, formats=["saved_model"])
    pictures = [content for name, content in files.items() if name.startswith("val")]
    found = served(exported)(jpeg=tf.constant(pictures))
    from tfbigbatch.tasks.image_classification import ImageClassification

    task = ImageClassification(
        model=config.model.to_dict(), data=config.data.to_dict(), data_dir=prepared, use_fake_data=False
    )
    [(images, labels, weights)] = task.validation.evaluation_batches(
        tf.distribute.InputContext(), batch_size=len(pictures)
    )
    expected = load_run(run).network(images).numpy()
    # The order of the records is that of the prepared folder.
    one, two = (sorted(np.round(each, 4).tolist()) for each in (found["logits"].numpy(), expected))
    np.testing.assert_allclose(one, two, atol=2e-4)
    names = [name.decode() for name in found["class_name"].numpy()]
    assert names == [image_sets.CLASSES[number] for number in found["class"].numpy()]


@pytest.mark.slow
def test_ids_of_glue(tmp_path):
    config = short("bert_glue", model="bert_tiny")
    config.model.update({"layers": 1, "hidden_units": 8, "heads": 2, "inner_units": 16, "max_positions": 64})
    config.data.update({"task": "MNLI", "max_seq_length": 16})
    run = trained(tmp_path, config)
    loaded = load_run(run)
    vocabulary = Vocabulary.load(os.path.join(run, "vocab.txt"))
    tokenizer = Tokenizer(vocabulary, True)
    ids = [[tokenizer.ids(text) for text in each] for each in (["a b c", "d e"], ["f g h i j k l m n o p", "v"])]
    packed = {part: tf.constant(values) for part, values in text_pairs.pack(vocabulary, *ids, 16).items()}
    exported = export_run(run, formats=["saved_model"])
    assert "not text" in exported.signature and "vocab.txt" in exported.signature
    [found] = served(exported)(**packed).values()
    np.testing.assert_allclose(found, loaded.network(packed), atol=1e-5)


@pytest.mark.slow
def test_ids_of_a_translation(tmp_path):
    pytest.importorskip("sentencepiece")
    config = short("gnmt")
    config.model.update({"hidden_units": 8, "embedding_units": 8, "encoder_layers": 1, "decoder_layers": 2})
    config.data.update({"most_shapes": 1, "beam_size": 2, "max_decoded": 5})
    run = trained(tmp_path, config)
    exported = export_run(run)
    assert list(exported.files) == ["saved_model", "weights"]
    assert "layer 'encoder' (Encoder) has no counterpart among Keras' own layers" in exported.skipped["keras"]
    assert "not text: TensorFlow by itself has no operation for sentencepiece" in exported.signature
    from tfbigbatch.models import gnmt

    ids, lengths = tf.constant([[5, 6, 7, 3], [8, 3, 0, 0]]), tf.constant([4, 2])
    search = {name: config.data[name] for name in ("beam_size", "length_penalty", "coverage_penalty")}
    expected = gnmt.translate(
        load_run(run).network, ids, lengths, begin_token=2, end_token=3, max_length=5, **search
    ).tokens
    assert np.array_equal(served(exported)(source_ids=ids)["target_ids"], expected)


@pytest.mark.slow
def test_tokens_and_states_of_a_language_model(tmp_path):
    config = short("lstm_language_model")
    config.model.update({"window": 4, "hidden_units": 4, "embedding_units": 3})
    run = trained(tmp_path, config)
    exported = export_run(run)
    assert list(exported.files) == ["keras", "saved_model", "weights"]
    states = {name: tf.random.normal([2, 4]) for name in ("output_0", "cell_0", "output_1", "cell_1")}
    tokens = tf.constant([[1, 2, 3, 4], [4, 3, 2, 1]])
    found = served(exported)(tokens=tokens, **states)
    expected = load_run(run).network([tokens, *states.values()])
    np.testing.assert_allclose(found["logits"], expected[0], atol=1e-6)
    np.testing.assert_allclose(found["lstm_1_1"], expected[4], atol=1e-6)
