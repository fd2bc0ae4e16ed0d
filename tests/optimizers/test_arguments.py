"""The arguments of optimizers: checked, named, and answered where they are another library's."""

import numpy as np
import pytest

from tests.helpers import keras_versions
from tests.helpers.keras_versions import KERAS, applied, both_versions, make, variables
from tfbigbatch import optimizers


@both_versions
@pytest.mark.parametrize("argument", ["learning_rate", "weight_decay"])
def test_a_schedule_of_the_other_keras_is_told(keras_version, argument):
    other = {"tf_keras": "keras3", "keras3": "tf_keras"}[keras_version]
    schedule = KERAS[other].optimizers.schedules.CosineDecay(0.1, 10)
    with pytest.raises(ValueError, match=f"LAMB: {argument} is a schedule of the other Keras"):
        make(keras_version, "LAMB", **{argument: schedule})


@both_versions
@pytest.mark.parametrize(
    "name, arguments, said",
    [
        ("LARS", {"momentum": 1.0}, "momentum=1.0 is out of range"),
        ("LARS", {"form": "papr"}, "form='papr' is unknown"),
        ("LAMB", {"beta_2": 1.5}, "beta_2=1.5 is out of range"),
        ("LAMB", {"trust_ratio_bounds": (2.0, 1.0)}, r"trust_ratio_bounds=\(2.0, 1.0\) is not a pair of bounds"),
        ("LAMB", {"exclude_from_weight_decay": "bias"}, r"write \['bias'\], or one of the sets 'norm_and_bias'"),
        ("LAMB", {"exclude_from_weight_decay": ["("]}, "is not a regular expression"),
        ("Muon", {"newton_schulz_steps": 0}, "steps=0 is out of range; expected a whole number of 1 or more"),
        ("Muon", {"coefficients": (3.4, -4.8, 2.0)}, "is unknown. Known: polar_express, quintic"),
        ("Muon", {"vectors": "sgd"}, "vectors='sgd' is unknown. Known: adam, lamb"),
        ("Muon", {"product_dtype": "float16"}, "product_dtype='float16' is unknown"),
        ("Muon", {"matrices": "softmax"}, "matrices='softmax'; expected pairs"),
        (
            "Muon",
            {"matrices": {"softmax": "vektor"}},
            "the treatment 'vektor' of 'softmax' is unknown.*Did you mean 'vector'",
        ),
        (
            "Muon",
            {"matrices": {"softmax": "in:1 out:1,2"}},
            "the treatment 'in:1 out:1,2' of 'softmax' is unknown.*each once",
        ),
        ("Muon", {"matrices": {"(": "vector"}}, "is not a regular expression"),
        ("Muon", {"ns_steps": 5}, "write newton_schulz_steps=5"),
        ("Shampoo", {"graft": "adagrad"}, "graft='adagrad' is unknown. Known: lamb, lars, rmsprop, sgd"),
        ("Shampoo", {"block_size": 0}, "block_size=0 is out of range"),
        ("Shampoo", {"exponent_override": 4}, "Did you mean 'exponent'. If so, write exponent=4"),
        ("LAMB", {"shard_updates": "yes"}, "shard_updates='yes'"),
    ],
)
def test_bad_arguments_say_what_was_expected(keras_version, name, arguments, said):
    with pytest.raises(ValueError, match=said):
        make(keras_version, name, **arguments)


NUMBERS = {
    "LAMB": "learning_rate weight_decay beta_1 beta_2 epsilon clipnorm clipvalue global_clipnorm",
    "LARS": "learning_rate weight_decay momentum eeta epsilon ema_momentum",
    "Muon": "learning_rate weight_decay momentum normuon_beta vector_learning_rate_ratio beta_1 beta_2 epsilon",
}
FLAGS = {
    "LAMB": ["bias_correction", "pre_normalize", "use_ema"],
    "LARS": ["nesterov", "layer_statistics"],
    "Muon": ["nesterov", "share_work"],
}


