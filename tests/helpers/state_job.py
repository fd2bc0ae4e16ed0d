"""A job that says what it finds of the jobs before it, and leaves state to those after it."""

import json
import os
import random
import signal
import sys

import numpy as np

SEEN = []


def job(path, name, then=""):
    """Writes what it finds to `path`; `then` is how it ends: at its own end, by "kill" or by "error"."""
    found = {
        "seen": list(SEEN),
        "environment": {key: os.environ.get(key) for key in ("MADE_UP", "LEFT", "TF_NUM_INTRAOP_THREADS")},
        "folder": os.getcwd(),
        "parent": os.getppid(),
        "session": os.getsid(0) == os.getpid(),
        "arguments": sys.argv[1:],
        "tensorflow": "tensorflow" in sys.modules,
        "random": [random.random(), float(np.random.rand())],
        "threads": len(os.listdir("/proc/self/task")) if os.path.exists("/proc") else 1,
    }
    with open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps(found) + "\n")
    SEEN.append(name)
    os.environ["LEFT"] = name
    os.chdir("/")
    print("said by", name)
    if then == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if then == "error":
        raise RuntimeError("the disk is on fire")
    if "tensorflow" in sys.modules:
        import tensorflow as tf

        tf.config.set_logical_device_configuration(
            tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
        )
        assert len(tf.config.list_logical_devices("CPU")) == 2
        assert float(tf.function(lambda x: x * 2.0)(tf.constant(3.0))) == 6.0
