"""Chooses the tf.distribute strategy from the flags and the machine."""

from __future__ import annotations

import functools
import os
import signal
import socket
import urllib.parse
from collections.abc import Callable

import tensorflow as tf

from tfbigbatch.cluster.tf_config import joins_cluster, parse_tf_config, wait_for_all
from tfbigbatch.cluster.watchdog import worker_loss
from tfbigbatch.errors import InputError, WorkerLost, first_line
from tfbigbatch.utils.signals import reinstall_handler

LOCAL = "local"
_PORT = 8470
_SECONDS = 5.0


def choose(
    name: str = "auto", tpu: str | None = None, simulated_replicas: int = 0
) -> tuple[tf.distribute.Strategy, str]:
    """The strategy named by `--strategy`, or the best one for the machine.

    `auto`: a TPU if one is named, else several workers if TF_CONFIG is set, else all GPUs, else
    the CPU.

    Args:
      name: of `options.STRATEGIES`.
      tpu: None, or the TPU's name.
      simulated_replicas: 0, or the number of logical CPUs of this machine to mirror over: they compute what as
        many devices would, more slowly.

    Returns:
      (strategy, what was chosen and why, for the banner).

    Raises:
      ValueError: the TPU cannot be reached, TF_CONFIG does not parse, the choice and the environment contradict each
        other, or this process has started TensorFlow with fewer logical CPUs or has had a run on another number of
        replicas.
    """
    if tpu is not None and name not in ("auto", "tpu"):
        raise InputError(f"--tpu={tpu} contradicts --strategy={name}: leave one out.")
    if name == "tpu" and tpu is None:
        raise InputError("--strategy=tpu needs --tpu: 'local' on a TPU VM, the TPU's name, or its grpc:// address.")
    if name == "multi_worker" and not os.environ.get("TF_CONFIG"):
        raise InputError(
            "--strategy=multi_worker needs TF_CONFIG in the environment of every worker, such as "
            '{"cluster": {"worker": ["host0:12345", "host1:12345"]}, "task": {"type": "worker", "index": 0}}; '
            "or, under Slurm, that srun starts it with several tasks."
        )

    if simulated_replicas:
        return _simulated(name, tpu, simulated_replicas)
    if tpu is not None:
        return tpu_strategy(tpu), f"tpu {tpu}"
    if joins_cluster(name, tpu):
        workers, index = parse_tf_config(os.environ["TF_CONFIG"])
        return _multi_worker_strategy(), f"multi_worker, worker {index} of {len(workers)} in TF_CONFIG"
    gpus = tf.config.list_logical_devices("GPU")
    devices = gpus or tf.config.list_logical_devices("CPU")
    kind = "GPU" if gpus else "CPU"
    if name == "mirrored" or (name == "auto" and len(gpus) > 1):
        strategy = _mirrored_strategy(tuple(device.name for device in devices))
        return strategy, f"mirrored over {len(devices)} {kind}{'s' if len(devices) > 1 else ''}"
    return tf.distribute.OneDeviceStrategy(devices[0].name), f"one_device, the first of {len(devices)} {kind}(s)"


def _simulated(name: str, tpu: str | None, replicas: int) -> tuple[tf.distribute.Strategy, str]:
    if replicas < 2 or name not in ("auto", "mirrored") or tpu is not None or os.environ.get("TF_CONFIG"):
        raise InputError(
            f"simulated_replicas={replicas}: expected 2 or more, in one process on this machine's CPU, without --tpu, "
            f"TF_CONFIG or --strategy={name}; 0 for the devices that there are."
        )
    cpu = tf.config.list_physical_devices("CPU")[0]
    try:
        if len(tf.config.get_logical_device_configuration(cpu) or ()) < replicas:
            tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * replicas)
            # The replicas wait for each other: with fewer threads than these, an evaluation has hung.
            tf.config.threading.set_inter_op_parallelism_threads(replicas + 1)
    except RuntimeError:
        raise InputError(
            f"simulated_replicas={replicas}: TensorFlow has started in this process with "
            f"{len(tf.config.list_logical_devices('CPU'))} logical CPU(s), and makes no more. Start the run in a "
            "process of its own (the commands that run several take --processes=2); a Keras object with variables in "
            "an experiment file, as a metric, starts TensorFlow too: name it, as 'accuracy'."
        ) from None
    # By the same names as above: all CPUs are one strategy, however they were asked for.
    strategy = _mirrored_strategy(tuple(device.name for device in tf.config.list_logical_devices("CPU")[:replicas]))
    return strategy, f"mirrored over {replicas} simulated replicas, logical CPUs of this machine"


