"""Muon as a whole: twelve steps with a changing learning rate against float64 NumPy."""

import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.helpers.keras_versions import applied, tensor_variables, variables
from tests.helpers.optimizers_in_numpy import lamb_run, muon_run
from tfbigbatch.optimizers import keras3

STEPS = 12
RATES = [0.05 + (0.01 - 0.05) * step / STEPS for step in range(STEPS)]
_random = np.random.RandomState(0)
# A nearly square matrix, a wide one, the kernels of an LSTM, an embedding, and a bias.
WEIGHTS = {
    name: _random.normal(size=shape)
    for name, shape in {
        "kernel": (5, 4),
        "wide_kernel": (3, 8),
        "recurrent_kernel": (2, 8),
        "embeddings": (6, 3),
        "bias": (4,),
    }.items()
}
GRADIENTS = [{name: _random.normal(size=weight.shape) for name, weight in WEIGHTS.items()} for _ in range(STEPS)]
MATRICES = ("kernel", "wide_kernel", "recurrent_kernel")


def schedule():
    return keras.optimizers.schedules.PolynomialDecay(RATES[0], STEPS, 0.01)


def expected(*, vectors=None, of=None, **options):
    """The weights after GRADIENTS: matrices by Muon with `options`, vectors by Adam or LAMB.

    Args:
      vectors: the options of `lamb_run`, and 'ratio' of the learning rates.
      of: options of some variables, by name: of `muon_run` or of `lamb_run`.
    """
    vectors = {"adapt": False, "b2": 0.99, "eps": 1e-8, "wd": options.get("wd", 0.0), **(vectors or {})}
    ratio = vectors.pop("ratio", 1.0)
    ends = {}
    for name, weight in WEIGHTS.items():
        own = (of or {}).get(name, {})
        rows = [each[name] for each in GRADIENTS]
        if name in MATRICES:
            ends[name] = muon_run(weight, rows, RATES, **{**options, **own})
        else:
            ends[name] = lamb_run(weight, rows, [ratio * rate for rate in RATES], **{**vectors, **own})
    return ends


def assert_follows(arguments, reference, wrap=lambda function: function):
    ours = variables("keras3", WEIGHTS)
    arguments = {"exclude_from_weight_decay": [], **arguments}
    optimizer = keras3.Muon(learning_rate=schedule(), **arguments)
    optimizer.build(ours)

    def step(*gradients):
        optimizer.apply_gradients(list(zip(gradients, ours)))

    step = wrap(step)
    for each in GRADIENTS:
        step(*[tf.constant(each[name], tf.float32) for name in WEIGHTS])
    for (name, end), variable in zip(reference.items(), ours):
        assert np.abs(end - WEIGHTS[name]).max() > 0.02, f"{name} hardly moved"
        np.testing.assert_allclose(variable.numpy(), end, rtol=1e-4, atol=1e-4, err_msg=f"{name}: {arguments}")


NO_DECAY = {"bias": {"wd": 0.0, "adapt": False}}
# Arguments, and those of the reference.
OPTIONS = {
    "defaults": ({}, {}),
    "momentum and steps": (
        {"momentum": 0.8, "nesterov": False, "newton_schulz": {"steps": 3}},
        {"mu": 0.8, "nesterov": False, "steps": 3},
    ),
    "polar express, spectral": (
        {"newton_schulz": {"coefficients": "polar_express"}, "scale": "spectral"},
        {"name": "polar_express", "scale": "spectral"},
    ),
    "decay": (
        {"weight_decay": 0.5, "exclude_from_weight_decay": ["bias"]},
        {"wd": 0.5, "of": NO_DECAY},
    ),
    "trust ratio": (
        {
            "scale": "trust_ratio",
            "weight_decay": 0.2,
            "vectors": "lamb",
            "exclude_from_weight_decay": ["bias"],
            "exclude_from_layer_adaptation": ["bias", "wide"],
        },
        {
            "scale": "trust_ratio",
            "wd": 0.2,
            "vectors": {"adapt": True},
            "of": {**NO_DECAY, "wide_kernel": {"adapt": False}},
        },
    ),
    "normuon": ({"normuon_beta": 0.9}, {"beta": 0.9}),
    "vectors": (
        {"vectors": {"learning_rate_ratio": 0.5, "beta_1": 0.8, "beta_2": 0.9, "epsilon": 0.01}},
        {"vectors": {"ratio": 0.5, "b1": 0.8, "b2": 0.9, "eps": 0.01}},
    ),
    "no epsilon": ({"vectors": {"epsilon": 0.0}}, {"vectors": {"eps": 0.0}}),
}


# Every part that has a form of its own, at once; and where a step is compiled.
OPTIONS["compiled"] = (
    {"scale": "trust_ratio", "normuon_beta": 0.9, "weight_decay": 0.1, "vectors": "lamb"},
    {"scale": "trust_ratio", "beta": 0.9, "wd": 0.1, "vectors": {"adapt": True}},
)
CASES = [*((option, "eager") for option in OPTIONS if option != "compiled"), ("compiled", "xla")]


@pytest.mark.parametrize("option, where", [*CASES, pytest.param("compiled", "layer_xla", marks=pytest.mark.slow)])
def test_twelve_steps_follow_numpy(option, where):
    arguments, reference = OPTIONS[option]
    assert_follows(
        {**arguments, "jit_compile": where == "layer_xla"},
        expected(**reference),
        lambda function: function if where == "eager" else tf.function(function, jit_compile=where == "xla"),
    )


