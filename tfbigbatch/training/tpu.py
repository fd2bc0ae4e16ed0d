"""From --tpu to a TPUStrategy, or to an error within seconds: TensorFlow itself would ask again for minutes."""

import functools
import glob
import os
import socket
import urllib.parse

import tensorflow as tf

from tfbigbatch.errors import InputError

LOCAL = "local"
# Google Cloud's server that tells a machine about itself; TensorFlow asks it where a named TPU is.
_METADATA = ("metadata.google.internal", 80)
_PORT = 8470
_SECONDS = 5.0
# A TPU VM's chips: the first for v2 to v4, the second for v5e and on. The third are all PCI devices' makers.
_DEVICES, _VENDORS, _GOOGLE = ("/dev/accel*", "/dev/vfio/[0-9]*"), "/sys/bus/pci/devices/*/vendor", "0x1ae0"


# Made once a process: initialising the TPU again would lose all variables on it.
@functools.cache
def tpu_strategy(name):
    """The TPUStrategy over a TPU.

    Args:
      name: 'local' on a TPU VM, the TPU's name in the project, or its grpc:// address.

    Raises:
      ValueError: no TPU answers.
    """
    missing = _missing(name)
    if missing:
        raise _none_answers(name, missing)
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu=name)
        if name != LOCAL:
            tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
    except Exception as error:  # The resolver raises whatever its cloud client raises.
        first_line = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise _none_answers(name, first_line) from None
    return tf.distribute.TPUStrategy(resolver)


def _missing(name):
    """Words for why nothing can answer, found out in seconds; None where something may."""
    if name == LOCAL:
        return None if _has_chips() else "this machine has no TPU chip: no /dev/accel0, no /dev/vfio/0"
    if "://" in name:
        address = urllib.parse.urlsplit(name)
        return _unreachable(address.hostname or "", address.port or _PORT)
    unreachable = _unreachable(*_metadata())
    if unreachable:
        return f"names are looked up through Google Cloud, and this machine is not on it: {unreachable}"
    return None


def _has_chips():
    if any(glob.glob(pattern) for pattern in _DEVICES):
        return True
    return any(_read(path) == _GOOGLE for path in glob.glob(_VENDORS))


def _read(path):
    try:
        with open(path, encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def _metadata():
    host, _, port = os.environ.get("GCE_METADATA_IP", "").partition(":")
    return (host, int(port or _METADATA[1])) if host else _METADATA


def _unreachable(host, port):
    try:
        socket.create_connection((host, port), timeout=_SECONDS).close()
    except OSError as error:
        return f"{host}:{port} does not answer ({error.strerror or error or type(error).__name__})"
    return None


def _none_answers(name, why):
    return InputError(
        f"--tpu={name}: no TPU answers under this name ({why}). Expected 'local' on a TPU VM with the tensorflow-tpu "
        "package, the TPU's name in your project, or its grpc:// address; see docs/tpu.md."
    )
