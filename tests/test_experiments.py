"""Walks experiments/: every file smokes, and says what a reader needs to know."""

import ast
import collections
import glob
import os
import pickle

import pytest
import tensorflow as tf

from tests.conftest import LOGICAL_CPUS
from tfbigbatch import sweeps, tasks, train
from tfbigbatch.config import load_config, make_quick, new_config, override
from tfbigbatch.config.files import shipped
from tfbigbatch.config.overrides import compared
from tfbigbatch.config.recipe import phases, scaled_recipe, tuned_recipe
from tfbigbatch.run_directory.metrics_log import read_rows
from tfbigbatch.tasks.base import Task
from tfbigbatch.training.step import TrainingSteps

ROOT = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "experiments")
# Sweep files hold many experiments; tests/sweeps/test_sweep.py walks them.
FILES = sorted(
    os.path.relpath(path, ROOT)
    for path in glob.glob(os.path.join(ROOT, "*", "*.py"))
    if not os.path.basename(path).startswith("sweep")
)
# With their variants: 'bert/lamb:32k'.
NAMES = shipped()


def smokes():
    """All experiments; one of each kind of task is for the default run."""
    seen = set()
    shrunk = {name: load_config(name) for name in NAMES}
    for config in shrunk.values():
        make_quick(config)
    # A network with dropout has all the layers of one without.
    for name, config in sorted(shrunk.items(), key=lambda item: not item[1].model.get("dropout")):
        # Tasks of one base differ in their heads alone.
        base = next(cls.__name__ for cls in reversed(tasks.get(config.task).__mro__) if cls not in (object, Task))
        # GNMT takes a minute of one core, BERT ten seconds; tests/tasks/test_tasks.py runs small ones of both.
        slow = base in seen or config.task == "gnmt" or config.task.startswith("bert")
        yield pytest.param(name, marks=[pytest.mark.slow] if slow else [])
        seen.add(base)


@pytest.fixture
def traced(monkeypatch):
    """(steps, shapes of the batch) each time that a training step is traced."""
    found, of_batch = [], TrainingSteps._of_batch

    def noted(self, batch, *place):
        found.append((self, str(tf.nest.map_structure(lambda tensor: tensor.shape, batch))))
        return of_batch(self, batch, *place)

    monkeypatch.setattr(TrainingSteps, "_of_batch", noted)
    return found


@pytest.mark.parametrize("name", smokes())
def test_it_smokes_and_resumes(name, tmp_path, capsys, traced):
    config = load_config(name)
    make_quick(config)
    # The tests have LOGICAL_CPUS devices to simulate workers on.
    config.simulated_replicas = min(config.simulated_replicas, LOGICAL_CPUS)
    result = train.run_on_made_up_data(config, model_dir=str(tmp_path))
    assert result["status"] == "done" and result["step"] == 8 and result["metrics"]
    assert "resume     from the checkpoint of step 4" in capsys.readouterr().out
    assert [row["step"] for row in read_rows(tmp_path / "metrics.jsonl") if row["split"] == "eval"] == [4, 8]
    # Once for each replica: tracing takes minutes for a large model.
    assert traced and set(collections.Counter(traced).values()) == {config.simulated_replicas or 1}


@pytest.mark.parametrize("file", FILES)
def test_its_docstring_gives_the_command_the_measure_and_a_row_for_each_variant(file):
    with open(os.path.join(ROOT, file), encoding="utf-8") as source:
        doc = ast.get_docstring(ast.parse(source.read()))
    assert doc and f"--config=experiments/{file}" in doc
    assert "Measured" in doc or "Expected" in doc
    variants = [name.partition(":")[2] for name in NAMES if name.partition(":")[0] == file.removesuffix(".py")]
    assert variants and all(f"| {variant} |" in doc or variant in doc.split() for variant in variants if variant)


