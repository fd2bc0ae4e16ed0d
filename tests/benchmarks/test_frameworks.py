"""The benchmark beside PyTorch and JAX: the same networks in each framework, and what becomes of the figures."""

import importlib.util
import json
import os
import subprocess
import sys

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FOLDER = os.path.join(ROOT, "benchmarks", "frameworks")
NETWORKS = ("mnist_lstm", "language_model", "resnet50", "bert", "gnmt")


@pytest.fixture
def command(monkeypatch):
    """The module of the command."""
    monkeypatch.syspath_prepend(FOLDER)
    spec = importlib.util.spec_from_file_location("frameworks_command", os.path.join(FOLDER, "__main__.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def first_answers(framework, network):
    """Parameters and mean loss of the first four or ten steps, of a worker in a process of its own."""
    steps = 4 if network.endswith("resnet50") else 10
    outcome = subprocess.run(
        [sys.executable, os.path.join(FOLDER, "worker.py"), f"--framework={framework}", f"--network=tiny_{network}"],
        input=f"check {steps}\ntime 0.05\n",
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": ROOT, "TF_CPP_MIN_LOG_LEVEL": "3"},
    )
    assert outcome.returncode == 0, outcome.stderr
    facts, loss, timed = map(json.loads, outcome.stdout.splitlines())
    assert timed["wall"] > 0 and timed["cpu"] > 0
    return facts["parameters"], loss["loss"]


@pytest.mark.slow
@pytest.mark.parametrize("network", NETWORKS)
def test_the_same_weights_have_the_same_losses_in_every_framework(command, network):
    frameworks = ["tfbigbatch", "tfbigbatch_xla"]
    frameworks += [package for package in ("jax", "torch") if importlib.util.find_spec(package)]
    found = {framework: first_answers(framework, network) for framework in frameworks}
    parameters, losses = ({name: answers[at] for name, answers in found.items()} for at in (0, 1))
    command.check_agreement(command.networks.NETWORKS[f"tiny_{network}"], parameters, losses)


def test_the_networks_have_the_parameters_of_the_papers(command):
    counts = {name: network.parameters for name, network in command.networks.NETWORKS.items()}
    # PyTorch's and Keras' own ResNet-50, and Zaremba's small model: 2 * 10,000 * 200 weights of words, and LSTMs.
    assert counts["resnet50_16"] == 25_557_032
    assert counts["ptb_small_20"] == 2 * 10_000 * 200 + 10_000 + 2 * 4 * 200 * 401


def test_first_weights_depend_on_the_shape_alone(command):
    pattern = command.networks.pattern
    assert (pattern((4, 6), vector=False).ravel() == pattern((2, 2, 6), vector=False).ravel()).all()
    assert pattern((), vector=True).shape == () and abs(pattern((4, 5), vector=False)).max() <= 0.5


@pytest.mark.parametrize(
    ("parameters", "losses", "message"),
    [
        ({"torch": 691}, {"torch": 1.0}, "torch has 691 parameters; expected 690"),
        ({"jax": 690}, {"jax": 2.3, "torch": 2.3, "tfbigbatch": 2.4}, "the first losses differ"),
        ({"jax": 690}, {"jax": 2.3, "torch": 2.3, "tfbigbatch": float("nan")}, "the first losses differ"),
    ],
)
def test_frameworks_that_train_something_else_are_refused(command, parameters, losses, message):
    with pytest.raises(ValueError, match=message):
        command.check_agreement(command.networks.NETWORKS["tiny_mnist_lstm"], parameters, losses)


def row(cores, network="gnmt_multi30k_64"):
    """Ours takes 1 s of a core and half a second of two; XLA a fifth more; PyTorch twice as much."""
    ours = [1.0 / cores] * 5
    columns = {
        "tfbigbatch": ours,
        "tfbigbatch_xla": [1.2 * each for each in ours],
        "torch": [2 * each for each in ours],
    }
    busy = {name: [9.0] * 5 for name in columns}
    kinds = {"cpu": columns, "wall": busy} if cores == 1 else {"cpu": busy, "wall": columns}
    return {"network": network, "cores": cores, "losses": dict.fromkeys(columns, 1.0), "seconds_of_a_step": kinds}


@pytest.mark.parametrize("cores", [1, 2])
def test_ratios_are_of_cpu_seconds_on_one_core_and_of_wall_seconds_on_more(command, cores):
    middle, ratios = command.medians(row(cores))
    assert middle["tfbigbatch"] == 1.0 / cores and ratios == {"torch": 2.0}


def test_the_table_has_steps_a_second_and_ratios(command):
    header, _, first, second = command.table([row(1), row(2)]).splitlines()
    assert header == "| network | cores | tfbigbatch | tfbigbatch_xla | torch | ours / torch |"
    assert first == "| gnmt_multi30k_64 | 1 | 1 | 0.833 | 0.5 | 2.00 |" and "| 2 | 2 | 1.67 | 1 | 2.00 |" in second


def test_a_row_that_is_there_is_not_measured_again(command, tmp_path, monkeypatch, capsys):
    results, measured = str(tmp_path / "frameworks.json"), []

    def measure(name, cores, *rest):
        measured.append((name, cores))
        return row(cores, name)

    monkeypatch.setattr(command, "measure", measure)
    monkeypatch.setattr(command, "ensure_environment", lambda: "python")
    arguments = ["frameworks", f"--results={results}", "--cores=1"]
    monkeypatch.setattr(sys, "argv", [*arguments, "--networks=ptb_small_20"])
    command._main()
    monkeypatch.setattr(sys, "argv", [*arguments, "--networks=mnist_lstm_128,ptb_small_20"])
    command._main()
    assert measured == [("ptb_small_20", 1), ("mnist_lstm_128", 1)]
    with open(results, encoding="utf-8") as file:
        kept = json.load(file)
    # In the order of the table.
    assert [each["network"] for each in kept["rows"]] == ["mnist_lstm_128", "ptb_small_20"]
    assert "2.00 of torch" in capsys.readouterr().out


def test_an_environment_that_is_there_is_kept(command, tmp_path, monkeypatch):
    monkeypatch.setattr(command, "ENVIRONMENT", str(tmp_path))
    with open(command.CONSTRAINTS, encoding="utf-8") as file:
        (tmp_path / "installed.txt").write_text(sys.version.split()[0] + "\n" + file.read())
    monkeypatch.setattr(command.subprocess, "run", None)
    assert command.ensure_environment() == str(tmp_path / "bin" / "python")


def test_an_unknown_network_is_one_message():
    outcome = subprocess.run(
        [sys.executable, FOLDER, "--networks=resnet5"], capture_output=True, text=True, cwd=ROOT, timeout=60
    )
    assert outcome.returncode == 2 and "resnet5: expected some of mnist_lstm_128" in outcome.stderr
