import json

import pytest
import tensorflow as tf

from tfbigbatch.training.strategy import choose, is_chief, parse_tf_config

CLUSTER = {"cluster": {"worker": ["a:1", "b:2"]}, "task": {"type": "worker", "index": 1}}


def test_auto_takes_one_device_on_a_machine_without_gpus():
    strategy, chosen = choose("auto")
    assert isinstance(strategy, tf.distribute.OneDeviceStrategy) and chosen.startswith("one_device")
    assert is_chief(strategy)


def test_mirrored_takes_all_devices():
    strategy, chosen = choose("mirrored")
    assert strategy.num_replicas_in_sync == 4 and chosen == "mirrored over 4 CPUs"


def test_simulated_replicas_are_the_first_logical_cpus():
    strategy, chosen = choose("auto", simulated_replicas=4)
    assert strategy.num_replicas_in_sync == 4 and "4 simulated replicas" in chosen


@pytest.mark.parametrize(
    "arguments, said",
    [
        (("mirored", None), "Did you mean 'mirrored'"),
        (("mirrored", "local"), "contradicts --strategy=mirrored"),
        (("tpu", None), "needs --tpu"),
        (("multi_worker", None), "needs TF_CONFIG"),
        (("auto", "local"), "--tpu=local: no TPU answers"),
        (("one_device", None, 2), "simulated_replicas=2: expected .* without .*--strategy=one_device"),
        (("auto", None, 1), "simulated_replicas=1: expected 2 or more"),
        (("auto", None, 64), "started in this process with 4 logical CPU.*process of its own"),
    ],
)
def test_what_cannot_be_is_refused(arguments, said):
    with pytest.raises(ValueError, match=said):
        choose(*arguments)


def test_tf_config_of_workers_and_of_a_chief():
    assert parse_tf_config(json.dumps(CLUSTER)) == (2, 1)
    with_chief = {"cluster": {"chief": ["c:1"], "worker": ["a:1"]}, "task": {"type": "worker", "index": 0}}
    assert parse_tf_config(json.dumps(with_chief)) == (2, 1)


@pytest.mark.parametrize(
    "text, said",
    [
        ("{not json", "TF_CONFIG is not JSON"),
        ("[]", "lacks or mistypes"),
        ("{}", "lacks or mistypes 'cluster'"),
        (json.dumps({**CLUSTER, "task": {"type": "worker"}}), "lacks or mistypes 'index'"),
        (json.dumps({**CLUSTER, "task": {"type": "worker", "index": 2}}), "worker 2 is not in the cluster of 2"),
        (json.dumps({**CLUSTER, "task": {"type": "ps", "index": 0}}), "lacks or mistypes 'ps'"),
    ],
)
def test_a_tf_config_that_does_not_parse_is_refused(monkeypatch, text, said):
    monkeypatch.setenv("TF_CONFIG", text)
    with pytest.raises(ValueError, match=said):
        choose("auto")