@pytest.mark.parametrize(
    "source, said",
    [
        ("config.btach_size = 3", 'Did you mean "batch_size"'),
        ("return 3", "returned int"),
        ("raise ValueError('no good')", "mine.py, line 6: ValueError: no good"),
        ("config.batch_size = 'many'", "mine.py, line 6: TypeError"),
        ("return (", "SyntaxError: '(' was never closed"),
        ("new_config('gnmmt')", "mine.py, line 6: task 'gnmmt' is unknown"),
    ],
)
def test_a_mistake_in_a_file_is_an_error_where_it_stands(tmp_path, source, said):
    path = tmp_path / "mine.py"
    path.write_text(
        "from tfbigbatch.config import new_config\n\n\ndef get_config():\n"
        f"    config = new_config('digits_lstm')\n    {source}\n    return config\n"
    )
    with pytest.raises(ValueError, match="mine.py") as caught:
        load_config(str(path))
    assert said in str(caught.value)


def test_a_mistake_has_its_line_by_a_relative_path_too(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "helper_of_mine.py").write_text("def get():\n    raise TypeError('wrong')\n")
    (tmp_path / "mine.py").write_text("import helper_of_mine\n\n\ndef get_config():\n    return helper_of_mine.get()\n")
    (tmp_path / "theirs.py").write_text(
        "from tfbigbatch.config import variant_of\n\n\ndef get_config():\n    return variant_of(__file__, 'mine.py')\n"
    )
    with pytest.raises(ValueError, match=r"--config=mine.py, line 5: TypeError: wrong"):
        load_config("mine.py")
    with pytest.raises(ValueError, match="--config=[^ ]*mine.py, line 5: TypeError: wrong"):
        load_config("theirs.py")
    (tmp_path / "mine.py").write_text("\nimport no_such_module\n")
    with pytest.raises(ValueError, match="--config=mine.py, line 2: ModuleNotFoundError"):
        load_config("mine.py")


def test_fields_are_overridden_by_text():
    config = new_config("digits_lstm")
    override(config, ["batch_size=64", "schedule.rule=legw", "schedule.end=1", "deterministic=false"])
    assert (config.batch_size, config.deterministic) == (64, False)
    assert (config.schedule.rule, config.schedule.end) == ("legw", 1.0)
    phased = load_config("bert/mlperf")
    override(phased, ["schedule.boundaries='30 epochs','60 epochs'"])
    assert phased.schedule.boundaries == ("30 epochs", "60 epochs")
    override(phased, ["phases=()", "schedule.boundaries=()"])
    assert phased.phases == phased.schedule.boundaries == ()
    images = new_config("image_classification", model="resnet")
    override(images, ["model.blocks=1,1,1,1", "model.bottleneck=t", "batch_size=1000"])
    assert (images.model.blocks, images.model.bottleneck, images.batch_size) == ((1, 1, 1, 1), True, 1000)
    with pytest.raises(ValueError, match="expected a value of type tuple, as .1, 1, 1, 1. is"):
        override(images, ["model.blocks=a, b"])
    # The fields of another model, but for those that are given.
    bert = load_config("bert/tiny")
    assert override(bert, ["model.layers=3", "model.name=bert_base"]) == []
    assert (bert.model.layers, bert.model.hidden_units) == (3, 768)


