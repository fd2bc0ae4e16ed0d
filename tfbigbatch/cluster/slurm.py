"""The cluster of a Slurm job step, as TF_CONFIG.

TensorFlow's SlurmClusterResolver orders the hosts by their names as text, so that node10 comes before node9 and
ranks meet the wrong addresses; without GPUs it fails. So the three variables are read here.
"""

import json
import re

from tfbigbatch.errors import InputError

_VARIABLES = ("SLURM_PROCID", "SLURM_STEP_NODELIST", "SLURM_STEP_TASKS_PER_NODE")
# Ports of a job: its tasks on one host take neighbouring ones, and jobs that share a host seldom meet.
_FIRST_PORT, _PORTS_A_JOB, _JOBS = 12_000, 16, 1_000


def is_step(environment):
    """Whether the process is one of several tasks that `srun` started."""
    return int(environment.get("SLURM_STEP_NUM_TASKS") or 1) > 1


def tf_config(environment):
    """TF_CONFIG of this task, from Slurm's variables; all tasks of a step find the same cluster.

    Args:
      environment: such as os.environ.

    Returns:
      str, JSON.

    Raises:
      ValueError: a variable is missing or cannot be read.
    """
    missing = [name for name in _VARIABLES if not environment.get(name)]
    if missing:
        raise InputError(f"{', '.join(missing)} not set: expected a process that srun started.")
    rank, hosts_text, tasks_text = (environment[name] for name in _VARIABLES)
    hosts, tasks = host_names(hosts_text), tasks_per_node(tasks_text)
    if len(hosts) != len(tasks) or not rank.isdigit() or int(rank) >= sum(tasks):
        raise InputError(
            f"SLURM_STEP_NODELIST={hosts_text} has {len(hosts)} host(s), SLURM_STEP_TASKS_PER_NODE={tasks_text} counts "
            f"{sum(tasks)} task(s) on {len(tasks)}, SLURM_PROCID={rank}: expected as many hosts, and a rank among the "
            "tasks. With srun --distribution other than block the ranks lie otherwise; set TF_CONFIG yourself."
        )
    job = int(re.sub(r"\D", "", environment.get("SLURM_JOB_ID", "")) or 0)
    port = _FIRST_PORT + job % _JOBS * _PORTS_A_JOB
    workers = [f"{host}:{port + local}" for host, count in zip(hosts, tasks) for local in range(count)]
    return json.dumps({"cluster": {"worker": workers}, "task": {"type": "worker", "index": int(rank)}})


def host_names(text):
    """The hosts of Slurm's short form, in its order: 'a[08-10],b' is a08, a09, a10, b.

    Raises:
      ValueError: the text has another form.
    """
    parts = re.findall(r"[^,\[\]]+(?:\[[^\]]*\][^,\[\]]*)*", text)
    if not text or ",".join(parts) != text:
        raise InputError(f"{text!r} is not a list of hosts as Slurm writes it, such as node[01-04,07].")
    return [host for part in parts for host in _expanded(part)]


def _expanded(part):
    found = re.search(r"\[([^\]]*)\]", part)
    if not found:
        return [part]
    hosts = []
    for piece in found.group(1).split(","):
        first, dash, last = piece.partition("-")
        last = last if dash else first
        if not (first.isdigit() and last.isdigit() and int(first) <= int(last)):
            raise InputError(f"{part!r}: {piece!r} is not a range of hosts, such as 01-04.")
        for number in range(int(first), int(last) + 1):
            hosts += _expanded(f"{part[: found.start()]}{number:0{len(first)}d}{part[found.end() :]}")
    return hosts


def tasks_per_node(text):
    """The numbers of Slurm's short form: '2(x3),1' is [2, 2, 2, 1].

    Raises:
      ValueError: the text has another form.
    """
    numbers = []
    for part in text.split(","):
        found = re.fullmatch(r"(\d+)(?:\(x(\d+)\))?", part)
        if not found:
            raise InputError(f"{text!r} is not a list of numbers of tasks as Slurm writes it, such as 2(x3),1.")
        numbers += [int(found.group(1))] * int(found.group(2) or 1)
    return numbers
