"""Free ports of loopback."""

import socket

from tfbigbatch.cluster.loopback import free_addresses, free_ports


def test_ports_differ_and_can_be_listened_at_together():
    ports = free_ports(20)
    assert len(set(ports)) == 20
    servers = [socket.create_server(("127.0.0.1", port)) for port in ports]
    for server in servers:
        server.close()


def test_an_address_has_a_port():
    (address,) = free_addresses(1)
    host, port = address.split(":")
    socket.create_server((host, int(port))).close()
    assert host == "127.0.0.1"
