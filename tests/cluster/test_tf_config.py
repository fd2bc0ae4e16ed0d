import json

import pytest

from tfbigbatch.cluster.tf_config import is_first, parse_tf_config
from tfbigbatch.training.options import check_strategy

CLUSTER = {"cluster": {"worker": ["a:1", "b:2"]}, "task": {"type": "worker", "index": 1}}


def of_workers(addresses, **jobs):
    return json.dumps({"cluster": {"worker": addresses, **jobs}, "task": {"type": "worker", "index": 0}})


def test_workers_are_counted_after_their_chief():
    assert parse_tf_config(json.dumps(CLUSTER)) == (2, 1)
    assert parse_tf_config(of_workers(["a:1"], chief=["c:1"])) == (2, 1)
    assert parse_tf_config(of_workers(["[::1]:70", "[fe80::1%eth0]:71"])) == (2, 0)


@pytest.mark.parametrize(
    "text, said",
    [
        ("{not json", "TF_CONFIG is not JSON"),
        ("[" * 100_000, "TF_CONFIG is not JSON"),
        ("[]", "lacks or mistypes"),
        ("{}", "lacks or mistypes 'cluster'"),
        (json.dumps({**CLUSTER, "task": {"type": "worker"}}), "lacks or mistypes 'index'"),
        (json.dumps({**CLUSTER, "cluster": ["a:1"]}), "lacks or mistypes"),
        (json.dumps({**CLUSTER, "task": {"type": "worker", "index": 2}}), "worker 2 is not in the cluster of 2"),
        (json.dumps({**CLUSTER, "task": {"type": "chief", "index": 0}}), "chief 0 is not in the cluster of 2"),
        (json.dumps({**CLUSTER, "task": {"type": "ps", "index": 0}}), "has the job 'ps'.*without parameter servers"),
        (json.dumps({**CLUSTER, "task": {"type": [], "index": 0}}), r"has the job \[\]"),
        (of_workers(["a:1"], ps=["b:1"]), "has the job 'ps'.*expected chief and worker alone"),
        (of_workers(["a:1"], evaluator=["b:1"]), "has the job 'evaluator'"),
        (of_workers(["a:1", "b:1", "a:1"]), "gives a:1 to two workers"),
        (of_workers(["a:1"], chief=["a:1"]), "gives a:1 to two workers"),
        (of_workers(["a:1"], chief=["c:1", "c:2"]), "has 2 chiefs"),
        (of_workers("a:1"), "'worker' is 'a:1'; expected a list"),
        (of_workers([3]), "3 of 'worker' is not an address"),
        (of_workers(["a"]), "'a' of 'worker' is not an address; expected 'host:port'"),
        (of_workers(["a:0"]), "'a:0' of 'worker' is not an address"),
        (of_workers(["a:65536"]), "'a:65536' of 'worker' is not an address"),
        (of_workers(["grpc://a:1"]), "'grpc://a:1' of 'worker' is not an address"),
    ],
)
def test_another_form_is_refused(text, said):
    with pytest.raises(ValueError, match=said):
        parse_tf_config(text)


def test_the_first_worker_writes_and_so_does_a_process_by_itself(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    assert is_first("auto", None)
    monkeypatch.setenv("TF_CONFIG", json.dumps(CLUSTER))
    assert not is_first("auto", None) and not is_first("multi_worker", None)
    # It trains alone, whatever the variable says.
    assert is_first("one_device", None)
    monkeypatch.setenv("TF_CONFIG", of_workers(["a:1", "b:2"]))
    assert is_first("auto", None)


@pytest.mark.parametrize("name", ["gpu", "GPU", "cuda", "cpu"])
def test_a_kind_of_device_is_no_strategy(name):
    with pytest.raises(ValueError, match=f"--strategy={name} is unknown: devices are found by themselves.*mirrored"):
        check_strategy(name)
