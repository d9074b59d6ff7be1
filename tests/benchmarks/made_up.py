"""A server that makes up pages of ListObjectsV2: as many objects as asked for, without one of them, at any distance."""

from __future__ import annotations

import multiprocessing
import os
import time
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from airflow_provider_chs3.core.model.models import Fingerprint
from airflow_provider_chs3.testbed.processes import HOST, free_ports, is_listening
from airflow_provider_chs3.testbed.s3 import S3Endpoint

_PAGE = 1000
_BEFORE = "<Contents><Key>"
#: The ETag of one byte.
_ETAG = "9dd4e461268c8034f5c8564e155c67a6"
_AFTER = (
    ".parquet</Key><LastModified>2026-11-21T10:00:00.000Z</LastModified>"
    f"<ETag>&quot;{_ETAG}&quot;</ETag><Size>1</Size><StorageClass>STANDARD</StorageClass></Contents>"
)
_HEAD = (
    '<?xml version="1.0" encoding="UTF-8"?>\n<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
    "<Name>b</Name><MaxKeys>1000</MaxKeys><EncodingType>url</EncodingType>"
)


@dataclass(frozen=True, kw_only=True)
class MadeUp:
    """Objects that are only listed."""

    periods: Sequence[str]
    of_each: int
    seconds: float = 0.0

    @property
    def key(self) -> str:
        """Names the period."""
        return "made-up/{YYYY-MM}/*.parquet"

    @property
    def count(self) -> int:
        """Objects of all periods."""
        return self.of_each * len(self.periods)

    def fingerprints(self, bucket: str) -> dict[str, str]:
        """Period to the fingerprint of its objects."""
        found = {}
        for period in self.periods:
            start, fingerprint = f"{bucket}/{self._start(period)}", Fingerprint()
            paths = [f"{start}{number:08}.parquet" for number in range(self.of_each)]
            fingerprint.add(paths, [1] * self.of_each, [_ETAG] * self.of_each)
            found[period] = str(fingerprint)
        return found

    def page(self, prefix: str, token: str) -> bytes:
        """A page of a listing; tokens are how many objects come before it, in all periods."""
        starts = [self._start(period) for period in self.periods]
        low, high = bisect_left(starts, prefix), bisect_left(starts, f"{prefix}\U0010ffff")
        first, end = int(token or low * self.of_each), high * self.of_each
        last = min(first + _PAGE, end)
        of_period, objects = self.of_each, []
        for at in range(first, last):
            period, number = divmod(at, of_period)
            objects.append(f"{_BEFORE}{starts[period]}{number:08}{_AFTER}")
        more = f"<IsTruncated>true</IsTruncated><NextContinuationToken>{last}</NextContinuationToken>"
        ended = "<IsTruncated>false</IsTruncated>"
        return f"{_HEAD}{more if last < end else ended}{''.join(objects)}</ListBucketResult>".encode()

    @staticmethod
    def _start(period: str) -> str:
        return f"made-up/{period}/part-"


@dataclass(frozen=True)
class MadeUpServer:
    """It runs."""

    endpoint: S3Endpoint
    pid: int

    def cpu_seconds(self) -> float:
        """Return what it has used so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def made_up_server(objects: MadeUp) -> Iterator[MadeUpServer]:
    """A server of them, which answers whoever asks."""
    port = free_ports(1)[0]
    process = multiprocessing.get_context("spawn").Process(target=_serve, args=(port, objects), daemon=True)
    process.start()
    try:
        while not is_listening(port):
            if not process.is_alive():
                raise RuntimeError("The server of made-up objects does not start.")
            time.sleep(0.05)
        yield MadeUpServer(S3Endpoint(f"http://{HOST}:{port}", "a", "b"), process.pid or 0)
    finally:
        process.kill()
        process.join()


def _serve(port: int, objects: MadeUp) -> None:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Head and body in one piece: else the second waits until the first is acknowledged.
        wbufsize = -1

        def do_GET(self) -> None:
            asked = parse_qs(urlsplit(self.path).query)
            body = objects.page(asked.get("prefix", [""])[0], asked.get("continuation-token", [""])[0])
            time.sleep(objects.seconds)
            self.send_response(200)
            self.send_header("Content-Type", "application/xml")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            pass

    ThreadingHTTPServer((HOST, port), Handler).serve_forever()
