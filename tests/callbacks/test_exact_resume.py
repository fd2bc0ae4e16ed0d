"""A killed `fit` that is run again ends in the bits of an undisturbed one, in both Kerases."""

import functools
import os
import signal
import tempfile

import numpy as np
import pytest
import tensorflow as tf

from tests.conftest import mirrored
from tests.helpers import preloaded, resumed_fit
from tests.helpers.keras_versions import KERAS, KERAS_VERSIONS
from tests.helpers.resumed_fit import STEPS, Killed, die_at, raise_killed, train
from tfbigbatch.callbacks import ExactResume
from tfbigbatch.callbacks.streams import ReadAgainStream

PROGRAM = "tests.helpers.resumed_fit"
# Where a training is interrupted: a hook, and which call of it.
PLACES = {
    "the first step": lambda steps: ("on_train_batch_end", 1),
    "within the first epoch": lambda steps: ("on_train_batch_end", 4),
    "the last step of an epoch": lambda steps: ("on_train_batch_end", 2 * steps),
    "the first step of an epoch": lambda steps: ("on_train_batch_begin", steps + 1),
    "an evaluation": lambda steps: ("on_test_batch_begin", 2),
    "the end of an epoch": lambda steps: ("on_epoch_end", 2),
}
# In the default run.
QUICK = [
    ("keras3", "arrays", "within the first epoch"),
    ("tf_keras", "pipeline", "an evaluation"),
    ("keras3", "arrays", "the end of an epoch"),
]


def eagerly(keras_version, *arguments, **options):
    """As `train`, without the second that tracing takes: for what does not depend on the graph."""
    options.setdefault("model", resumed_fit.model_of(keras_version, run_eagerly=True))
    return train(keras_version, *arguments, **options)


@functools.cache
def undisturbed(keras_version, kind, fit=train):
    with tempfile.TemporaryDirectory() as directory:
        return fit(keras_version, kind, directory)


def interrupted(keras_version, kind, directory, hook, count, fit=train, **arguments):
    """Trains until the count-th call of a hook, as a process that is killed there."""
    with pytest.raises(Killed):
        fit(keras_version, kind, directory, [die_at(keras_version, hook, count, raise_killed)], **arguments)


def cases():
    for keras_version in KERAS_VERSIONS:
        for kind in STEPS:
            for place in PLACES:
                marks = [] if (keras_version, kind, place) in QUICK else [pytest.mark.slow]
                yield pytest.param(keras_version, kind, place, marks=marks, id=f"{keras_version}-{kind}-{place}")


@pytest.mark.parametrize("keras_version, kind, place", cases())
def test_an_interrupted_training_ends_in_the_same_bits(keras_version, kind, place, tmp_path):
    interrupted(keras_version, kind, tmp_path, *PLACES[place](STEPS[kind]))
    np.testing.assert_equal(train(keras_version, kind, tmp_path), undisturbed(keras_version, kind))


@pytest.mark.parametrize("kind", ["arrays", "pipeline", pytest.param("endless", marks=pytest.mark.slow)])
@pytest.mark.parametrize("keras_version", KERAS_VERSIONS)
def test_a_training_that_fit_begins_in_a_later_epoch_continues(keras_version, kind, tmp_path):
    later = functools.partial(eagerly, initial_epoch=1)
    whole = later(keras_version, kind, tmp_path / "whole")
    assert list(whole["epochs"]) == [1, 2]
    interrupted(keras_version, kind, tmp_path / "killed", "on_train_batch_end", 3, later)
    np.testing.assert_equal(later(keras_version, kind, tmp_path / "killed"), whole)


def run(keras_version, kind, directory, output, *die):
    return preloaded.run(PROGRAM, keras_version, kind, directory, output, *die)


@pytest.mark.parametrize(
    "keras_version, kind, hook, count",
    [
        ("keras3", "indexable", "saving", 3),
        pytest.param("tf_keras", "arrays", "saving", 3, marks=pytest.mark.slow),
        pytest.param("tf_keras", "pipeline", "on_train_batch_end", 8, marks=pytest.mark.slow),
        pytest.param("keras3", "arrays", "on_test_begin", 1, marks=pytest.mark.slow),
        pytest.param("keras3", "dataset", "on_train_batch_end", 10, marks=pytest.mark.slow),
    ],
)
def test_a_process_that_sigkill_ended_goes_on_in_another(keras_version, kind, hook, count, tmp_path):
    output = tmp_path / "ended.npz"
    killed = run(keras_version, kind, tmp_path / "run", output, hook, count)
    assert killed.returncode == -signal.SIGKILL and not output.exists(), killed.stderr[-3000:]
    done = run(keras_version, kind, tmp_path / "run", output)
    assert done.returncode == 0, done.stderr[-3000:]
    whole = run(keras_version, kind, tmp_path / "whole", tmp_path / "whole.npz")
    assert whole.returncode == 0, whole.stderr[-3000:]
    np.testing.assert_equal(dict(np.load(output)), dict(np.load(tmp_path / "whole.npz")))


