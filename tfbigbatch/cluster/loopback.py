"""Free ports of this machine's loopback interface, for the workers of a cluster on one machine."""

from __future__ import annotations

import contextlib
import socket


def free_ports(count: int) -> list[int]:
    """Different ports at which nothing listens; another program may take one before it is used."""
    with contextlib.ExitStack() as open_together:  # So that no two are the same.
        servers = [open_together.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [server.getsockname()[1] for server in servers]


def free_addresses(count: int) -> list[str]:
    """The same as addresses of a `TF_CONFIG`: "127.0.0.1:PORT"."""
    return [f"127.0.0.1:{port}" for port in free_ports(count)]