def test_treatments_by_pattern():
    """Gates each by itself, the embedding as a matrix, and a kernel as a vector."""
    arguments = {"treatments": {"recurrent": "gates", "embeddings": "matrix", "wide": "vector"}}
    rows = {name: [each[name] for each in GRADIENTS] for name in WEIGHTS}
    reference = expected()
    adam = {"wd": 0.0, "adapt": False, "b2": 0.99, "eps": 1e-8}
    reference["wide_kernel"] = lamb_run(WEIGHTS["wide_kernel"], rows["wide_kernel"], RATES, **adam)
    reference["embeddings"] = muon_run(WEIGHTS["embeddings"], rows["embeddings"], RATES)
    name = "recurrent_kernel"
    gates = [
        muon_run(WEIGHTS[name][:, part], [each[:, part] for each in rows[name]], RATES)
        for part in (slice(0, 2), slice(2, 4), slice(4, 6), slice(6, 8))
    ]
    reference[name] = np.concatenate(gates, axis=1)
    assert_follows(arguments, reference)


@pytest.mark.parametrize(
    "shape, treatment, parts",
    [
        ((3, 4, 2), "matrix", [np.s_[:]]),
        ((3, 4, 2), "heads", [np.s_[:, head] for head in range(4)]),
        ((2, 1, 3, 6), "matrix", [np.s_[:]]),
        ((2, 1, 3, 6), "groups:3", [np.s_[..., start : start + 2] for start in (0, 2, 4)]),
        ((2, 2, 5, 3), "in:0,1 out:3", [np.s_[:, :, channel] for channel in range(5)]),
    ],
    ids=["three axes", "heads", "convolution", "groups", "depthwise"],
)
def test_each_part_of_a_kernel_follows_numpy(shape, treatment, parts):
    """Heads, groups and channels are orthogonalised each by itself, and take the step of their own sides."""
    random = np.random.RandomState(1)
    weight, gradients = random.normal(size=shape), random.normal(size=(STEPS, *shape))
    [kernel] = variables("keras3", {"kernel": weight})
    optimizer = keras3.Muon(learning_rate=schedule(), treatments={"kernel": treatment})
    for gradient in gradients:
        optimizer.apply_gradients([(tf.constant(gradient, tf.float32), kernel)])
    for part in parts:
        rows = np.prod(weight[part].shape[:-1])
        end = muon_run(weight[part].reshape(rows, -1), [each[part].reshape(rows, -1) for each in gradients], RATES)
        np.testing.assert_allclose(np.array(kernel)[part].reshape(rows, -1), end, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype, tolerance", [("float64", 1e-9), ("bfloat16", 0.05), ("float16", 0.01)])
def test_state_is_float32_or_wider(dtype, tolerance):
    ours = [tf.Variable(tf.cast(weight, dtype), name=name) for name, weight in WEIGHTS.items()]
    # 0.05 in float32 is not 0.05.
    optimizer = keras3.Muon(learning_rate=0.0625, normuon_beta=0.875, momentum=0.9375)
    applied(optimizer, [list(each.values()) for each in GRADIENTS[:4]], ours, dtype)
    slots = [each for each in tensor_variables(optimizer) if each.shape.rank]
    assert {each.dtype for each in slots} == {tf.float64 if dtype == "float64" else tf.float32}
    for name in MATRICES:
        end = muon_run(
            tf.cast(tf.cast(WEIGHTS[name], dtype), "float64"),
            [tf.cast(tf.cast(each[name], dtype), "float64") for each in GRADIENTS[:4]],
            [0.0625] * 4,
            beta=0.875,
            mu=0.9375,
        )
        found = tf.cast(ours[list(WEIGHTS).index(name)], "float64")
        np.testing.assert_allclose(found, end, rtol=0, atol=tolerance)


def test_matrices_have_one_slot_and_vectors_two():
    optimizer = keras3.Muon(normuon_beta=0.9, treatments=[("recurrent", "gates")])
    optimizer.build(variables("keras3", WEIGHTS))
    shapes = sorted(tuple(each.shape) for each in tensor_variables(optimizer) if each.shape.rank)
    momenta, moments = [(5, 4), (3, 8), (2, 8)], [(6, 3), (6, 3), (4,), (4,)]
    # NorMuon: a number for each output of each block.
    assert shapes == sorted([*momenta, *moments, (1, 4), (1, 8), (4, 2)])


# ---- Treatments, when the variables are known -------------------------------------------------


def test_treatments_are_checked_when_the_variables_are_known():
    ours = variables("keras3", WEIGHTS)
    with pytest.raises(ValueError, match="'heads' does not fit 'kernel'"):
        keras3.Muon(treatments=[("^kernel", "heads")]).build(ours)
    with pytest.warns(UserWarning, match="treatments: 'softmax' matches none of the 5 variables"):
        keras3.Muon(treatments=[("softmax", "vector")]).build(ours)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        keras3.Muon(treatments=[("^kernel", "vector")]).build(ours)


def test_a_long_matrix_warns_when_the_variables_are_known():
    ours = variables("keras3", {"query_kernel": np.ones((2, 80, 4))})
    with pytest.warns(UserWarning, match="reads .*query_kernel' of shape .* as 1 x .160, 4.: one side"):
        keras3.Muon().build(ours)
    for name in ("Muon", "Shampoo"):
        optimizer = getattr(keras3, name)(treatments=[("query", "in:1 out:0,2")])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            optimizer.build(ours)
        assert optimizer.get_config()["treatments"] == [["query", "in:1 out:0,2"]]