def is_multi_worker(strategy: tf.distribute.Strategy) -> bool:
    """True if several processes train together."""
    return isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)


def is_tpu(strategy: tf.distribute.Strategy) -> bool:
    """True if a strategy is of a TPU, where steps are always compiled."""
    return isinstance(strategy, tf.distribute.TPUStrategy)


def any_worker(strategy: tf.distribute.Strategy, wanted: bool) -> bool:
    """True if `wanted` is true on any worker of a cluster; every worker calls it."""
    answers = strategy.experimental_local_results(_asking(strategy)(tf.constant(float(wanted))))
    return bool(answers[0].numpy() > 0.0)


@functools.cache
def _asking(strategy: tf.distribute.Strategy) -> Callable[[tf.Tensor], tf.Tensor]:
    def ask(mine: tf.Tensor) -> tf.Tensor:
        return tf.distribute.get_replica_context().all_reduce("SUM", tf.identity(mine))

    return tf.function(lambda mine: strategy.run(ask, (mine,)))


# These strategies are created once in a process. A second one would reuse the keys of the first one's collective
# operations, which fails on other shapes, or restart them while other workers use them.


# The number of devices of this process's MirroredStrategy, if there is one.
_mirrored_over: list[int] = []


@functools.cache
def _mirrored_strategy(devices: tuple[str, ...]) -> tf.distribute.Strategy:
    if _mirrored_over and len(devices) not in _mirrored_over:
        raise InputError(
            f"simulated_replicas={len(devices)}: this process has had a run on {_mirrored_over[0]} replicas, and "
            "TensorFlow's collective operations keep that number. Start the run in a process of its own."
        )
    _mirrored_over.append(len(devices))
    return tf.distribute.MirroredStrategy(list(devices))


@functools.cache
def _multi_worker_strategy() -> tf.distribute.Strategy:
    # TensorFlow would wait for the others without hearing a signal.
    wait_for_all(os.environ["TF_CONFIG"])
    try:
        # A worker that freezes or ends while the others join fails them: all have to be started again.
        with worker_loss():
            strategy = tf.distribute.MultiWorkerMirroredStrategy()
    except WorkerLost:
        raise
    except (tf.errors.OpError, RuntimeError, ValueError) as error:
        raise InputError(
            f"the cluster of TF_CONFIG cannot be joined: {first_line(error)}. Expected this process's "
            "own address to be free and the other workers to be started."
        ) from None
    # TensorFlow's coordination service has put a handler of its own in the place of Python's: nobody would hear of it.
    reinstall_handler(signal.SIGTERM)
    return strategy


# Created once in a process: initialising the TPU again would lose all variables on it.
@functools.cache
def tpu_strategy(name: str) -> tf.distribute.Strategy:
    """The TPUStrategy of a TPU.

    Args:
      name: 'local' on a TPU VM, the TPU's name in the project, or its grpc:// address.

    Raises:
      ValueError: no TPU answers.
    """
    try:
        if "://" in name:
            # TensorFlow itself would retry for minutes.
            address = urllib.parse.urlsplit(name)
            socket.create_connection((address.hostname or "", address.port or _PORT), timeout=_SECONDS).close()
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu=name)
        if name != LOCAL:
            tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
    except Exception as error:  # The resolver raises whatever its cloud client raises.
        raise InputError(
            f"--tpu={name}: no TPU answers under this name ({first_line(error)}). Expected 'local' on a TPU VM with "
            "the tensorflow-tpu package, the TPU's name in your project, or its grpc:// address; see docs/tpu.md."
        ) from None
    return tf.distribute.TPUStrategy(resolver)
