"""Proxies between worker, nodes and storage that can be made to fail."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from math import inf
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from airflow_provider_chs3.testbed.balancer import Door, copy, hang_up
from tests.support.narrow_user import narrow_connection

if TYPE_CHECKING:
    from airflow_provider_chs3.testbed.nodes import Cluster, Node

_HOST = "127.0.0.1"
#: An answer that ends in an error does not end in END_OF_STREAM; the server is silent after it.
_SILENCE_SECONDS = 1.0
_END_OF_STREAM = b"\x05"
#: The answer of a load balancer for a silent server.
GATEWAY_TIMEOUT = b"HTTP/1.1 504 Gateway Timeout\r\nContent-Length: 5\r\n\r\nlate\n"


class NodeProxy(Door):
    """A TCP proxy in front of the native port of one node, or of several in turn, as a load balancer."""

    def __init__(self, *node_ports: int) -> None:
        self.mode = "pass"
        super().__init__(*((_HOST, port) for port in node_ports))

    def fail(self, mode: str) -> None:
        """Fail so from now on: connections that are open are cut, as workers keep theirs; `pass` fixes it."""
        self.mode = mode
        if mode != "pass":
            self.cut()

    def _connect(self) -> socket.socket | None:
        return None if self.mode == "refuse" else super()._connect()

    def _answer(self, server: socket.socket, client: socket.socket) -> None:
        mode = self.mode
        with suppress(OSError):
            client.sendall(server.recv(65536))  # the greeting
            if mode == "begins":
                server.recv(1)
            elif mode == "ends":
                server.settimeout(_SILENCE_SECONDS)
                while (answer := server.recv(65536)) and not answer.endswith(_END_OF_STREAM):
                    pass
            else:
                copy(server, client)
        hang_up(server, client)


class Gateway(Door):
    """A load balancer of HTTP that gives up on servers which are silent for a moment.

    Args:
        *nodes: The servers.
        answer: What clients get then, if anything, before it hangs up on both sides.
    """

    def __init__(self, *nodes: Node, answer: bytes) -> None:
        self._given_up = answer
        super().__init__(*((node.host, node.http_port) for node in nodes))

    def _answer(self, server: socket.socket, client: socket.socket) -> None:
        server.settimeout(0.3)
        with suppress(OSError):
            try:
                begin = server.recv(65536)
            except TimeoutError:
                begin = self._given_up
            client.sendall(begin)
            copy(server, client)
        hang_up(server, client)


@dataclass
class Network:
    """A proxy in front of each node, or one in front of all; workers reach them through these alone."""

    proxies: list[NodeProxy]
    cluster: Cluster

    def airflow_connection(self) -> str:
        """The JSON of an Airflow connection that leads to the proxies."""
        connection = narrow_connection(self.cluster)
        if len(self.proxies) < len(self.cluster.nodes):
            extra = {**connection["extra"], "one_door": True, "send_receive_timeout_seconds": 20}
            return json.dumps({**connection, "port": self.proxies[0].port, "extra": extra})
        pairs = zip(self.cluster.nodes, self.proxies, strict=True)
        addresses = {f"{node.host}:{node.tcp_port}": f"{_HOST}:{proxy.port}" for node, proxy in pairs}
        extra = {**connection["extra"], "node_addresses": addresses, "send_receive_timeout_seconds": 20}
        return json.dumps({**connection, "port": self.proxies[0].port, "extra": extra})

    def strike(self, mode: str, *nodes: int) -> None:
        """Have all proxies, or those of some nodes, fail so from now on; `pass` fixes them."""
        for proxy in [self.proxies[node] for node in nodes] or self.proxies:
            proxy.fail(mode)

    @contextmanager
    def struck(self, mode: str, *nodes: int) -> Iterator[None]:
        """The same for a while."""
        self.strike(mode, *nodes)
        try:
            yield
        finally:
            self.strike("pass")


@contextmanager
def network(cluster: Cluster, *, has_one_door: bool = False) -> Iterator[Network]:
    """Proxies for a cluster."""
    ports = [node.tcp_port for node in cluster.nodes]
    proxies = [NodeProxy(*ports)] if has_one_door else [NodeProxy(port) for port in ports]
    try:
        yield Network(proxies, cluster)
    finally:
        for proxy in proxies:
            proxy.stop()


@dataclass(frozen=True)
class Answer:
    """The storage's answer to one request."""

    status: int
    body: bytes
    length: int | None = None


#: The request's method and path, and the true answer → what is answered.
Fault = Callable[[str, str, Answer], Answer]


class StorageProxy:
    """An HTTP proxy in front of the storage."""

    def __init__(self, endpoint_url: str) -> None:
        self.fault: Fault | None = None
        self.struck = 0
        self._storage = urlsplit(endpoint_url).netloc
        self._server = ThreadingHTTPServer((_HOST, 0), self._handler())
        self._server.daemon_threads = True
        self.endpoint_url = f"http://{_HOST}:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        def serve(request: BaseHTTPRequestHandler) -> None:
            self._serve(request)

        names = {"protocol_version": "HTTP/1.1", "do_GET": serve, "do_HEAD": serve, "log_message": lambda *_: None}
        return type("Handler", (BaseHTTPRequestHandler,), names)

    def _serve(self, request: BaseHTTPRequestHandler) -> None:
        connection = http.client.HTTPConnection(self._storage)
        # With the headers as they are: the signature covers the name of the host too.
        connection.request(request.command, request.path, headers=dict(request.headers.items()))
        response = connection.getresponse()
        true = answer = Answer(response.status, response.read(), int(response.getheader("Content-Length", 0)))
        connection.close()
        if self.fault:
            answer = self.fault(request.command, request.path, true)
            self.struck += answer is not true
        with suppress(OSError):
            _send(request, answer, response.getheaders())
        # Otherwise the client would wait for the bytes that were promised and not sent.
        request.close_connection = answer is not true


def _send(request: BaseHTTPRequestHandler, answer: Answer, headers: Iterable[tuple[str, str]]) -> None:
    request.send_response_only(answer.status)
    for name, value in headers:
        if name.lower() not in ("content-length", "connection", "transfer-encoding"):
            request.send_header(name, value)
    request.send_header("Content-Length", str(len(answer.body) if answer.length is None else answer.length))
    request.end_headers()
    if request.command != "HEAD":
        request.wfile.write(answer.body)


def refusing(status: int, code: str, *, times: float = inf) -> Fault:
    """S3's errors, for ever or so many times."""
    body = f"<?xml version='1.0' encoding='UTF-8'?><Error><Code>{code}</Code><Message>struck</Message></Error>"
    numbers = count()

    def answer(method: str, path: str, true: Answer) -> Answer:
        return Answer(status, body.encode()) if next(numbers) < times else true

    return answer


def slow(seconds: float) -> Fault:
    """Answers that take so long."""

    def answer(method: str, path: str, true: Answer) -> Answer:
        time.sleep(seconds)
        return true

    return answer


def truncated(*, is_announced: bool, times: float = inf) -> Fault:
    """Objects of which only the first half is sent, with a Content-Length of all of it or of that half."""
    numbers = count()

    def answer(method: str, path: str, true: Answer) -> Answer:
        if method != "GET" or not path.endswith((".parquet", ".jsonl")) or next(numbers) >= times:
            return true
        half = true.body[: max(1, len(true.body) // 2)]
        return Answer(true.status, half, len(true.body) if is_announced else None)

    return answer
