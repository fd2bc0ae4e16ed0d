"""TF_CONFIG from the environment variables of a Slurm job step.

Own code, since TensorFlow's SlurmClusterResolver sorts host names as text (node10 before node9), which gives ranks the
wrong addresses, and fails without GPUs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from tfbigbatch.errors import InputError

_VARIABLES = ("SLURM_PROCID", "SLURM_STEP_NODELIST", "SLURM_STEP_TASKS_PER_NODE")
# The tasks of a job on one host use adjacent ports; jobs that share a host rarely get the same ones.
_FIRST_PORT, _PORTS_A_JOB, _JOBS = 12_000, 16, 1_000


def is_step(environment: Mapping[str, str]) -> bool:
    """Whether this process is one of several tasks started by `srun`."""
    return int(environment.get("SLURM_STEP_NUM_TASKS") or 1) > 1


def tf_config(environment: Mapping[str, str]) -> str:
    """TF_CONFIG (JSON) of this task from Slurm's variables; all tasks of a step get the same cluster.

    Args:
      environment: such as os.environ.

    Raises:
      ValueError: a variable is missing or malformed.
    """
    missing = [name for name in _VARIABLES if not environment.get(name)]
    if missing:
        raise InputError(f"{', '.join(missing)} not set: expected a process that srun started.")
    rank, hosts_text, tasks_text = (environment[name] for name in _VARIABLES)
    hosts, tasks = host_names(hosts_text), tasks_per_node(tasks_text)
    if len(hosts) != len(tasks) or not rank.isdigit() or int(rank) >= sum(tasks):
        raise InputError(
            f"SLURM_STEP_NODELIST={hosts_text} has {len(hosts)} host(s), SLURM_STEP_TASKS_PER_NODE={tasks_text} counts "
            f"{sum(tasks)} task(s) on {len(tasks)}, SLURM_PROCID={rank}: expected the same number of hosts, and a "
            "rank below the number of tasks. With srun --distribution other than block, set TF_CONFIG yourself."
        )
    job = int(re.sub(r"\D", "", environment.get("SLURM_JOB_ID", "")) or 0)
    port = _FIRST_PORT + job % _JOBS * _PORTS_A_JOB
    workers = [f"{host}:{port + local}" for host, count in zip(hosts, tasks) for local in range(count)]
    return json.dumps({"cluster": {"worker": workers}, "task": {"type": "worker", "index": int(rank)}})


def host_names(text: str) -> list[str]:
    """Expands Slurm's host list, in its order: 'a[08-10],b' gives a08, a09, a10, b.

    Raises:
      ValueError: malformed text.
    """
    parts = re.findall(r"[^,\[\]]+(?:\[[^\]]*\][^,\[\]]*)*", text)
    if not text or ",".join(parts) != text:
        raise InputError(f"{text!r} is not a Slurm host list such as node[01-04,07].")
    return [host for part in parts for host in _expanded(part)]


def _expanded(part: str) -> list[str]:
    found = re.search(r"\[([^\]]*)\]", part)
    if not found:
        return [part]
    hosts: list[str] = []
    for piece in found.group(1).split(","):
        first, dash, last = piece.partition("-")
        last = last if dash else first
        if not (first.isdigit() and last.isdigit() and int(first) <= int(last)):
            raise InputError(f"{part!r}: {piece!r} is not a range of hosts, such as 01-04.")
        for number in range(int(first), int(last) + 1):
            hosts += _expanded(f"{part[: found.start()]}{number:0{len(first)}d}{part[found.end() :]}")
    return hosts


def tasks_per_node(text: str) -> list[int]:
    """Expands Slurm's list of task counts: '2(x3),1' gives [2, 2, 2, 1].

    Raises:
      ValueError: malformed text.
    """
    numbers: list[int] = []
    for part in text.split(","):
        found = re.fullmatch(r"(\d+)(?:\(x(\d+)\))?", part)
        if not found:
            raise InputError(f"{text!r} is not a Slurm list of task counts such as 2(x3),1.")
        numbers += [int(found.group(1))] * int(found.group(2) or 1)
    return numbers
