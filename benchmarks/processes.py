"""Processes of a benchmark: one of several replicas, or the workers of a cluster on loopback."""

import json
import os
import subprocess
import sys
import tempfile

from tfbigbatch.cluster.local import free_addresses

_LOOPBACK = "/proc/net/dev"


def loopback_bytes():
    """Bytes that the loopback interface has carried; None where the machine does not tell."""
    if not os.path.exists(_LOOPBACK):
        return None
    with open(_LOOPBACK, encoding="utf-8") as file:
        return next((int(line.split()[1]) for line in file if line.strip().startswith("lo:")), None)


def strategy(replicas):
    """In a process of a benchmark: over `replicas` logical CPUs, or of a cluster's worker where that is None."""
    import tensorflow as tf

    from tfbigbatch.training import strategy as strategies

    if replicas:
        cpus = [tf.config.LogicalDeviceConfiguration()] * replicas
        tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], cpus)
    return strategies.choose("mirrored" if replicas else "multi_worker")[0]


def run(script, arguments, workers):
    """Runs a benchmark's processes; each writes JSON to the path in its flag --measure_into.

    Args:
      script: path of the benchmark.
      arguments: its flags.
      workers: processes of a cluster; None for one process.

    Returns:
      What each process wrote.
    """
    with tempfile.TemporaryDirectory() as folder:
        paths = [os.path.join(folder, f"{index}.json") for index in range(workers or 1)]
        processes = [
            subprocess.Popen(
                [sys.executable, "-W", "ignore", os.path.abspath(script), *arguments, f"--measure_into={path}"],
                env=environment,
                stderr=subprocess.PIPE,
                text=True,
            )
            for path, environment in zip(paths, _environments(workers))
        ]
        errors = [process.communicate()[1] for process in processes]
        for process, error in zip(processes, errors):
            if process.returncode:
                raise RuntimeError(f"a process of the benchmark failed:\n{error[-3000:]}")
        measured = []
        for path in paths:
            with open(path, encoding="utf-8") as file:
                measured.append(json.load(file))
    return measured


def _environments(workers):
    """The environment of each process: of one, or of a cluster's workers."""
    base = {**os.environ, "CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "3"}
    base.pop("TF_CONFIG", None)
    if not workers:
        return [base]
    cluster = {"worker": free_addresses(workers)}
    tasks = [{"type": "worker", "index": index} for index in range(workers)]
    return [{**base, "TF_CONFIG": json.dumps({"cluster": cluster, "task": task})} for task in tasks]
