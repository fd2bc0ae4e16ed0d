"""Experiment files, study files and overrides of fields, damaged by a seeded fuzzer."""

import os
import shutil

import pytest
from absl import flags

from tests.helpers import mutations
from tests.helpers.fuzz_judge import few_and_many, judge
from tfbigbatch import experiment, train
from tfbigbatch.cli import train as train_command
from tfbigbatch.errors import InputError
from tfbigbatch.experiment.checks import check_fields
from tfbigbatch.studies import study
from tfbigbatch.training.phases import phases_of
from tfbigbatch.training.rollbacks import Rollbacks
from tfbigbatch.utils import command

EXPERIMENTS = os.path.join(os.path.dirname(__file__), "..", "..", "experiments")
LEGW = os.path.join(EXPERIMENTS, "digits", "lstm_legw.py")
TEXTS = (
    "",
    "0",
    "-1",
    "3",
    "3.5",
    "1e9",
    "1e999",
    "-inf",
    "nan",
    "9" * 30,
    "None",
    "True",
    "()",
    "(1,)",
    "('3 steps',)",
    "({},)",
    "({'duration': 3},)",
    "({'duration': '2 steps'}, {'schedule.learning_rate': float('inf')})",
    "({'batch_size': 0},)",
    "[",
    "x",
    "\0",
    "legw",
    "multi_step",
    "-3 steps",
    "0 epochs",
    "1e300 epochs",
    "1e999 steps",
    f"{'9' * 400} steps",
    "0.0001 epochs",
    "nan steps",
)
# Of the network's size: a very large one is not refused, it runs out of memory.
SIZES = ("hidden_units",)


def fields_of(config):
    return [name for name in experiment.flat(config.to_dict()) if name.rpartition(".")[2] not in SIZES]


def planned(config, folder):
    """What the trainer does before it touches a device or a folder."""
    check_fields(config)
    Rollbacks(folder, config).slowed(config)

    class Data:
        data_signature, carries_state = None, False

        def __init__(self):
            self.train = self

        def examples_in_epoch(self, batch_size):
            return 1437

    for phase in phases_of(config, lambda fields: Data(), replicas=2):
        assert phase.plan.total_steps >= 0 and phase.plan.evaluation_batch_size >= 1


@few_and_many(150, 4000)
def test_fields_that_a_program_changes(tmp_path, seeds):
    def case(choices):
        config = experiment.new("digits_lstm")
        for _ in range(choices.randint(1, 3)):
            experiment.override(config, [f"{choices.choice(fields_of(config))}={choices.choice(TEXTS)}"])
        planned(config, str(tmp_path))

    outcomes = judge(seeds, case)
    assert min(outcomes["fine"], outcomes["refused"]) > 0


@pytest.fixture
def flags_of_the_trainer():
    """The trainer's flags are the process's: others' tests are to find none of them, nor is a tool's to be required."""
    before = set(flags.FLAGS)
    demanding = {name: flags.FLAGS[name] for name in before if flags.FLAGS[name].validators}
    for name in demanding:
        delattr(flags.FLAGS, name)
    train_command.define_flags()
    yield
    for name in set(flags.FLAGS) - before:
        delattr(flags.FLAGS, name)
    for name, flag in demanding.items():
        flags.FLAGS[name] = flag


@few_and_many(40, 1000)
def test_fields_on_the_command_line(tmp_path, seeds, flags_of_the_trainer, monkeypatch):
    names = fields_of(experiment.load(LEGW))

    def case(choices):
        arguments = ["train", f"--config={LEGW}"]
        for _ in range(choices.randint(1, 3)):
            name = choices.choice((*names, "batchsize", "schedule.", ".", "phases.0"))
            arguments.append(f"--config.{name}={choices.choice(TEXTS)}")
        flags.FLAGS.unparse_flags()
        monkeypatch.setattr("sys.argv", arguments)
        command.parse(arguments)
        planned(train_command.config_of(flags.FLAGS), str(tmp_path))

    outcomes = judge(seeds, case)
    assert min(outcomes["fine"], outcomes["refused"]) > 0


@few_and_many(60, 2000)
def test_experiment_and_study_files(tmp_path, seeds):
    # Damaged files are executed here: what they import is the package, and what they do is to set fields.
    shutil.copy(os.path.join(EXPERIMENTS, "digits", "lstm_small_batch.py"), tmp_path)
    shutil.copy(LEGW, tmp_path / "lstm_legw.py")
    with open(LEGW, "rb") as file:
        config = file.read()
    rows = (
        b"from tfbigbatch import experiment\nfrom tfbigbatch.studies import study\n\n\n"
        b"def get_study():\n    made = study.new('Digits')\n"
        b"    made.add('a', experiment.new('digits_lstm'), seeds=(0, 1))\n    return made\n"
    )

    def case(choices):
        load, content = choices.choice(((experiment.load, config), (study.load, rows)))
        path = tmp_path / f"fuzzed_{choices.random()}.py"
        path.write_bytes(mutations.of_bytes(choices, content))
        load(str(path))

    outcomes = judge(seeds, case)
    assert min(outcomes["fine"], outcomes["refused"]) > 0


@few_and_many(6, 200)
def test_fields_that_the_whole_trainer_sees(tmp_path, seeds):
    """Up to the checkpoint that is not there: task, strategy, network, optimizer and schedule are made."""

    def case(choices):
        config = experiment.new("digits_lstm")
        experiment.quick(config)
        for _ in range(2):
            name = choices.choice([name for name in fields_of(config) if not name.startswith("simulated")])
            experiment.override(config, [f"{name}={choices.choice(TEXTS)}"])
        with pytest.raises(InputError):
            train.run(config, model_dir=str(tmp_path / "none"), mode="eval", use_fake_data=True)
        assert not (tmp_path / "none").exists()

    judge(seeds, case)