@both_versions
@pytest.mark.parametrize("name", NUMBERS)
def test_every_hyperparameter_is_checked(keras_version, name):
    for argument in NUMBERS[name].split():
        for value in (-0.1, float("nan"), float("inf"), True, "0.1", [0.1], {"a": 1}):
            for made in (make, lambda version, name, **options: optimizers.get(name.lower(), keras=version, **options)):
                with pytest.raises(ValueError, match=f"{argument}=.* is (not a number|out of range); expected"):
                    made(keras_version, name, **{argument: value})
    for argument in FLAGS[name]:
        with pytest.raises(ValueError, match=f"{name}: {argument}=1 is neither True nor False"):
            make(keras_version, name, **{argument: 1})
    for value in (0, 1.5, True, "2"):
        with pytest.raises(ValueError, match=f"{name}: accumulation_steps=.* expected a whole number of micro-batches"):
            make(keras_version, name, accumulation_steps=value)
    optimizer = make(keras_version, name)
    with pytest.raises(ValueError, match=f"{name}: epsilon=nan is out of range"):
        optimizer.epsilon = float("nan")
    assert optimizer.epsilon == optimizer.get_config()["epsilon"] >= 0.0


@both_versions
@pytest.mark.parametrize(
    "name, theirs, said",
    [
        ("LAMB", {"lr": 0.1}, "Did you mean 'learning_rate'.*write learning_rate=0.1"),
        ("LAMB", {"weight_decay_rate": 0.01}, "write weight_decay=0.01"),
        ("LAMB", {"beta1": 0.9}, "write beta_1=0.9"),
        ("LAMB", {"betas": (0.9, 0.99)}, "Write beta_1 and beta_2"),
        ("LAMB", {"exclude_from_weight_decy": ["bias"]}, "Did you mean 'exclude_from_weight_decay'"),
        ("LAMB", {"max_grad_norm": 1.0}, "write global_clipnorm=1.0"),
        ("LAMB", {"decay": 0.1}, "Give a schedule as learning_rate"),
        ("LARS", {"trust_coefficient": 0.001}, "write eeta=0.001"),
        ("LARS", {"classic_momentum": False}, "form='momentum_ratio' for False"),
    ],
)
def test_the_names_of_other_libraries_are_answered_with_ours(keras_version, name, theirs, said):
    for made in (make, lambda version, name, **options: optimizers.get(name.lower(), keras=version, **options)):
        with pytest.raises(ValueError, match=f"takes no argument '{next(iter(theirs))}'.*{said}"):
            made(keras_version, name, **theirs)


@both_versions
def test_arguments_by_position_are_answered_with_their_names(keras_version):
    ours = keras_versions.OPTIMIZERS[keras_version]
    with pytest.raises(
        ValueError, match=r"LAMB: 0.9, 0.99 came without a name; only learning_rate may.*beta_1, beta_2"
    ):
        ours.LAMB(0.1, 0.9, 0.99)
    with pytest.raises(ValueError, match="LAMB: learning_rate came twice, as 0.1 and as 0.2"):
        ours.LAMB(0.1, learning_rate=0.2)
    with pytest.raises(ValueError, match="Adasum takes no argument 'group'. Did you mean 'group_size'"):
        ours.Adasum(ours.LAMB(), group=2)
    assert ours.Adasum(ours.LAMB(), "updates", 2).group_size == 2


@both_versions
def test_hyperparameters_are_attributes_that_count(keras_version):
    optimizer, ends = make(keras_version, "LARS", learning_rate=0.1, eeta=0.01), []
    assert (optimizer.momentum, optimizer.form) == (0.9, "paper")
    for eeta in (0.01, 0.02):
        optimizer.eeta = eeta
        [variable] = variables(keras_version, {"kernel": [3.0, 4.0]})
        fresh = type(optimizer).from_config(optimizer.get_config())
        applied(fresh, [[[1.0, 0.0]]], [variable])
        ends.append(variable.numpy()[0] - 3.0)
    assert optimizer.get_config()["eeta"] == 0.02
    assert ends[1] == pytest.approx(2 * ends[0], rel=1e-4)


@both_versions
@pytest.mark.parametrize(
    "name, changed, value", [("Muon", "normuon_beta", None), ("Muon", "matrices", []), ("Shampoo", "block_size", 4)]
)
def test_what_the_state_depends_on_stays(keras_version, name, changed, value):
    optimizer = make(keras_version, name)
    setattr(optimizer, changed, {"normuon_beta": 0.9, "block_size": 2}.get(changed, {"wide": "vector"}))
    optimizer.build(variables(keras_version, {"kernel": np.ones((2, 3)), "wide": np.ones((2, 3))}))
    optimizer.learning_rate = 0.5
    with pytest.raises(ValueError, match=f"{name}: {changed} cannot be changed now.*the state was made for {changed}="):
        setattr(optimizer, changed, value)
