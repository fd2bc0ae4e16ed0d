import json

import pytest

from tfbigbatch.cluster import slurm
from tfbigbatch.cluster.tf_config import parse_tf_config

STEP = {
    "SLURM_STEP_NUM_TASKS": "5",
    "SLURM_STEP_NODELIST": "gpu[9-10],login",
    "SLURM_STEP_TASKS_PER_NODE": "2(x2),1",
    "SLURM_JOB_ID": "4001",
}


def test_all_tasks_of_a_step_find_one_cluster_in_the_order_of_ranks():
    configs = [json.loads(slurm.tf_config({**STEP, "SLURM_PROCID": str(rank)})) for rank in range(5)]
    assert [config["task"]["index"] for config in configs] == list(range(5))
    assert all(config["cluster"] == configs[0]["cluster"] for config in configs)
    hosts = ["gpu9:12016", "gpu9:12017", "gpu10:12016", "gpu10:12017", "login:12016"]
    assert configs[0]["cluster"]["worker"] == hosts
    assert parse_tf_config(json.dumps(configs[3])) == (5, 3)


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
    assert slurm.host_names(text) == hosts


@pytest.mark.parametrize(
    "change, said",
    [
        ({"SLURM_PROCID": None}, "SLURM_PROCID not set: expected a process that srun started"),
        ({"SLURM_PROCID": "5"}, "SLURM_PROCID=5: expected .* a rank below"),
        ({"SLURM_STEP_NODELIST": "gpu[9-10]"}, "has 2 host.* on 3"),
        ({"SLURM_STEP_NODELIST": "gpu[9-"}, "not a Slurm host list"),
        ({"SLURM_STEP_NODELIST": "gpu[10-9]"}, "'10-9' is not a range of hosts"),
        ({"SLURM_STEP_TASKS_PER_NODE": "2x2"}, "not a Slurm list of task counts"),
    ],
)
def test_what_cannot_be_read_is_named(change, said):
    environment = {**STEP, "SLURM_PROCID": "0", **change}
    with pytest.raises(ValueError, match=said):
        slurm.tf_config({name: value for name, value in environment.items() if value is not None})


def test_one_task_is_no_cluster():
    assert slurm.is_step(STEP) and not slurm.is_step({"SLURM_STEP_NUM_TASKS": "1"}) and not slurm.is_step({})