@pytest.mark.parametrize(
    "name, assignment, said",
    [
        ("digits/lstm_legw", "batch_size", "expected --config.FIELD=VALUE"),
        ("digits/lstm_legw", "batchsize=3", "Did you mean 'batch_size'"),
        ("digits/lstm_legw", "batch_size=many", "--config.batch_size=many: expected a value of type int, as .* is"),
        ("digits/lstm_legw", "batch_size=2.5", "expected a value of type int"),
        ("digits/lstm_legw", "schedule.learning_rate=fast", "expected a value of type float, as .* is"),
        ("digits/lstm_legw", "deterministic=maybe", "expected a value of type bool"),
        ("digits/lstm_legw", "schedule=3", "schedule is a group of fields; set one"),
        ("digits/lstm_legw", "task=gnmt", "it comes with the experiment file"),
        ("imagenet/alexnet", "model.name=resnet81", "Did you mean 'resnet18'"),
        ("bert/lamb", "optimizer.weight_decey=1", "takes no argument 'weight_decey'. Did you mean 'weight_decay'"),
        ("bert/lamb", "optimizer.weight_decay=low", "weight_decay='low' is not a number"),
        ("bert/lamb", "optimizer.weight_decay=-1", "weight_decay"),
        ("bert/lamb", "optimizer.name=lam", "Did you mean 'lamb'"),
        (
            "bert/lamb",
            "optimizer.name=lion",
            "name=lion is unknown. Did you mean 'muon'. Known: adamw, .*, shampoo",
        ),
        ("bert/lamb", "optimizer.learning_rate=1", "--config.schedule.learning_rate=1"),
        ("bert/lamb", "optimizer.lr=1", "schedule.learning_rate=1"),
        ("bert/lamb", "optimizer=lamb", "optimizer is a group of fields"),
        ("bert/muon", "optimizer.treatments=logits", "treatments='logits'; expected pairs"),
        ("bert/muon", 'optimizer.treatments=("logits", "vector")', "treatments holds 'logits'; expected pairs"),
        ("bert/muon", 'optimizer.treatments={"logits": "vektor"}', "Did you mean 'vector'"),
        ("bert/muon", "optimizer.steps=3", "write newton_schulz={'steps': 3}"),
        ("bert/muon", "optimizer.newton_schulz.step=3", "newton_schulz takes no argument 'step'. Did you mean 'steps'"),
        ("bert/muon", "optimizer.vectors.beta_2=2", "vectors.beta_2=2 is out of range"),
    ],
)
def test_an_override_that_does_not_fit_is_refused(name, assignment, said):
    with pytest.raises(ValueError, match=said):
        override(load_config(name), [assignment])


def peak(config, dataset_size=60_000):
    """The learning rate of a run, as its rule scales it."""
    return scaled_recipe(config, tuned_recipe(config, dataset_size)).learning_rate


def test_a_recipe_is_tuned_at_the_batch_size_of_its_file(tmp_path):
    file = tmp_path / "mine.py"
    body = (
        "from tfbigbatch.config import new_config, variant_of\n\n\ndef get_config():\n    config = {}\n    {}\n"
        "    return config\n"
    )
    file.write_text(body.format("new_config('digits_lstm')", "config.batch_size, config.schedule.rule = 256, 'legw'"))
    variant = tmp_path / "variant.py"
    variant.write_text(body.format("variant_of(__file__, 'mine.py')", "config.batch_size = 1024"))
    tuned = load_config(str(file))
    assert tuned.schedule.batch_size == 256 and peak(tuned) == 0.1
    # An override, a variant, a phase, and a row of a sweep run the recipe at another batch.
    overridden = load_config(str(file))
    override(overridden, ["batch_size=1024"])
    in_phases = load_config(str(file))
    in_phases.phases = ({"batch_size": 1024, "duration": "1 steps"},)
    for config in (
        overridden,
        load_config(str(variant)),
        *phases(in_phases),
        sweeps.scaled(tuned, 1024, "legw"),
    ):
        assert (config.batch_size, config.schedule.batch_size) == (1024, 256) and peak(config) == pytest.approx(0.2)
    both = load_config(str(file))
    override(both, ["batch_size=1024", "schedule.batch_size=512"])
    assert peak(both) == pytest.approx(0.1 * 2**0.5)


