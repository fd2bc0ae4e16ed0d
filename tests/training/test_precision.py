import json

import pytest
import tensorflow as tf

from tfbigbatch.config import load_config, make_quick
from tfbigbatch.config.recipe import check_fields
from tfbigbatch.run_directory import load
from tfbigbatch.train import run
from tfbigbatch.training import precision

CPU = tf.distribute.OneDeviceStrategy("CPU:0")


def cpuinfo(tmp_path, *flags):
    path = tmp_path / "cpuinfo"
    path.write_text("".join(f"processor\t: {index}\nflags\t\t: {each}\n\n" for index, each in enumerate(flags)))
    return str(path)


@pytest.mark.parametrize(
    "flags, expected",
    [
        (["fpu avx512_bf16 amx_tile"], "avx512_bf16"),
        (["fpu amx_bf16 avx512_bf16"] * 2, "amx_bf16"),
        # A process may be moved to any of them.
        (["avx512_bf16 amx_bf16", "avx512_bf16"], "avx512_bf16"),
        # Not a part of another name.
        (["avx512_bf16x"], None),
        ([], None),
    ],
)
def test_instructions_are_those_of_all_processors(tmp_path, flags, expected):
    assert precision.bfloat16_instructions(cpuinfo(tmp_path, *flags)) == expected


def test_a_cpu_computes_in_what_it_has_instructions_for(monkeypatch):
    monkeypatch.setattr(precision, "bfloat16_instructions", lambda: "avx512_bf16")
    assert str(precision.automatic(CPU)) == "bfloat16 (auto: the processor has avx512_bf16)"
    monkeypatch.setattr(precision, "bfloat16_instructions", lambda: None)
    assert precision.automatic(CPU).name == "float32"


@pytest.mark.parametrize("capabilities, expected", [([(8, 0), (9, 0)], "bfloat16"), ([(9, 0), (7, 5)], "float32")])
def test_all_gpus_must_have_it(monkeypatch, capabilities, expected):
    class Strategy:
        extended = type("Extended", (), {"worker_devices": ("/device:GPU:0", "/device:GPU:1")})

    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: capabilities)
    monkeypatch.setattr(
        tf.config.experimental, "get_device_details", lambda capability: {"compute_capability": capability}
    )
    found = precision.automatic(Strategy())
    assert found.name == expected and ".".join(map(str, min(capabilities))) in found.why


def digits(value):
    config = load_config("digits/lstm_small_batch")
    make_quick(config)
    config.mixed_precision = value
    check_fields(config)
    return config


def test_a_run_keeps_what_it_began_with_on_another_machine(tmp_path, monkeypatch, capsys):
    directory = str(tmp_path / "run")
    monkeypatch.setattr(precision, "bfloat16_instructions", lambda: "amx_bf16")
    run(digits("auto"), model_dir=directory, use_fake_data=True, stop_after=4)
    assert "optimizer  momentum, bfloat16 (auto: the processor has amx_bf16)" in capsys.readouterr().out
    content = json.loads((tmp_path / "run" / "config.json").read_text())
    assert (content["config"]["mixed_precision"], content["mixed_precision"]) == ("auto", "bfloat16")

    monkeypatch.setattr(precision, "bfloat16_instructions", lambda: None)
    status = run(digits("auto"), model_dir=directory, use_fake_data=True)
    assert "bfloat16 (auto: as the run began; a run that begins here has float32" in capsys.readouterr().out
    assert status["step"] == 8
    loaded = load.load_run(directory)
    assert loaded.config.mixed_precision == "bfloat16"
    assert loaded.network.get_layer("lstm").compute_dtype == "bfloat16"
