"""Processes of a cluster on loopback, each of which calls a function of a test file and leaves what it returns.

`python -m tests.distributed.worker MODULE.FUNCTION DIRECTORY NAME DEVICES [ARGUMENT...]` calls FUNCTION(strategy,
directory, *arguments) as one worker of TF_CONFIG's cluster, of as many logical CPUs, and writes DIRECTORY/NAME0.npz,
NAME1.npz and so on. Without TF_CONFIG it is one process with a replica on each CPU.
"""

import importlib
import json
import os
import sys
import time
from unittest import mock

import numpy as np
import tensorflow as tf
from tensorflow.python.distribute.collective_all_reduce_strategy import CollectiveAllReduceExtended

from tests.helpers import preloaded
from tfbigbatch.cluster.local import free_addresses
from tfbigbatch.cluster.tf_config import parse_tf_config
from tfbigbatch.training.strategy import choose

LIMIT_SECONDS = 300


def run_together(workers, directory, function, *arguments, name="worker", devices=1):
    """Calls a function in `workers` processes; none of them outlives this call.

    Args:
      workers: number of processes.
      directory: pathlib.Path, for the outcomes and the processes' logs.
      function: of a test file, of (strategy, directory, *arguments); returns arrays by name.
      *arguments: texts.
      name: of the files with the outcomes.
      devices: logical CPUs of each process.

    Returns:
      what each process returned, in their order; an empty list if they ended without.
    """
    addresses = free_addresses(workers) if workers > 1 else []
    logs = [directory / f"{name}{i}.log" for i in range(workers)]
    called = f"{function.__module__}.{function.__name__}"
    processes = []
    try:
        for i, log in enumerate(logs):
            task = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": i}}
            environment = {"TF_CONFIG": json.dumps(task)} if addresses else {}
            log.write_text("")
            command = ["tests.distributed.worker", called, directory, name, devices, *arguments]
            processes.append(preloaded.start(*command, outputs=(log, log), **environment))
        end = time.monotonic() + LIMIT_SECONDS
        # The first that fails ends the wait: the others would wait for it.
        while None in (codes := [process.exitcode for process in processes]) and not any(codes):
            if time.monotonic() > end:
                break
            time.sleep(0.1)
    finally:
        for process in processes:
            process.kill()
            process.join()
    assert codes == [0] * workers, "\n".join(f"{log.name}: {log.read_text()[-3000:]}" for log in logs)
    paths = [directory / f"{name}{i}.npz" for i in range(workers)]
    return [dict(np.load(path)) for path in paths if path.exists()]


def strategy_of(devices):
    """MultiWorkerMirroredStrategy over several CPUs of each process, where TensorFlow's takes one; or mirrored."""
    cpus = [tf.config.LogicalDeviceConfiguration()] * devices
    tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], cpus)
    if "TF_CONFIG" not in os.environ:
        return choose("mirrored")[0]

    def local_devices(self, cluster_resolver, worker_device):
        return tuple(f"{worker_device}/device:CPU:{index}" for index in range(devices)), "CPU"

    with mock.patch.object(CollectiveAllReduceExtended, "_initialize_local_devices", local_devices):
        return choose("auto")[0]


def main(called, directory, name, devices, *arguments):
    strategy = strategy_of(int(devices))
    workers, index = parse_tf_config(os.environ["TF_CONFIG"]) if "TF_CONFIG" in os.environ else ([""], 0)
    outcomes = [os.path.join(directory, f"{name}{i}.npz") for i in range(len(workers))]
    module, _, function = called.rpartition(".")
    arrays = getattr(importlib.import_module(module), function)(strategy, directory, *arguments)
    np.savez(outcomes[index], **arrays)
    # None leaves before all are done: the first serves the cluster, and each has a part in the others' last exchange.
    while not all(map(os.path.exists, outcomes)):
        time.sleep(0.05)


if __name__ == "__main__":
    main(*sys.argv[1:])
