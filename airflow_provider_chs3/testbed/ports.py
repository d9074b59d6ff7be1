"""Free ports for the test bed's servers."""

from __future__ import annotations

import random
import socket

HOST = "127.0.0.1"

# Below Linux' range for outgoing connections (32768 and up): while a node is down, none of them can take its port.
_FIRST_PORT, _LAST_PORT = 15_000, 32_000


def free_ports(count: int) -> list[int]:
    """Return ports of 127.0.0.1 on which nothing listens.

    Args:
        count: How many.

    Returns:
        Distinct ports, by chance, so that two test runs side by side rarely want the same.
    """
    ports: list[int] = []
    for port in random.sample(range(_FIRST_PORT, _LAST_PORT), _LAST_PORT - _FIRST_PORT):
        if len(ports) == count:
            break
        with socket.socket() as probe:
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
        ports.append(port)
    return ports


def is_listening(port: int) -> bool:
    """Return whether a server accepts connections on a port of 127.0.0.1."""
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0
