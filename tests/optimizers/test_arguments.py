"""The arguments of optimizers: checked, named, and answered where they are another library's."""

import numpy as np
import pytest

from tests.helpers.keras_versions import applied, variables
from tfbigbatch import optimizers
from tfbigbatch.optimizers import aliases, keras3, registry

BY_CLASS_AND_BY_NAME = (
    lambda name, **options: getattr(keras3, name)(**options),
    lambda name, **options: optimizers.get(name.lower(), keras="keras3", **options),
)


@pytest.mark.parametrize(
    "name, arguments, said",
    [
        ("LARS", {"momentum": 1.0}, "momentum=1.0 is out of range"),
        ("LARS", {"form": "papr"}, "form='papr' is unknown"),
        ("LAMB", {"beta_2": 1.5}, "beta_2=1.5 is out of range"),
        ("LAMB", {"trust_ratio_bounds": (2.0, 1.0)}, r"trust_ratio_bounds=\(2.0, 1.0\) is not a pair of bounds"),
        ("LAMB", {"exclude_from_weight_decay": "bias"}, r"write \['bias'\], or one of the sets 'norm_and_bias'"),
        ("LAMB", {"exclude_from_weight_decay": ["("]}, "is not a regular expression"),
        (
            "Muon",
            {"newton_schulz": {"steps": 0}},
            "newton_schulz.steps=0 is out of range; expected a whole number of 1 or more",
        ),
        ("Muon", {"newton_schulz": {"coefficients": (3.4, -4.8, 2.0)}}, "is unknown. Known: polar_express, quintic"),
        ("Muon", {"newton_schulz": 5}, "newton_schulz=5; expected a dictionary of steps, coefficients, product_dtype"),
        ("Muon", {"newton_schulz": {"step": 5}}, "Muon: newton_schulz takes no argument 'step'. Did you mean 'steps'"),
        ("Muon", {"vectors": 0.5}, "vectors=0.5; expected a text, its step, or a dictionary of step, learning_rate_r"),
        ("Muon", {"vectors": {"eps": 1e-8}}, "vectors takes no argument 'eps'. Did you mean 'epsilon'"),
        ("Muon", {"vectors": "sgd"}, "vectors.step='sgd' is unknown. Known: adam, lamb"),
        ("Muon", {"newton_schulz": {"product_dtype": "float16"}}, "product_dtype='float16' is unknown"),
        ("Muon", {"treatments": "softmax"}, "treatments='softmax'; expected pairs"),
        (
            "Muon",
            {"treatments": {"softmax": "vektor"}},
            "the treatment 'vektor' of 'softmax' is unknown.*Did you mean 'vector'",
        ),
        (
            "Muon",
            {"treatments": {"softmax": "in:1 out:1,2"}},
            "the treatment 'in:1 out:1,2' of 'softmax' is unknown.*each once",
        ),
        ("Muon", {"treatments": {"(": "vector"}}, "is not a regular expression"),
        ("Muon", {"ns_steps": 5}, "write newton_schulz={'steps': 5}"),
        ("Shampoo", {"graft": "adagrad"}, "graft.method='adagrad' is unknown. Known: lamb, lars, rmsprop, sgd"),
        ("Shampoo", {"block_size": 0}, "block_size=0 is out of range"),
        ("Shampoo", {"exponent_override": 4}, "It is a field: write root={'exponent': 4}"),
        ("LAMB", {"shard_updates": "yes"}, "shard_updates='yes'"),
    ],
)
def test_bad_arguments_say_what_was_expected(name, arguments, said):
    with pytest.raises(ValueError, match=said):
        getattr(keras3, name)(**arguments)


NUMBERS = {
    "LAMB": "learning_rate weight_decay beta_1 beta_2 epsilon clipnorm clipvalue global_clipnorm",
    "LARS": "learning_rate weight_decay momentum eeta epsilon ema_momentum",
    "Muon": "learning_rate weight_decay momentum normuon_beta vectors.learning_rate_ratio vectors.beta_1 vectors.beta_2"
    " vectors.epsilon",
    "Shampoo": "beta_1 beta_2 graft.eeta graft.epsilon root.epsilon vectors.beta_2",
}
FLAGS = {
    "LAMB": ["bias_correction", "pre_normalize", "use_ema"],
    "LARS": ["nesterov", "layer_statistics"],
    "Muon": ["nesterov"],
    "Shampoo": ["shard_updates"],
}


def nested(argument, value):
    """{'vectors': {'beta_2': value}} for 'vectors.beta_2'."""
    name, _, field = argument.partition(".")
    return {name: {field: value} if field else value}


