"""TF_CONFIG: the cluster's addresses and this process's place among them, in JSON; from Slurm's variables too.

TensorFlow's SlurmClusterResolver sorts host names as text (node10 before node9), which gives ranks the wrong addresses,
and fails without GPUs. It waits for the other workers within a call of C++ that keeps Python's lock and replaces the
handler of SIGTERM: neither that nor Ctrl-C ends a worker there, and no line says what it waits for. So `wait_for_all`
waits before it.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import sys
import time
from collections.abc import Mapping
from typing import Any

from tfbigbatch.errors import InputError, Preempted
from tfbigbatch.utils.signals import StopRequest

_FORM = 'expected {"cluster": {"worker": ["host:port", ...]}, "task": {"type": "worker", "index": 0}}'
_JOBS = ("chief", "worker")
# The host may be an IPv6 address in brackets.
_ADDRESS = re.compile(r"(?:\[[0-9a-fA-F:.%\w]+\]|[^\s:/\[\]]+):([0-9]{1,5})")
_SLURM = ("SLURM_PROCID", "SLURM_STEP_NODELIST", "SLURM_STEP_TASKS_PER_NODE")
# The tasks of a job on one host use adjacent ports; jobs that share a host rarely get the same ones.
_FIRST_PORT, _PORTS_A_JOB, _SLURM_JOBS = 12_000, 16, 1_000
_POLL, _TIMEOUT = 0.2, 2.0  # seconds
# After which a line says who is missing.
_SILENCE = 10.0


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


def parse_tf_config(text: str) -> tuple[list[str], int]:
    """(the addresses of all workers in their order, this worker's index) of a TF_CONFIG; a chief is the first.

    Raises:
      ValueError: it is not JSON of the expected form, names a job other than chief and worker, two workers have the
        same address, or the index is out of range.
    """
    try:
        config = json.loads(text)
        jobs, kind, index = dict(config["cluster"]), config["task"]["type"], int(config["task"]["index"])
        chiefs, others = (list(jobs.get(job, [])) for job in _JOBS)
        fault = _fault(jobs, kind, index)
    except (ValueError, RecursionError, KeyError, TypeError) as error:
        fault = f"is not of the expected form ({error!r:.80})"
    if fault:
        raise InputError(f"TF_CONFIG {fault}; {_FORM}. It reads: {text[:200]}")
    return chiefs + others, index + (len(chiefs) if kind == "worker" else 0)


def _fault(jobs: Mapping[str, Any], kind: str, index: int) -> str | None:
    """The first mistake of a cluster's jobs and this process's task, in words; None for none."""
    for job in (*jobs, kind):
        if job not in _JOBS:
            return f"has the job {job!r}: workers train together without parameter servers or an evaluator"
    workers = [address for addresses in jobs.values() for address in addresses]
    for address in workers:
        found = _ADDRESS.fullmatch(address)
        if found is None or not 1 <= int(found[1]) <= 65535:
            return f"has {address!r}, which is not an address"
    if len(set(workers)) < len(workers) or len(jobs.get("chief", [])) > 1:
        return "gives an address to two workers, or has two chiefs"
    return None if 0 <= index < len(jobs.get(kind, [])) else f"has no task {kind} {index} in its cluster"


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


def wait_for_all(text: str) -> None:
    """Returns when every other worker listens at its address, and has had the time to see this one.

    This worker listens at its own port meanwhile, and leaves it to TensorFlow then. A worker that is still waiting sees
    it again as soon as TensorFlow listens there.

    Args:
      text: a TF_CONFIG.

    Raises:
      ValueError: see `parse_tf_config`.
      Preempted: SIGTERM, Ctrl-C or SIGUSR1 came.
    """
    workers, index = parse_tf_config(text)
    missing = [address for number, address in enumerate(workers) if number != index]
    stop, own, said = StopRequest(), None, time.monotonic()
    with contextlib.ExitStack() as context:
        context.enter_context(stop.handling())
        while own is None or missing:
            # The port may still be that of a worker before this one, which ends.
            if own is None and (own := _listener(_split(workers[index])[1])):
                context.enter_context(own)
            missing = [address for address in missing if stop.requested or not _answers(address)]
            if stop.requested:
                raise Preempted(
                    "stopped on request while waiting for the other workers, with nothing new to save; the same "
                    "command resumes."
                )
            if time.monotonic() - said > _SILENCE:
                said = float("inf")
                waits = missing or [f"its own port of {workers[index]}, which is in use"]
                print(f"worker {index} waits for {', '.join(waits[:8])}", file=sys.stderr, flush=True)
            if own is None or missing:
                time.sleep(_POLL)


def _split(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def _listener(port: int) -> socket.socket | None:
    """A socket that listens at the port on all interfaces, as TensorFlow's; None while the port is in use."""
    try:
        if socket.has_dualstack_ipv6():
            return socket.create_server(("", port), family=socket.AF_INET6, backlog=1024, dualstack_ipv6=True)
        return socket.create_server(("", port), backlog=1024)
    except OSError:
        return None


def _answers(address: str) -> bool:
    """True if something listens at an address: the kernel answers for a worker, whatever that is doing."""
    with contextlib.suppress(OSError):
        socket.create_connection(_split(address), timeout=_TIMEOUT).close()
        return True
    return False