# ---- A directory's life ---------------------------------------------------------------------------


def steps_in(directory):
    return sorted(int(name.split("-")[1]) for name in os.listdir(directory) if name.startswith("step-"))


def test_a_training_that_is_done_trains_nothing_and_one_with_more_epochs_continues(tmp_path):
    # A name that TensorFlow reads as a pattern.
    tmp_path = tmp_path / "lr=[0.1]"
    short = eagerly("keras3", "arrays", tmp_path, epochs=2)
    assert steps_in(tmp_path) == [10, 12]
    np.testing.assert_equal(eagerly("keras3", "arrays", tmp_path, epochs=2), short)
    np.testing.assert_equal(eagerly("keras3", "arrays", tmp_path), undisturbed("keras3", "arrays", eagerly))


def test_a_training_that_is_done_is_left_as_it_is_though_its_last_state_was_not_finite(tmp_path):
    model = resumed_fit.model_of("keras3", run_eagerly=True)
    dense = model.layers[0]
    spoil = die_at("keras3", "on_epoch_end", 3, lambda: dense.set_weights([x * np.nan for x in dense.get_weights()]))
    with pytest.warns(UserWarning, match="not finite at step 18, which is not saved"):
        eagerly("keras3", "arrays", tmp_path, [spoil], model=model)
    # It would raise where a step is trained.
    eagerly("keras3", "arrays", tmp_path, [die_at("keras3", "on_train_batch_begin", 1, raise_killed)])
    interrupted("keras3", "arrays", tmp_path, "on_train_batch_begin", 1, eagerly, epochs=4)


def test_a_damaged_snapshot_is_set_aside_and_the_one_before_it_is_used(tmp_path):
    interrupted("keras3", "arrays", tmp_path, "on_train_batch_end", 5, eagerly)
    assert steps_in(tmp_path) == [2, 4]
    tensors = tmp_path / "step-0000000004" / "state.data-00000-of-00001"
    content = bytearray(tensors.read_bytes())
    content[len(content) // 2] ^= 1
    tensors.write_bytes(content)
    with pytest.warns(UserWarning, match="damaged snapshot was set aside.*step-0000000004.*not what was written"):
        resumed = eagerly("keras3", "arrays", tmp_path)
    np.testing.assert_equal(resumed, undisturbed("keras3", "arrays", eagerly))
    assert (tmp_path / "damaged.step-0000000004").is_dir()


def test_where_all_snapshots_are_damaged_an_error_lists_them(tmp_path):
    interrupted("tf_keras", "arrays", tmp_path, "on_train_batch_end", 5, eagerly)
    (tmp_path / "step-0000000002" / "training.json").write_text("{")
    (tmp_path / "step-0000000004" / "state.index").unlink()
    with pytest.raises(ValueError, match=r"every snapshot .* is damaged:\n.*step-0000000004.*\n.*step-0000000002"):
        eagerly("tf_keras", "arrays", tmp_path)
    assert steps_in(tmp_path) == [2, 4]


@pytest.fixture(scope="module")
def interrupted_directory(tmp_path_factory):
    directory = tmp_path_factory.mktemp("interrupted")
    interrupted("tf_keras", "arrays", directory, "on_train_batch_end", 5, eagerly)
    return directory


def test_another_training_is_refused_and_nothing_is_touched(interrupted_directory):
    def files():
        return {path: path.stat().st_mtime_ns for path in interrupted_directory.rglob("*") if path.name != ".lock"}

    before = files()

    def refused(match, keras_version="tf_keras", kind="arrays", **arguments):
        with pytest.raises(ValueError, match=match):
            train(keras_version, kind, interrupted_directory, **arguments)

    refused("of another training. .*batch_size of the data: 8 there, 4 here", batch_size=4)
    refused("seed of the data: 3 there, 4 here", seed=4)
    refused("kind of the data: arrays there, examples by index here", kind="indexable")
    refused("keras: tf_keras there, keras3 here", keras_version="keras3")
    keras = KERAS["tf_keras"]
    refused("optimizer: LAMB there, Adam here", model=resumed_fit.model_of("tf_keras", keras.optimizers.Adam()))
    wider = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(1)])
    wider.compile(resumed_fit.OPTIMIZERS["tf_keras"].LAMB(0.1), "mse")
    refused(
        r"of another model, or .*dense/kernel: \[\[4, 6\], 'float32'\] there, \[\[4, 1\], 'float32'\] here", model=wider
    )
    with mirrored(2).scope():
        refused("replicas: 1 there, 2 here", model=resumed_fit.model_of("tf_keras"))
    assert before == files() and not (interrupted_directory / ".lock").exists()