@pytest.mark.parametrize("name", NUMBERS)
def test_every_hyperparameter_is_checked(name):
    for argument in NUMBERS[name].split():
        for value in (-0.1, float("nan"), float("inf"), True, "0.1", [0.1], {"a": 1}):
            for made in BY_CLASS_AND_BY_NAME:
                with pytest.raises(ValueError, match=f"{argument}=.* is (not a number|out of range); expected"):
                    made(name, **nested(argument, value))
    for argument in FLAGS[name]:
        with pytest.raises(ValueError, match=f"{name}: {argument}=1 is neither True nor False"):
            getattr(keras3, name)(**{argument: 1})
    for value in (0, 1.5, True, "2"):
        with pytest.raises(ValueError, match=f"{name}: accumulation_steps=.* expected a whole number of micro-batches"):
            getattr(keras3, name)(accumulation_steps=value)
    optimizer = getattr(keras3, name)()
    last = {"Muon": "momentum", "Shampoo": "beta_2"}.get(name, "epsilon")
    with pytest.raises(ValueError, match=f"{name}: {last}=nan is out of range"):
        setattr(optimizer, last, float("nan"))
    assert getattr(optimizer, last) == optimizer.get_config()[last] >= 0.0


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
        ("Muon", {"beta_2": 0.95}, "write vectors={'beta_2': 0.95}"),
        ("Muon", {"adam_lr_ratio": 0.5}, "write vectors={'learning_rate_ratio': 0.5}"),
        ("Shampoo", {"matrix_eps": 1e-6}, "write root={'epsilon': 1e-06}"),
        ("Shampoo", {"eps": 1e-6}, "write graft={'epsilon': 1e-06} or root=.* or vectors="),
        ("Shampoo", {"use_nesterov": True}, "momentum is always Nesterov's"),
        ("Shampoo", {"max_preconditioner_dim": 1024}, "a side over 8,192, unless a pattern"),
    ],
)
def test_the_names_of_other_libraries_are_answered_with_ours(name, theirs, said):
    for made in BY_CLASS_AND_BY_NAME:
        with pytest.raises(ValueError, match=f"takes no argument '{next(iter(theirs))}'.*{said}"):
            made(name, **theirs)


def test_every_name_of_another_library_leads_somewhere():
    said = {
        theirs: " ".join(
            str(aliases.unknown("", theirs, 1, registry.fields(name))) for name in ("lamb", "lars", "muon", "shampoo")
        )
        for theirs in aliases._OUR_NAMES
    }
    assert len(said) > 50
    assert [theirs for theirs, hints in said.items() if "write " not in hints] == []


def test_arguments_by_position_are_answered_with_their_names():
    with pytest.raises(
        ValueError, match=r"LAMB: 0.9, 0.99 came without a name; only learning_rate may.*beta_1, beta_2"
    ):
        keras3.LAMB(0.1, 0.9, 0.99)
    with pytest.raises(ValueError, match="LAMB: learning_rate came twice, as 0.1 and as 0.2"):
        keras3.LAMB(0.1, learning_rate=0.2)
    with pytest.raises(ValueError, match="Adasum takes no argument 'group'. Did you mean 'group_size'"):
        keras3.Adasum(keras3.LAMB(), group=2)
    assert keras3.Adasum(keras3.LAMB(), "updates", 2).group_size == 2


def test_hyperparameters_are_attributes_that_count():
    optimizer, ends = keras3.LARS(learning_rate=0.1, eeta=0.01), []
    assert (optimizer.momentum, optimizer.form) == (0.9, "paper")
    for eeta in (0.01, 0.02):
        optimizer.eeta = eeta
        [variable] = variables("keras3", {"kernel": [3.0, 4.0]})
        fresh = type(optimizer).from_config(optimizer.get_config())
        applied(fresh, [[[1.0, 0.0]]], [variable])
        ends.append(variable.numpy()[0] - 3.0)
    assert optimizer.get_config()["eeta"] == 0.02
    assert ends[1] == pytest.approx(2 * ends[0], rel=1e-4)


BEFORE = {
    "normuon_beta": 0.9,
    "block_size": 2,
    "treatments": {"wide": "vector"},
    "graft": {"steps": 3},
    "vectors": "graft",
}


@pytest.mark.parametrize(
    "name, changed, value",
    [
        ("Muon", "normuon_beta", None),
        ("Muon", "treatments", []),
        ("Shampoo", "block_size", 4),
        ("Shampoo", "graft", {"steps": 2}),
        ("Shampoo", "vectors", "adam"),
    ],
)
def test_what_the_state_depends_on_stays(name, changed, value):
    optimizer = getattr(keras3, name)()
    setattr(optimizer, changed, BEFORE[changed])
    optimizer.build(variables("keras3", {"kernel": np.ones((2, 3)), "wide": np.ones((2, 3))}))
    optimizer.learning_rate = 0.5
    with pytest.raises(ValueError, match=f"{name}: {changed} cannot be changed now.*the state was made for {changed}"):
        setattr(optimizer, changed, value)
    # Of a group the fields that the state does not depend on.
    if isinstance(value, dict):
        optimizer.graft = {"steps": 3, "eeta": 0.5}
        assert optimizer.graft.eeta == 0.5
