"""The choice of a strategy; of TPUs, what is requested of TensorFlow and how soon an error comes."""

import json
import socket
import time

import pytest
import tensorflow as tf

from tfbigbatch.cluster.local import free_addresses
from tfbigbatch.errors import InputError, WorkerLost
from tfbigbatch.training import strategy as strategies
from tfbigbatch.training.strategy import choose

CLUSTER = {"cluster": {"worker": ["a:1", "b:2"]}, "task": {"type": "worker", "index": 1}}


def test_auto_takes_one_device_on_a_machine_without_gpus():
    strategy, chosen = choose("auto")
    assert isinstance(strategy, tf.distribute.OneDeviceStrategy) and chosen.startswith("one_device")


def test_simulated_replicas_are_the_first_logical_cpus():
    strategy, chosen = choose("auto", simulated_replicas=4)
    assert strategy.num_replicas_in_sync == 4 and "4 simulated replicas" in chosen
    assert strategy is choose("mirrored")[0]


@pytest.mark.parametrize(
    "arguments, said",
    [
        (("mirrored", "local"), "contradicts --strategy=mirrored"),
        (("tpu", None), "needs --tpu"),
        (("multi_worker", None), "needs TF_CONFIG"),
        (("one_device", None, 2), "simulated_replicas=2: expected .* without .*--strategy=one_device"),
        (("auto", None, 1), "simulated_replicas=1: expected 2 or more"),
        (("auto", None, 64), "started in this process with 4 logical CPU.*process of its own"),
    ],
)
def test_what_cannot_be_is_refused(arguments, said):
    with pytest.raises(ValueError, match=said):
        choose(*arguments)


@pytest.mark.parametrize(
    "error, raised, said",
    [
        (
            tf.errors.InternalError(None, None, "Barrier failed because: task is set to ERROR: heartbeat timeout"),
            WorkerLost,
            "heartbeat timeout.*Start all workers again",
        ),
        (
            tf.errors.UnknownError(None, None, "Could not start gRPC server"),
            InputError,
            "cannot be joined: Could not start gRPC server.*own address to be free",
        ),
    ],
)
def test_a_worker_that_is_lost_while_the_others_join_is_no_bad_input(monkeypatch, error, raised, said):
    def fails():
        raise error

    monkeypatch.setenv("TF_CONFIG", json.dumps(CLUSTER))
    monkeypatch.setattr(strategies, "wait_for_all", lambda text: None)
    monkeypatch.setattr(tf.distribute, "MultiWorkerMirroredStrategy", fails)
    with pytest.raises(raised, match=said):
        choose("multi_worker")


@pytest.fixture
def asked(monkeypatch):
    """What TensorFlow was asked for, in its order, by a machine that has a TPU."""
    found = []

    class Resolver:
        def __init__(self, **arguments):
            found.append(("resolver", arguments))

    def record(name, result=None):
        return lambda *arguments: found.append((name, *(type(each).__name__ for each in arguments))) or result

    monkeypatch.setattr(tf.distribute.cluster_resolver, "TPUClusterResolver", Resolver)
    monkeypatch.setattr(tf.config, "experimental_connect_to_cluster", record("connect"))
    monkeypatch.setattr(tf.tpu.experimental, "initialize_tpu_system", record("initialize"))
    monkeypatch.setattr(tf.distribute, "TPUStrategy", record("strategy", result="the strategy"))
    strategies.tpu_strategy.cache_clear()
    yield found
    strategies.tpu_strategy.cache_clear()


def test_a_local_tpu_is_not_connected_to(asked):
    assert choose("tpu", "local") == ("the strategy", "tpu local")
    assert asked == [("resolver", {"tpu": "local"}), ("initialize", "Resolver"), ("strategy", "Resolver")]


def test_another_machines_tpu_is_connected_to_and_initialised_once(asked):
    with socket.create_server(("127.0.0.1", 0)) as server:
        name = f"grpc://127.0.0.1:{server.getsockname()[1]}"
        assert choose("auto", name)[0] == choose("auto", name)[0] == "the strategy"
    assert [each[0] for each in asked] == ["resolver", "connect", "initialize", "strategy"]
    assert asked[0] == ("resolver", {"tpu": name})


@pytest.mark.parametrize("name", ["my-pod", "grpc://{}"])
def test_no_tpu_is_an_error_within_seconds(name, monkeypatch):
    (address,) = free_addresses(1)
    monkeypatch.setenv("GCE_METADATA_IP", address)
    name = name.format(address)
    started = time.perf_counter()
    with pytest.raises(ValueError, match=f"--tpu={name}: no TPU answers.*Connection refused.*docs/tpu.md"):
        choose("tpu", name)
    assert time.perf_counter() - started < 5.0