def test_other_examples_of_the_same_shape_are_refused(interrupted_directory):
    resume = ExactResume(interrupted_directory)
    features, labels = resumed_fit.examples(43)
    data = resume.data(features + 1, labels, batch_size=8, seed=3)
    with pytest.raises(ValueError, match="content of the data"):
        resumed_fit.model_of("tf_keras").fit(data, verbose=0, callbacks=[resume])


# ---- What cannot be resumed is said ---------------------------------------------------------------


def pipeline_of(random):
    pipeline = tf.data.Dataset.from_tensor_slices(resumed_fit.examples())
    if random == "map":
        return pipeline.map(lambda x, y: (x + tf.random.uniform([4]), y)).batch(8)

    def rows():
        yield from zip(*resumed_fit.examples())

    spec = (tf.TensorSpec([4], tf.float32), tf.TensorSpec([1], tf.float32))
    return tf.data.Dataset.from_generator(rows, output_signature=spec).batch(8)


@pytest.mark.parametrize("random, name", [("map", "RandomUniform"), ("generator", "PyFunc|py_func|Generator")])
def test_a_pipeline_with_state_that_no_checkpoint_holds_is_refused_before_the_first_step(random, name, tmp_path):
    resume = ExactResume(tmp_path)
    model = resumed_fit.model_of("keras3")
    with pytest.raises(ValueError, match=f"state of this tf.data pipeline cannot be saved: .*({name})"):
        model.fit(resume.data(pipeline_of(random).repeat(), steps_per_epoch=5), verbose=0, callbacks=[resume])
    assert int(model.optimizer.iterations) == 0 and not steps_in(tmp_path)


@pytest.mark.parametrize("random", ["map", "unseeded", "generator"])
def test_a_pipeline_that_does_not_repeat_its_order_is_told_on_resume(random, tmp_path):
    def fit(*die):
        # Another seed of the process: TensorFlow gives unseeded operations a part of it.
        tf.random.set_seed(len(die))
        resume = ExactResume(tmp_path, every=2)
        shuffled = tf.data.Dataset.from_tensor_slices(resumed_fit.examples()).shuffle(40).batch(8)
        pipeline = shuffled if random == "unseeded" else pipeline_of(random)
        model = resumed_fit.model_of("keras3")
        model.fit(resume.data(pipeline, steps_per_epoch=5), epochs=2, verbose=0, callbacks=[resume, *die])

    with pytest.raises(Killed):
        fit(die_at("keras3", "on_train_batch_end", 8, raise_killed))
    if random == "generator":
        fit()
        return
    with pytest.raises(ValueError, match="gives another batch 7 than it gave .*seed= to its shuffles"):
        fit()


def test_arguments_are_checked():
    for arguments, match in (
        ({"directory": ""}, "directory=''; expected the path"),
        ({"directory": "x", "every": 0}, "every=0 is out of range"),
        ({"directory": "x", "callbacks": [3]}, "callbacks has 3"),
    ):
        with pytest.raises(ValueError, match=match):
            ExactResume(**arguments)


def test_data_is_checked(tmp_path):
    resume = ExactResume(tmp_path)
    features, labels = resumed_fit.examples()
    endless = tf.data.Dataset.from_tensors((features, labels)).repeat()

    for arguments, match in (
        ({"x": endless}, "has no end; give steps_per_epoch"),
        ({"x": endless, "batch_size": 3}, "leave y, sample_weight, batch_size"),
        ({"x": endless, "y": labels}, "leave y, sample_weight, batch_size"),
        ({"x": endless.take(3).filter(lambda *_: True)}, "does not know its number of batches"),
        ({"x": features, "y": labels[1:]}, "different lengths"),
        ({"x": features, "y": labels, "steps_per_epoch": 3}, "steps_per_epoch is for tf.data"),
        ({"x": (row for row in features)}, "x is a generator"),
        ({"x": []}, "no examples"),
        ({"x": "data.csv"}, "x is str; expected an array"),
        ({"x": [features, features], "y": labels}, "2 features, 40 labels; .*give several arrays as a tuple"),
    ):
        with pytest.raises(ValueError, match=match):
            resume.data(**arguments)


