"""TF_CONFIG: the cluster's addresses and this process's place among them, in JSON."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from typing import Any

from tfbigbatch.errors import InputError

_FORM = 'expected {"cluster": {"worker": ["host:port", ...]}, "task": {"type": "worker", "index": 0}}'
_JOBS = ("chief", "worker")
# The host may be an IPv6 address in brackets.
_ADDRESS = re.compile(r"(?:\[[0-9a-fA-F:.%\w]+\]|[^\s:/\[\]]+):([0-9]{1,5})")


def joins_cluster(strategy_name: str, tpu: str | None) -> bool:
    """Whether a run by `--strategy` and `--tpu` is one of several workers."""
    return strategy_name == "multi_worker" or (
        strategy_name == "auto" and tpu is None and bool(os.environ.get("TF_CONFIG"))
    )


def is_first(strategy_name: str, tpu: str | None) -> bool:
    """Whether this process is its cluster's first, which alone writes the run directory, or runs by itself.

    Raises:
      ValueError: see `parse_tf_config`.
    """
    text = os.environ.get("TF_CONFIG")
    return not (text and joins_cluster(strategy_name, tpu)) or parse_tf_config(text)[1] == 0


def parse_tf_config(text: str) -> tuple[int, int]:
    """(number of workers, this worker's index) of a TF_CONFIG; a chief is the first.

    Raises:
      ValueError: it is not JSON of the expected form, names a job other than chief and worker, two workers have the
        same address, or the index is out of range.
    """
    addresses, index = workers_of(text)
    return len(addresses), index


def workers_of(text: str) -> tuple[list[str], int]:
    """(the addresses of all workers in their order, this worker's index); see `parse_tf_config`."""
    try:
        config = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"TF_CONFIG is not JSON ({error}); {_FORM}. It reads: {text[:200]}") from None
    try:
        cluster, kind, index = config["cluster"], config["task"]["type"], int(config["task"]["index"])
        jobs = dict(cluster)
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"TF_CONFIG lacks or mistypes {error}; {_FORM}. It reads: {text[:200]}") from None
    for job in (*jobs, kind):
        if job not in _JOBS:
            raise InputError(
                f"TF_CONFIG has the job {job!r}: workers train together without parameter servers or an evaluator; "
                f"expected {' and '.join(_JOBS)} alone. It reads: {text[:200]}"
            )
    for job, addresses in jobs.items():
        _check_addresses(job, addresses)
    workers = [address for job in _JOBS for address in jobs.get(job, [])]
    twice = [address for address, count in Counter(workers).items() if count > 1]
    if twice:
        raise InputError(
            f"TF_CONFIG gives {twice[0]} to two workers; expected an address of its own for each, which may differ in "
            "the port."
        )
    if not 0 <= index < len(jobs.get(kind, [])):
        raise InputError(f"TF_CONFIG: task {kind} {index} is not in the cluster of {len(workers)} worker(s); {_FORM}.")
    return workers, index + (len(jobs.get("chief", [])) if kind == "worker" else 0)


def _check_addresses(job: str, addresses: Any) -> None:
    if not isinstance(addresses, list):
        raise InputError(f"TF_CONFIG: {job!r} is {addresses!r}; expected a list of addresses, such as ['host:12345'].")
    if job == "chief" and len(addresses) > 1:
        raise InputError(f"TF_CONFIG has {len(addresses)} chiefs; expected one, and the others as workers.")
    for address in addresses:
        found = _ADDRESS.fullmatch(address) if isinstance(address, str) else None
        if found is None or not 1 <= int(found[1]) <= 65535:
            raise InputError(
                f"TF_CONFIG: {address!r} of {job!r} is not an address; expected 'host:port', such as 'host0:12345'."
            )
