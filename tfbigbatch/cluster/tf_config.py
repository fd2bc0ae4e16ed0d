"""TF_CONFIG: the cluster's addresses and this process's place among them, in JSON; from Slurm's variables too.

TensorFlow's SlurmClusterResolver sorts host names as text (node10 before node9), which gives ranks the wrong addresses,
and fails without GPUs.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from typing import Any

from tfbigbatch.errors import InputError

_FORM = 'expected {"cluster": {"worker": ["host:port", ...]}, "task": {"type": "worker", "index": 0}}'
_JOBS = ("chief", "worker")
# The host may be an IPv6 address in brackets.
_ADDRESS = re.compile(r"(?:\[[0-9a-fA-F:.%\w]+\]|[^\s:/\[\]]+):([0-9]{1,5})")
_SLURM = ("SLURM_PROCID", "SLURM_STEP_NODELIST", "SLURM_STEP_TASKS_PER_NODE")
# The tasks of a job on one host use adjacent ports; jobs that share a host rarely get the same ones.
_FIRST_PORT, _PORTS_A_JOB, _SLURM_JOBS = 12_000, 16, 1_000


def joins_cluster(strategy_name: str, tpu: str | None) -> bool:
    """True if a run by `--strategy` and `--tpu` is one of several workers."""
    return strategy_name == "multi_worker" or (
        strategy_name == "auto" and tpu is None and bool(os.environ.get("TF_CONFIG"))
    )


def is_first(strategy_name: str, tpu: str | None) -> bool:
    """True if this process is its cluster's first, which alone writes the run directory, or runs by itself.

    Raises:
      ValueError: see `parse_tf_config`.
    """
    text = os.environ.get("TF_CONFIG")
    return not (text and joins_cluster(strategy_name, tpu)) or parse_tf_config(text)[1] == 0


def parse_tf_config(text: str) -> tuple[int, int]:
    """(number of workers, this worker's index) of a TF_CONFIG; a chief is the first. Raises: see `workers_of`."""
    addresses, index = workers_of(text)
    return len(addresses), index


def workers_of(text: str) -> tuple[list[str], int]:
    """(the addresses of all workers in their order, this worker's index) of a TF_CONFIG; a chief is the first.

    Raises:
      ValueError: it is not JSON of the expected form, names a job other than chief and worker, two workers have the
        same address, or the index is out of range.
    """
    try:
        config = json.loads(text)
        jobs, kind, index = dict(config["cluster"]), config["task"]["type"], int(config["task"]["index"])
    except (ValueError, RecursionError, KeyError, TypeError) as error:
        raise InputError(
            f"TF_CONFIG is not of the expected form ({error!r:.80}); {_FORM}. It reads: {text[:200]}"
        ) from None
    for job in (*jobs, kind):
        if job not in _JOBS:
            raise InputError(
                f"TF_CONFIG has the job {job!r}: workers train together without parameter servers or an evaluator; "
                f"expected {' and '.join(_JOBS)} alone. It reads: {text[:200]}"
            )
    for job, addresses in jobs.items():
        if not isinstance(addresses, list) or job == "chief" and len(addresses) > 1:
            raise InputError(f"TF_CONFIG: {job!r} is {addresses!r}; expected a list of addresses, and one for a chief.")
        for address in addresses:
            _check_address(address)
    workers = [address for job in _JOBS for address in jobs.get(job, [])]
    if len(set(workers)) < len(workers):
        raise InputError(f"TF_CONFIG gives an address to two workers; expected one of its own for each: {workers}.")
    if not 0 <= index < len(jobs.get(kind, [])):
        raise InputError(f"TF_CONFIG: task {kind} {index} is not in the cluster of {len(workers)} worker(s); {_FORM}.")
    return workers, index + (len(jobs.get("chief", [])) if kind == "worker" else 0)


def _check_address(address: Any) -> None:
    found = _ADDRESS.fullmatch(address) if isinstance(address, str) else None
    if found is None or not 1 <= int(found[1]) <= 65535:
        raise InputError(f"TF_CONFIG: {address!r} is not an address; expected 'host:port', such as 'host0:12345'.")


def is_slurm_step(environment: Mapping[str, str]) -> bool:
    """True if this process is one of several tasks started by `srun`."""
    return int(environment.get("SLURM_STEP_NUM_TASKS") or 1) > 1


def slurm_tf_config(environment: Mapping[str, str]) -> str:
    """TF_CONFIG of this task from Slurm's variables; all tasks of a step get the same cluster.

    Args:
      environment: such as os.environ.

    Raises:
      ValueError: a variable is missing or malformed.
    """
    missing = [name for name in _SLURM if not environment.get(name)]
    if missing:
        raise InputError(f"{', '.join(missing)} not set: expected a process that srun started.")
    rank, hosts_text, tasks_text = (environment[name] for name in _SLURM)
    hosts, tasks = host_names(hosts_text), _tasks_per_node(tasks_text)
    if len(hosts) != len(tasks) or not rank.isdigit() or int(rank) >= sum(tasks):
        raise InputError(
            f"SLURM_STEP_NODELIST={hosts_text} has {len(hosts)} host(s), SLURM_STEP_TASKS_PER_NODE={tasks_text} counts "
            f"{sum(tasks)} task(s) on {len(tasks)}, SLURM_PROCID={rank}: expected the same number of hosts, and a "
            "rank below the number of tasks. With srun --distribution other than block, set TF_CONFIG yourself."
        )
    job = int(re.sub(r"\D", "", environment.get("SLURM_JOB_ID", "")) or 0)
    port = _FIRST_PORT + job % _SLURM_JOBS * _PORTS_A_JOB
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


def _tasks_per_node(text: str) -> list[int]:
    """Expands Slurm's list of task counts: '2(x3),1' gives [2, 2, 2, 1]."""
    parts = [re.fullmatch(r"(\d+)(?:\(x(\d+)\))?", part) for part in text.split(",")]
    if not all(parts):
        raise InputError(f"{text!r} is not a Slurm list of task counts such as 2(x3),1.")
    return [int(found[1]) for found in parts if found for _ in range(int(found[2] or 1))]