def test_a_recipe_made_in_python_is_tuned_at_its_batch_size():
    config = new_config("digits_lstm")
    config.batch_size, config.schedule.rule = 256, "legw"
    assert config.to_dict()["schedule"]["batch_size"] == 256 and peak(config) == 0.1
    copied = pickle.loads(pickle.dumps(config))
    copied.batch_size = 64
    assert (copied.schedule.batch_size, config.schedule.batch_size) == (64, 256)
    config.schedule.batch_size = 32
    config.batch_size = 128
    assert config.schedule.batch_size == 32 and peak(config) == pytest.approx(0.2)
    override(copied, ["batch_size=256"])
    assert copied.schedule.batch_size == 64


def test_another_optimizer_is_chosen_by_text():
    config = load_config("digits/lstm_small_batch")
    # In any order: the name comes first.
    given = ["optimizer.weight_decay=0.01", "optimizer.name=lamb", "optimizer.exclude_from_weight_decay=norm_and_bias"]
    [line] = override(config, given)
    assert "lamb: without momentum=0.9, which it does not take; schedule.learning_rate=0.3 is still that" in line
    kept = {"name": "lamb", "global_clipnorm": 1.0}
    assert config.optimizer.to_dict() == {
        **kept,
        "weight_decay": 0.01,
        "exclude_from_weight_decay": "norm_and_bias",
    }
    override(config, ["optimizer.weight_decay=0", "optimizer.global_clipnorm=none"])
    assert (config.optimizer.weight_decay, config.optimizer.global_clipnorm) == (0.0, None)
    override(config, ["optimizer.adasum={'group_size': 2}"])
    assert config.optimizer.adasum.to_dict() == {"group_size": 2}


def test_what_is_a_matrix_is_chosen_by_text():
    config = load_config("digits/lstm_small_batch")
    override(config, ["optimizer.name=muon", 'optimizer.treatments=(("logits", "vector"), ("k.l$", "matrix"))'])
    assert config.optimizer.treatments == (("logits", "vector"), ("k.l$", "matrix"))
    # A dictionary's patterns may have dots, which the names of a config may not.
    override(config, ['optimizer.treatments={"logits.kernel": "vector"}'])
    assert config.optimizer.treatments == (("logits.kernel", "vector"),)
    config.optimizer = {"name": "muon", "treatments": {"logits": "vector"}}
    override(config, ['optimizer.treatments={"lstm": "gates"}'])
    assert config.optimizer.treatments == (("lstm", "gates"),)


def test_experiments_are_found_by_path_and_by_name(tmp_path, monkeypatch):
    by_path = load_config(os.path.join(ROOT, "bert", "lamb.py:32k"))
    monkeypatch.chdir(tmp_path)
    for name in ("bert/lamb:32k", "bert/lamb.py:32k", "experiments/bert/lamb.py:32k"):
        assert compared(load_config(name).to_dict()) == compared(by_path.to_dict())
    # A file of the user's is preferred to the package's; a folder with a colon is no argument.
    for folder in ("bert", "a:b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "lamb.py").write_text(
            "from tfbigbatch.config import new_config\n\n\ndef get_config(batch='8'):\n"
            "    config = new_config('digits_lstm')\n    config.batch_size = int(batch)\n    return config\n"
        )
        sizes = [load_config(f"{folder}/lamb.py{argument}").batch_size for argument in ("", ":16")]
        assert sizes == [8, 16]


@pytest.mark.parametrize(
    "name, said",
    [
        ("bert/lamb:33k", r"--config=bert/lamb:33k: there is no variant '33k'. Did you mean '32k'"),
        ("bert/lamb_32k", "no such file. Did you mean 'bert/lamb:32k'"),
        ("experiments/bert/lamb_32k.py", "no such file. Did you mean 'bert/lamb:32k'"),
        ("digits/lstm_legw:512", "lstm_legw.py takes no argument; leave :512 out"),
        ("mine/own.py", "no such file. Give a file, or a name such as digits/lstm_legw"),
    ],
)
def test_an_experiment_that_is_not_there_gives_the_nearest(name, said):
    with pytest.raises(ValueError, match=said):
        load_config(name)
