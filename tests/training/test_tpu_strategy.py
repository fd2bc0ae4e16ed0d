"""As far as a machine without a TPU allows: what TensorFlow is asked for, and how soon an error comes."""

import socket
import time

import pytest
import tensorflow as tf

from tfbigbatch.training import strategy


@pytest.fixture
def asked(monkeypatch):
    """What TensorFlow was asked for, in its order, by a machine that has a TPU."""
    found = []

    class Resolver:
        def __init__(self, **arguments):
            found.append(("resolver", arguments))

    def record(name, result=None):
        return lambda *arguments: found.append((name, *(type(each).__name__ for each in arguments))) or result

    monkeypatch.setattr(strategy, "_has_chips", lambda: True)
    monkeypatch.setattr(tf.distribute.cluster_resolver, "TPUClusterResolver", Resolver)
    monkeypatch.setattr(tf.config, "experimental_connect_to_cluster", record("connect"))
    monkeypatch.setattr(tf.tpu.experimental, "initialize_tpu_system", record("initialize"))
    monkeypatch.setattr(tf.distribute, "TPUStrategy", record("strategy", result="the strategy"))
    strategy.tpu_strategy.cache_clear()
    yield found
    strategy.tpu_strategy.cache_clear()


def test_a_local_tpu_is_not_connected_to(asked):
    assert strategy.choose("tpu", "local") == ("the strategy", "tpu local")
    assert asked == [("resolver", {"tpu": "local"}), ("initialize", "Resolver"), ("strategy", "Resolver")]


def test_another_machines_tpu_is_connected_to_and_initialised_once(asked):
    with socket.create_server(("127.0.0.1", 0)) as server:
        name = f"grpc://127.0.0.1:{server.getsockname()[1]}"
        assert strategy.choose("auto", name)[0] == strategy.choose("auto", name)[0] == "the strategy"
    assert [each[0] for each in asked] == ["resolver", "connect", "initialize", "strategy"]
    assert asked[0] == ("resolver", {"tpu": name})


def test_what_tensorflow_says_is_told(asked, monkeypatch):
    def fail(resolver):
        raise tf.errors.NotFoundError(None, None, "TPU platform not available\nand more")

    monkeypatch.setattr(tf.tpu.experimental, "initialize_tpu_system", fail)
    with pytest.raises(ValueError, match=r"--tpu=local: no TPU answers under this name \(TPU platform not available\)"):
        strategy.choose("tpu", "local")


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


@pytest.mark.parametrize("kind", ["local", "name", "address"])
def test_no_tpu_is_an_error_within_seconds(kind, monkeypatch):
    port = free_port()
    monkeypatch.setenv("GCE_METADATA_IP", f"127.0.0.1:{port}")
    monkeypatch.setattr(strategy, "_DEVICES", ())
    monkeypatch.setattr(strategy, "_VENDORS", "/nowhere/*")
    name, said = {
        "local": ("local", "no TPU chip"),
        "name": ("my-pod", "this machine is not on it"),
        "address": (f"grpc://127.0.0.1:{port}", f"127.0.0.1:{port} does not answer"),
    }[kind]
    started = time.perf_counter()
    with pytest.raises(ValueError, match=f"--tpu={name}: no TPU answers.*{said}.*docs/tpu.md"):
        strategy.choose("tpu", name)
    assert time.perf_counter() - started < 5.0


def test_chips_are_known_by_their_maker(tmp_path, monkeypatch):
    monkeypatch.setattr(strategy, "_DEVICES", ())
    monkeypatch.setattr(strategy, "_VENDORS", str(tmp_path / "*" / "vendor"))
    for name, maker in (("0", "0x8086"), ("1", "0x1ae0")):
        assert not strategy._has_chips()
        (tmp_path / name).mkdir()
        (tmp_path / name / "vendor").write_text(f"{maker}\n")
    assert strategy._has_chips()
