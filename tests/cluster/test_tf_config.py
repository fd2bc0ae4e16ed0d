import json

import pytest

from tfbigbatch.cluster.tf_config import host_names, is_first, parse_tf_config, slurm_tf_config

CLUSTER = {"cluster": {"worker": ["a:1", "b:2"]}, "task": {"type": "worker", "index": 1}}


def of_workers(addresses, **jobs):
    return json.dumps({"cluster": {"worker": addresses, **jobs}, "task": {"type": "worker", "index": 0}})


def test_workers_are_counted_after_their_chief():
    assert parse_tf_config(json.dumps(CLUSTER)) == (["a:1", "b:2"], 1)
    assert parse_tf_config(of_workers(["a:1"], chief=["c:1"])) == (["c:1", "a:1"], 1)
    assert parse_tf_config(of_workers(["[::1]:70", "[fe80::1%eth0]:71"]))[1] == 0


@pytest.mark.parametrize(
    "text, said",
    [
        ("{not json", "TF_CONFIG is not of the expected form"),
        ("[" * 100_000, "TF_CONFIG is not of the expected form"),
        ("{}", "is not of the expected form .KeyError"),
        (json.dumps({**CLUSTER, "task": {"type": "worker"}}), "KeyError.'index'"),
        (json.dumps({**CLUSTER, "task": {"type": "worker", "index": 2}}), "has no task worker 2 in its cluster"),
        (json.dumps({**CLUSTER, "task": {"type": "ps", "index": 0}}), "has the job 'ps'.*without parameter servers"),
        (of_workers(["a:1"], evaluator=["b:1"]), "has the job 'evaluator'"),
        (of_workers(["a:1", "b:1", "a:1"]), "gives an address to two workers"),
        (of_workers(["a:1"], chief=["c:1", "c:2"]), "has two chiefs"),
        (of_workers("a:1"), "has 'a', which is not an address; expected"),
        (of_workers(["a"]), "has 'a', which is not an address"),
        (of_workers(["a:65536"]), "'a:65536', which is not an address"),
        (of_workers(["grpc://a:1"]), "'grpc://a:1', which is not an address"),
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


STEP = {
    "SLURM_STEP_NUM_TASKS": "5",
    "SLURM_STEP_NODELIST": "gpu[9-10],login",
    "SLURM_STEP_TASKS_PER_NODE": "2(x2),1",
    "SLURM_JOB_ID": "4001",
}


def test_all_tasks_of_a_step_find_one_cluster_in_the_order_of_ranks():
    configs = [json.loads(slurm_tf_config({**STEP, "SLURM_PROCID": str(rank)})) for rank in range(5)]
    assert [config["task"]["index"] for config in configs] == list(range(5))
    assert all(config["cluster"] == configs[0]["cluster"] for config in configs)
    hosts = ["gpu9:12016", "gpu9:12017", "gpu10:12016", "gpu10:12017", "login:12016"]
    assert configs[0]["cluster"]["worker"] == hosts
    assert parse_tf_config(json.dumps(configs[3])) == (hosts, 3)


@pytest.mark.parametrize(
    "text, hosts",
    [
        ("a", ["a"]),
        ("a,b-1", ["a", "b-1"]),
        ("n[098-101,7]", ["n098", "n099", "n100", "n101", "n7"]),
        ("r[1-2]n[1-2].local,x", ["r1n1.local", "r1n2.local", "r2n1.local", "r2n2.local", "x"]),
    ],
)
def test_lists_of_hosts(text, hosts):
    assert host_names(text) == hosts


@pytest.mark.parametrize(
    "change, said",
    [
        ({"SLURM_PROCID": None}, "SLURM_PROCID not set: expected a process that srun started"),
        ({"SLURM_PROCID": "5"}, "SLURM_PROCID=5: expected .* a rank below"),
        ({"SLURM_STEP_NODELIST": "gpu[9-10]"}, "has 2 host.* on 3"),
        ({"SLURM_STEP_NODELIST": "gpu[10-9]"}, "'10-9' is not a range of hosts"),
    ],
)
def test_what_cannot_be_read_is_named(change, said):
    environment = {**STEP, "SLURM_PROCID": "0", **change}
    with pytest.raises(ValueError, match=said):
        slurm_tf_config({name: value for name, value in environment.items() if value is not None})
