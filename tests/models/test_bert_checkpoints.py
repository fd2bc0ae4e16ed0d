"""Checkpoints in Google's and in Hugging Face's layout, made at random, against a forward pass in NumPy."""

import json
import re

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.helpers.networks_in_numpy import forward, made_arrays
from tfbigbatch.models import bert, bert_checkpoints

HEADS = 2
# Of `made_arrays`.
SIZES = {
    **{"vocabulary_size": 50, "layers": 2, "hidden_units": 8, "heads": HEADS},
    **{"inner_units": 12, "max_positions": 16},
}


def write_google(folder, arrays):
    """As TF1 writes: a checkpoint by names, here with an optimizer's state in it."""
    names = [*arrays, "bert/pooler/dense/kernel/adam_m", "global_step"]
    values = [*arrays.values(), np.zeros([8, 8], np.float32), np.int64(3)]
    prefix = str(folder / "bert_model.ckpt")
    tf.raw_ops.SaveV2(prefix=prefix, tensor_names=names, shape_and_slices=[""] * len(names), tensors=values)
    return prefix


def hugging_face_name(name):
    for pattern, replacement in (
        ("/output_weights$", "/weight"),
        ("^cls/seq_relationship/output_bias$", "cls/seq_relationship/bias"),
        ("^cls/predictions/output_bias$", "cls/predictions/bias"),
        (r"layer_(\d+)", r"layer/\1"),
        ("_embeddings$", "_embeddings/weight"),
        ("/kernel$", "/weight"),
        ("LayerNorm/gamma$", "LayerNorm/weight"),
        ("LayerNorm/beta$", "LayerNorm/bias"),
    ):
        name = re.sub(pattern, replacement, name)
    return name.replace("/", ".")


def write_safetensors(path, arrays, kind="F32"):
    header, content = {"__metadata__": {"format": "pt"}}, b""
    for name, value in arrays.items():
        raw = value.astype("<f4")
        raw = (raw.view(np.uint32) >> 16).astype("<u2") if kind == "BF16" else raw
        header[name] = {"dtype": kind, "shape": value.shape, "data_offsets": [len(content), len(content) + raw.nbytes]}
        content += raw.tobytes()
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + content)
    return str(path)


def as_hugging_face(arrays):
    return {
        hugging_face_name(name): value.T if name.endswith("/kernel") else value for name, value in arrays.items()
    } | {"cls.predictions.decoder.weight": arrays["bert/embeddings/word_embeddings"]}


def batch():
    random = np.random.RandomState(1)
    mask = np.arange(10) < np.array([[10], [7], [3]])
    return {
        "input_word_ids": random.randint(0, 50, (3, 10)),
        "input_mask": mask.astype(np.int32),
        "input_type_ids": (np.arange(10) > 4).astype(np.int32) * mask,
        "masked_lm_positions": random.randint(0, 3, (3, 2)),
    }


def logits_of(path):
    arrays = bert_checkpoints.read(path)
    network = bert.pretrainer(**SIZES)
    assert bert_checkpoints.assign(network, arrays) == []
    features = {name: tf.constant(value, tf.int32) for name, value in batch().items()}
    found = network(features)
    return found["masked_lm"].numpy(), found["next_sentence"].numpy()


@pytest.mark.parametrize("layout", ["google", "hugging_face", "hugging_face_folder"])
def test_the_logits_are_those_of_an_independent_forward_pass(tmp_path, layout):
    arrays = made_arrays()
    if layout == "google":
        path = write_google(tmp_path, arrays)
    else:
        path = write_safetensors(tmp_path / "model.safetensors", as_hugging_face(arrays))
        path = str(tmp_path) if layout.endswith("folder") else path
    masked, follows = logits_of(path)
    features = batch()
    expected = forward(
        arrays,
        features["input_word_ids"],
        features["input_mask"],
        features["input_type_ids"],
        features["masked_lm_positions"],
        HEADS,
    )
    np.testing.assert_allclose(masked, expected[0], rtol=2e-4, atol=2e-4)
    np.testing.assert_allclose(follows, expected[1], rtol=2e-4, atol=2e-4)


