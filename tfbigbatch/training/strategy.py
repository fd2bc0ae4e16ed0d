"""From the flags and the machine to a tf.distribute strategy."""

import functools
import json
import os

import tensorflow as tf

from tfbigbatch.errors import InputError, nearest
from tfbigbatch.training.tpu import tpu_strategy

STRATEGIES = ("auto", "one_device", "mirrored", "multi_worker", "tpu")


def choose(name="auto", tpu=None, simulated_replicas=0):
    """The strategy named by `--strategy`, or the one that suits the machine.

    `auto`: a TPU if one is named, else several workers if TF_CONFIG is set, else all GPUs, else
    the CPU.

    Args:
      name: of STRATEGIES.
      tpu: None, or the TPU's name.
      simulated_replicas: 0, or the number of logical CPUs of this machine to mirror over: what they compute
        is what as many devices would, in more time.

    Returns:
      (strategy, what was chosen and why, for the banner).

    Raises:
      ValueError: the name is unknown, the TPU cannot be reached, TF_CONFIG does not parse, the
        choice and the environment contradict each other, or TensorFlow has started with fewer logical CPUs.
    """
    if name not in STRATEGIES:
        raise InputError(f"--strategy={name} is unknown. {nearest(name, STRATEGIES)}")
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
    if name == "multi_worker" or (name == "auto" and os.environ.get("TF_CONFIG")):
        workers, index = parse_tf_config(os.environ["TF_CONFIG"])
        return _multi_worker_strategy(), f"multi_worker, worker {index} of {workers} in TF_CONFIG"
    gpus = tf.config.list_logical_devices("GPU")
    devices = gpus or tf.config.list_logical_devices("CPU")
    kind = "GPU" if gpus else "CPU"
    if name == "mirrored" or (name == "auto" and len(gpus) > 1):
        strategy = _mirrored_strategy(tuple(device.name for device in devices))
        return strategy, f"mirrored over {len(devices)} {kind}{'s' if len(devices) > 1 else ''}"
    return tf.distribute.OneDeviceStrategy(devices[0].name), f"one_device, the first of {len(devices)} {kind}(s)"


def _simulated(name, tpu, replicas):
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
            "process of its own; the commands that run several take --processes=2."
        ) from None
    strategy = _mirrored_strategy(tuple(f"CPU:{index}" for index in range(replicas)))
    return strategy, f"mirrored over {replicas} simulated replicas, logical CPUs of this machine"


def parse_tf_config(text):
    """(number of workers, this worker's index) in the TF_CONFIG `text`.

    Raises:
      ValueError: it is not JSON of the expected form, or the index is out of range.
    """
    form = 'expected {"cluster": {"worker": ["host:port", ...]}, "task": {"type": "worker", "index": 0}}'
    try:
        config = json.loads(text)
    except ValueError as error:
        raise InputError(f"TF_CONFIG is not JSON ({error}); {form}. It reads: {text[:200]}") from None
    try:
        cluster, kind, index = config["cluster"], config["task"]["type"], int(config["task"]["index"])
        workers = [address for role in ("chief", "worker") for address in cluster.get(role, [])]
        mine = cluster[kind]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"TF_CONFIG lacks or mistypes {error}; {form}. It reads: {text[:200]}") from None
    if kind not in ("chief", "worker") or not 0 <= index < len(mine):
        raise InputError(f"TF_CONFIG: task {kind} {index} is not in the cluster of {len(workers)} worker(s); {form}.")
    return len(workers), index + (len(cluster.get("chief", [])) if kind == "worker" else 0)


def is_chief(strategy):
    """True in the one process that writes the run directory."""
    if not is_multi_worker(strategy):
        return True
    resolver = strategy.cluster_resolver
    cluster = resolver.cluster_spec().as_dict()
    return resolver.task_type == "chief" or ("chief" not in cluster and resolver.task_id == 0)


def is_multi_worker(strategy):
    """True where several processes train together."""
    return isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)


def is_tpu(strategy):
    """True on a TPU, whose steps are always compiled."""
    return isinstance(strategy, tf.distribute.TPUStrategy)


def barrier(strategy):
    """Returns once every worker of a cluster has called it; at once where there is one process."""
    if is_multi_worker(strategy):

        def arrive():
            return tf.distribute.get_replica_context().all_reduce("SUM", tf.constant(1.0))

        @tf.function
        def arrive_everywhere():
            return strategy.run(arrive)

        for arrivals in strategy.experimental_local_results(arrive_everywhere()):
            arrivals.numpy()


def any_worker(strategy, wanted):
    """Whether `wanted` is true on any worker of a cluster, on all of which it is called; a bool."""
    answers = strategy.experimental_local_results(_asking(strategy)(tf.constant(1.0 if wanted else 0.0)))
    return bool(answers[0].numpy() > 0.0)


@functools.cache
def _asking(strategy):
    def ask(mine):
        return tf.distribute.get_replica_context().all_reduce("SUM", tf.identity(mine))

    return tf.function(lambda mine: strategy.run(ask, (mine,)))


# These strategies are made once a process. A second one would use the keys of the first one's collective
# operations again, which fails on other shapes, or restart them under the feet of the other workers.


@functools.cache
def _mirrored_strategy(devices):
    return tf.distribute.MirroredStrategy(list(devices))


@functools.cache
def _multi_worker_strategy():
    try:
        return tf.distribute.MultiWorkerMirroredStrategy()
    except (tf.errors.OpError, RuntimeError, ValueError) as error:
        raise InputError(
            f"the cluster of TF_CONFIG cannot be joined: {str(error).strip().splitlines()[0]}. Expected this process's "
            "own address to be free and the other workers to be started."
        ) from None
