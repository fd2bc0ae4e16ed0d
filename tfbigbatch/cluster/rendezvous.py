"""Waits until all workers of a cluster have been started.

TensorFlow waits for them itself, but within a call of C++ that keeps Python's lock and replaces the handler of SIGTERM:
neither that nor Ctrl-C ends a worker there, and no line says what it waits for.
"""

from __future__ import annotations

import contextlib
import socket
import sys
import time

from tfbigbatch.cluster.tf_config import workers_of
from tfbigbatch.errors import Preempted
from tfbigbatch.utils.signals import StopRequest

_POLL, _TIMEOUT = 0.2, 2.0  # seconds
# After which a line says who is missing.
_SILENCE = 10.0


def wait(text: str) -> None:
    """Returns when every other worker listens at its address, and has had the time to see this one.

    This worker listens at its own port meanwhile, and leaves it to TensorFlow then. A worker that is still waiting sees
    it again as soon as TensorFlow listens there.

    Args:
      text: a TF_CONFIG.

    Raises:
      ValueError: see `tf_config.parse_tf_config`.
      Preempted: SIGTERM, Ctrl-C or SIGUSR1 came.
    """
    workers, index = workers_of(text)
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
