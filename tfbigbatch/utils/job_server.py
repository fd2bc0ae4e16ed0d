"""Starts jobs as forks of a process that has imported TensorFlow: python -m tfbigbatch.utils.job_server FD MODULE...

`processes.run_jobs` starts it and asks for children by the socket FD. TensorFlow is imported and nothing of it is run,
so that there are no threads or devices that a fork would break; and a child, which runs one job, leaves no state to the
next. A message is a JSON dictionary. From the parent: 'fork', with the child's stdin and log as file descriptors; or
'signal' for a child, by its 'pid'. To the parent: 'forked', a pid; or 'ended', a pid, and its exit 'code'.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import select
import signal
import socket
import sys
from typing import Any

from tfbigbatch.utils import command, job_process, startup
from tfbigbatch.utils.processes import MESSAGE_BYTES


def main(arguments: list[str]) -> None:
    # The parent alone decides what a Ctrl-C means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    channel = socket.socket(fileno=int(arguments[0]))
    startup.import_tensorflow()
    for name in arguments[1:]:
        importlib.import_module(name)
    readable, writable = os.pipe()
    os.set_blocking(writable, False)
    signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    running: set[int] = set()
    while True:
        watched: list[Any] = [channel, readable]
        ready, _, _ = select.select(watched, [], [])
        if readable in ready:
            os.read(readable, MESSAGE_BYTES)
            _report(running, channel)
        if channel in ready:
            content, descriptors, _, _ = socket.recv_fds(channel, MESSAGE_BYTES, 2)
            if not content:
                # The parent ended. Its end of each child's stdin is closed too, and stops the child.
                return
            request = json.loads(content)
            if "signal" in request:
                # A child that was waited for may have left its number to another process.
                if request["pid"] in running:
                    os.kill(request["pid"], request["signal"])
                continue
            pid = os.fork()
            if not pid:
                _become_job(channel, (readable, writable), descriptors)
                return
            running.add(pid)
            for descriptor in descriptors:
                os.close(descriptor)
            _send(channel, {"forked": pid})


def _report(running: set[int], channel: socket.socket) -> None:
    """Tells the parent which children ended."""
    for pid in list(running):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            running.remove(pid)
            _send(channel, {"ended": pid, "code": os.waitstatus_to_exitcode(status)})


def _send(channel: socket.socket, content: dict[str, Any]) -> None:
    with contextlib.suppress(OSError):  # The parent ended: the next message from it is its end.
        channel.send(json.dumps(content).encode())


def _become_job(channel: socket.socket, pipe: tuple[int, int], descriptors: list[int]) -> None:
    """In the child: does what a new process of `job_process` does, and ends as that."""
    import numpy as np

    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    channel.close()
    for descriptor in pipe:
        os.close(descriptor)
    os.setsid()
    stdin, log = descriptors
    for descriptor, stream in ((stdin, 0), (log, 1), (log, 2)):
        os.dup2(descriptor, stream)
    for descriptor in descriptors:
        os.close(descriptor)
    # A new process would have its own; Python's `random` sees to it by itself.
    np.random.seed()
    sys.argv = [job_process.__file__]
    command.execute(job_process.main)


if __name__ == "__main__":
    main(sys.argv[1:])