@pytest.mark.parametrize("keras_version", KERAS_VERSIONS)
def test_a_fit_that_does_not_fit_is_refused(keras_version, tmp_path):
    resume = ExactResume(tmp_path, every=3)
    features, labels = resumed_fit.examples()
    model = resumed_fit.model_of(keras_version, steps_per_execution=2)

    def refused(match, *data, **arguments):
        with pytest.raises(ValueError, match=match):
            model.fit(*data, verbose=0, callbacks=[resume], **arguments)

    refused("fit has data of another order", features, labels)
    refused("every=3 with steps_per_execution=2", resume.data(features, labels, batch_size=8))
    refused("fit has 2 steps in an epoch, and .* has 5", resume.data(features, labels, batch_size=8), steps_per_epoch=2)


# ---- The order, other callbacks, strategies -------------------------------------------------------


@pytest.mark.parametrize("keras_version", [pytest.param("tf_keras", marks=pytest.mark.slow), "keras3"])
def test_the_patience_and_best_weights_of_early_stopping_continue(keras_version, tmp_path):
    def early():
        stopping = KERAS[keras_version].callbacks.EarlyStopping(
            "val_loss", patience=1, min_delta=10.0, restore_best_weights=True
        )
        return [stopping]

    whole = eagerly(keras_version, "arrays", tmp_path / "whole", others=early(), epochs=9)
    assert 1 < len(whole["epochs"]) < 9
    interrupted(
        keras_version, "arrays", tmp_path / "killed", "on_train_batch_end", 8, eagerly, others=early(), epochs=9
    )
    np.testing.assert_equal(eagerly(keras_version, "arrays", tmp_path / "killed", others=early(), epochs=9), whole)


def scaled(keras):
    """A scale that grows within the run."""
    inner = keras.optimizers.SGD(0.01, 0.9)
    return keras.mixed_precision.LossScaleOptimizer(inner, initial_scale=8.0, dynamic_growth_steps=3)


# By name: the optimizer of a Keras and ours for it, where it is another than LAMB; replicas; arguments of compile.
FORMS = {
    "several steps at once": (None, 1, {"steps_per_execution": 2}),
    "two replicas": (None, 2, {}),
    "local steps": (lambda keras, ours: ours.LocalSteps(keras.optimizers.Adam(0.01), every=3, outer="nesterov"), 2, {}),
    "Adam": (lambda keras, ours: keras.optimizers.Adam(0.01), 1, {}),
    "scaled": (lambda keras, ours: scaled(keras), 1, {}),
    "averaged": (
        lambda keras, ours: keras.optimizers.AdamW(0.01, use_ema=True, ema_momentum=0.5, ema_overwrite_frequency=4),
        1,
        {},
    ),
    "Muon": (lambda keras, ours: ours.Muon(0.02), 1, {}),
    "Shampoo": (lambda keras, ours: ours.Shampoo(0.02), 1, {}),
}


@pytest.mark.slow
@pytest.mark.parametrize("keras_version", KERAS_VERSIONS)
@pytest.mark.parametrize(
    "form, kind",
    [(form, "arrays") for form in FORMS]
    + [(form, kind) for form in list(FORMS)[:2] for kind in STEPS if kind != "arrays"],
)
def test_other_forms_of_training(keras_version, form, kind, tmp_path):
    make, replicas, compiled = FORMS[form]
    # The learning rate of the others falls before they are killed.
    count = 5 if form in list(FORMS)[:3] else 15
    keras, strategy = KERAS[keras_version], mirrored(2) if replicas == 2 else tf.distribute.get_strategy()

    def fit(directory, train=train):
        with strategy.scope():
            rule = make and make(keras, resumed_fit.OPTIMIZERS[keras_version])
            model = resumed_fit.model_of(keras_version, rule, **compiled)
        plateau = keras.callbacks.ReduceLROnPlateau("loss", patience=1, min_delta=10.0, factor=0.5)
        others = [plateau] if count == 15 else []
        return train(keras_version, kind, tmp_path / directory, model=model, others=others)

    whole = fit("whole")
    fit("killed", lambda *arguments, **named: interrupted(*arguments, "on_train_batch_end", count, **named))
    np.testing.assert_equal(fit("killed"), whole)


@pytest.mark.parametrize("looked", [0, 1, 4])
@pytest.mark.parametrize("position", [2, 8])
def test_batches_that_keras_looks_at_before_it_begins_are_of_the_first_epoch(looked, position, tmp_path):
    def made():
        return ReadAgainStream(tf.data.Dataset.range(6).shuffle(6, seed=1).batch(1), steps_per_epoch=6)

    first, again, saved = made(), made(), str(tmp_path / "stream")
    order = [int(first.at(number)[0]) for number in range(18)]
    first.save(position, saved)
    for number in range(looked):
        again.at(number)
    again.begin(position, saved)
    assert [int(again.at(number)[0]) for number in range(position, 18)] == order[position:]
