"""A local S3 server: moto in a separate process. It keeps objects in memory."""

from __future__ import annotations

import http.client
import importlib.util
import logging
import sys
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from airflow_provider_chs3.testbed.processes import (
    HOST,
    INSTALL_HINT,
    LocalServer,
    die_with_parent,
    free_ports,
    is_listening,
    spawn,
    wait_until,
)

_START_TIMEOUT_SECONDS = 180.0
_ALLOW_ALL = '{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}'


@dataclass(frozen=True)
class S3Endpoint:
    """An S3 server, however it was started, and its keys.

    Attributes:
        endpoint_url: Such as `http://127.0.0.1:9000`, without a slash at the end.
        access_key: Key id.
        secret_key: Its secret.
        region: Region, `us-east-1` by default.
    """

    endpoint_url: str
    access_key: str
    secret_key: str = field(repr=False)
    region: str = "us-east-1"

    def client(self, service: str = "s3", **options: Any) -> Any:
        """Return a boto3 client of this server.

        Args:
            service: AWS service; S3 by default.
            **options: Further arguments of `boto3.client`; they take precedence, such as another secret.

        Returns:
            The client.
        """
        import boto3

        defaults = {
            "endpoint_url": self.endpoint_url,
            "aws_access_key_id": self.access_key,
            "aws_secret_access_key": self.secret_key,
            "region_name": self.region,
        }
        return boto3.client(service, **{**defaults, **options})

    def named_collection(self) -> dict[str, str]:
        """Return the keys as ClickHouse's named collection; queries add the `filename` below this `url`."""
        return {
            "url": f"{self.endpoint_url}/",
            "access_key_id": self.access_key,
            "secret_access_key": self.secret_key,
        }

    def airflow_connection(self) -> dict[str, Any]:
        """Return the server as an Airflow connection, ready to be the JSON of `AIRFLOW_CONN_AWS_DEFAULT`."""
        return {
            "conn_type": "aws",
            "login": self.access_key,
            "password": self.secret_key,
            "extra": {"endpoint_url": self.endpoint_url, "region_name": self.region},
        }


@dataclass(frozen=True)
class S3Server(LocalServer, S3Endpoint):
    """A running server on this machine: `start` it, and `stop` it or use it in a `with` block.

    However this process ends, the server ends with it.
    """

    @classmethod
    def start(cls, *, anonymous: bool = False) -> Self:
        """Start a server and wait until it answers.

        Args:
            anonymous: False by default: each request needs a signature with the right secret. True: no signatures are
                needed, and objects put with `ACL="public-read"` can be read without keys, as in a public bucket. moto
                cannot do both.

        Returns:
            The running server.

        Raises:
            RuntimeError: If moto is not installed, or does not start; with the end of its log.
        """
        if importlib.util.find_spec("moto") is None:
            raise RuntimeError(f"The local S3 server (moto) is not installed; {INSTALL_HINT}")
        port = free_ports(1)[0]
        folder = Path(tempfile.mkdtemp(prefix="chs3-s3-"))
        process = spawn(__name__, str(port), log=folder / "s3.log")
        server = cls(f"http://{HOST}:{port}", "root", "root", process=process, folder=folder)
        try:
            wait_until(
                lambda: is_listening(port),
                process=process,
                name=f"The local S3 server (port {port})",
                logs=[folder / "s3.log"],
                timeout_seconds=_START_TIMEOUT_SECONDS,
            )
            return server if anonymous else server._with_checked_keys()
        except BaseException:
            server.stop()
            raise

    def _with_checked_keys(self) -> Self:
        iam = self.client("iam")
        iam.create_user(UserName="loader")
        iam.put_user_policy(UserName="loader", PolicyName="all", PolicyDocument=_ALLOW_ALL)
        key = iam.create_access_key(UserName="loader")["AccessKey"]
        # moto checks signatures and policies after this number of requests: with 0, from now on.
        connection = http.client.HTTPConnection(self.endpoint_url.removeprefix("http://"))
        connection.request("POST", "/moto-api/reset-auth", body=b"0")
        connection.getresponse().read()
        connection.close()
        return replace(self, access_key=key["AccessKeyId"], secret_key=key["SecretAccessKey"])


def _serve(port: str) -> None:
    from moto.server import main
    from werkzeug.serving import BaseWSGIServer

    # Three nodes that each read footers in 64 threads connect at once. The kernel drops what the queue has no room for.
    BaseWSGIServer.request_queue_size = 1_024
    # Logging a line per request would be most of the server's work.
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    main(["--host", HOST, "--port", port])


if __name__ == "__main__":
    die_with_parent()
    _serve(sys.argv[1])