def test_a_runs_own_checkpoint_is_read_alike(tmp_path):
    arrays = made_arrays()
    network = bert.pretrainer(**SIZES)
    bert_checkpoints.assign(network, arrays)
    optimizer = keras.optimizers.Adam()
    optimizer.build(network.trainable_variables)
    by_path = {variable.path: variable.value for variable in network.weights}
    # Averages and the optimizer's state have the variables' names too.
    averages = {path: tf.Variable(tf.zeros_like(value)) for path, value in by_path.items()}
    (tmp_path / "lr=[0.1]" / "checkpoints").mkdir(parents=True)
    checkpoint = tf.train.Checkpoint(weights=by_path, optimizer=optimizer, averages=averages)
    checkpoint.write(str(tmp_path / "lr=[0.1]" / "checkpoints" / "step-3"))
    again = bert_checkpoints.read(str(tmp_path / "lr=[0.1]"))
    assert again.keys() == arrays.keys()
    for name, value in arrays.items():
        # Ours have an axis for the heads.
        np.testing.assert_array_equal(again[name].reshape(value.shape), value, err_msg=name)


def test_an_encoder_alone_leaves_the_heads_as_they_are(tmp_path):
    arrays = made_arrays()
    encoder = {name: value for name, value in arrays.items() if name.startswith("bert/")}
    alone = {name.removeprefix("bert."): value for name, value in as_hugging_face(encoder | arrays).items()}
    alone = {name: value for name, value in alone.items() if not name.startswith("cls.")}
    read = bert_checkpoints.read(write_safetensors(tmp_path / "model.safetensors", alone, "BF16"))
    network = bert.pretrainer(**SIZES)
    before = network.get_layer("next_sentence_head").get_weights()
    left = bert_checkpoints.assign(network, read)
    assert len(left) == 7 and all(name.startswith(("masked_lm_head/", "next_sentence_head/")) for name in left)
    np.testing.assert_equal(network.get_layer("next_sentence_head").get_weights(), before)
    table = network.get_layer("encoder").word_embeddings.embeddings
    # bfloat16 has 8 bits.
    np.testing.assert_allclose(table, arrays["bert/embeddings/word_embeddings"], rtol=2**-7)


def test_a_checkpoint_that_does_not_fit_changes_nothing(tmp_path):
    arrays = made_arrays()
    network = bert.pretrainer(**{**SIZES, "inner_units": 13})
    before = network.get_weights()
    with pytest.raises(ValueError, match=r"intermediate/dense/kernel has the shape \(8, 12\), and .* \(8, 13\)"):
        bert_checkpoints.assign(network, arrays)
    deeper = bert.pretrainer(**{**SIZES, "layers": 3})
    with pytest.raises(ValueError, match="has no bert/encoder/layer_2/.*of a smaller model"):
        bert_checkpoints.assign(deeper, arrays)
    np.testing.assert_equal(before, network.get_weights())


def test_what_is_no_checkpoint_is_told(tmp_path):
    with pytest.raises(ValueError, match="no such checkpoint"):
        bert_checkpoints.read(str(tmp_path / "nothing"))
    with pytest.raises(ValueError, match="neither model.safetensors nor bert_model.ckpt.index, nor a run"):
        bert_checkpoints.read(str(tmp_path))
    torn = tmp_path / "model.safetensors"
    write_safetensors(torn, {"a": np.zeros(4, np.float32)})
    with pytest.raises(ValueError, match="has no bert/embeddings/word_embeddings, .* of no BERT"):
        bert_checkpoints.assign(bert.pretrainer(**SIZES), bert_checkpoints.read(str(torn)))
    torn.write_bytes(torn.read_bytes()[:-3])
    with pytest.raises(ValueError, match="cannot be read as a safetensors file"):
        bert_checkpoints.read(str(torn))
