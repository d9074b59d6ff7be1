"""Requests to WebHDFS, to whichever name node leads."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from airflow_provider_chs3.client.extras import Extras
from airflow_provider_chs3.exceptions import ConfigurationError, SourceError, TransientError

if TYPE_CHECKING:
    import httpx
    from airflow.providers.common.compat.sdk import Connection

_PORT, _TLS_PORT = 9870, 9871
#: A name node answers within milliseconds, and pauses for seconds at most; a page has a thousand files.
_CONNECT_SECONDS, _ANSWER_SECONDS = 3.0, 15.0
#: A connection that is refused or lost is tried again, within about a second.
_MORE_TRIES = 2
#: A name node that does not lead refuses with it; another of the connection's hosts does.
_STANDBY = "StandbyException"
_NOT_FOUND = "FileNotFoundException"
#: Errors of a gateway that lacks an operation, or does not allow it to the user.
_UNANSWERED = ("HTTP status 400", "IllegalArgumentException", "UnsupportedOperationException", "AccessControlException")
#: Errors that will not pass by themselves: HDFS's exception → its meaning.
_TERMINAL = {
    "AccessControlException": "access is denied: the user of the connection (login) needs r and x on every folder",
    "SecurityException": "the user of the connection (login) is not accepted",
    "AuthenticationException": "the user of the connection (login) is not accepted, or HDFS asks for Kerberos",
}
_UNAUTHORIZED = 401


@dataclass(frozen=True, kw_only=True)
class WebHdfsAccess:
    """The access that a connection gives."""

    urls: tuple[str, ...]
    user: str
    password: str | None = field(repr=False)
    verify: bool

    @classmethod
    def of(cls, connection: Connection) -> WebHdfsAccess:
        """Read a connection: as Airflow's provider for HDFS does, which need not be installed."""
        where = f"connection {connection.conn_id!r}"
        extras = Extras(connection.extra_dejson, where=f"{where}, extra")
        hosts = [host.strip() for host in (connection.host or "").split(",") if host.strip()]
        if not hosts:
            raise ConfigurationError(f"The {where} has no host: set the name node, or several with commas.")
        is_tls = extras.flag("use_ssl", default=False)
        port = connection.port or (_TLS_PORT if is_tls else _PORT)
        folder = f"/{connection.schema.strip('/')}" if connection.schema else ""
        urls = [f"{'https' if is_tls else 'http'}://{host}:{port}{folder}/webhdfs/v1" for host in hosts]
        verify = extras.flag("verify", default=True)
        return cls(urls=tuple(urls), user=connection.login or "", password=connection.password or None, verify=verify)


class WebHdfsClient:
    """Asks the name node that leads."""

    def __init__(self, access: WebHdfsAccess, where: str) -> None:
        import httpx

        # It logs the URL of every request.
        logging.getLogger("httpx").setLevel(logging.WARNING)
        self._access, self._where = access, where
        self._urls = list(access.urls)
        verify = ssl.create_default_context() if access.verify else False
        self._http = httpx.Client(
            transport=httpx.HTTPTransport(verify=verify, retries=_MORE_TRIES, trust_env=False),
            timeout=httpx.Timeout(_ANSWER_SECONDS, connect=_CONNECT_SECONDS),
            auth=(access.user, access.password) if access.password else None,
            trust_env=False,
        )

    def __enter__(self) -> WebHdfsClient:
        return self

    def __exit__(self, *error: object) -> None:
        self._http.close()

    def folder(self, folder: str) -> Iterator[list[dict[str, Any]]]:
        """Yield the pages of a folder's entries; none if there is no such folder."""
        start_after = ""
        while True:
            response = self._ask("GET", folder, {"op": "LISTSTATUS_BATCH", "startAfter": start_after}, doing="list")
            if response is None:
                return
            try:
                answer = response.json()
            except ValueError:
                where = str(response.url).partition("?")[0]
                raise SourceError(f"Cannot list /{folder} in {self._where}: {where} is not WebHDFS.") from None
            statuses = answer["DirectoryListing"]["partialListing"]["FileStatuses"]["FileStatus"]
            # A file lists itself, without a name.
            statuses = [status for status in statuses if status["pathSuffix"]]
            yield statuses
            if not statuses or not answer["DirectoryListing"]["remainingEntries"]:
                return
            start_after = statuses[-1]["pathSuffix"]

    def is_cut(self, path: str, status: dict[str, Any]) -> bool:
        """Return whether somebody is writing a file: a listing has only its whole blocks.

        A gateway may not say, nor a name node if the user may not read the file.
        """
        length, block_bytes = status["length"], status.get("blockSize")
        # The last block of a closed file is seldom a whole one, so few files are asked for.
        if not length or not block_bytes or length % block_bytes:
            return False
        absent = (_NOT_FOUND, *_UNANSWERED)
        response = self._ask("GET", path, {"op": "GET_BLOCK_LOCATIONS", "length": "1"}, doing="list", absent=absent)
        try:
            return bool(response and response.json()["LocatedBlocks"]["isUnderConstruction"])
        except (ValueError, LookupError, TypeError):
            return False

    def read(self, path: str, start: int, length: int) -> bytes:
        """Return a part of a file."""
        asked = self._ask("GET", path, {"op": "OPEN", "offset": str(start), "length": str(length)}, doing="read")
        # The name node says which data node has the content; a gateway sends it.
        where = asked.headers.get("Location", "") if asked else ""
        response = self._answer("GET", where) if where else asked
        if response is None or isinstance(response, str):
            raise self._error("read", path, response or _NOT_FOUND)
        return response.content

    def write(self, path: str, body: bytes) -> None:
        """Write a file, in place of one of the same path."""
        asked = self._ask("PUT", path, {"op": "CREATE", "overwrite": "true"}, doing="write or delete")
        # The name node says which data node takes the content.
        where = asked.headers.get("Location", "") if asked else ""
        response = self._answer("PUT", where, content=body, headers={"Content-Type": "application/octet-stream"})
        if isinstance(response, str):
            raise self._error("write or delete", path, response)

    def remove(self, path: str) -> None:
        """Delete a file, or a folder with everything in it; it need not exist."""
        self._ask("DELETE", path, {"op": "DELETE", "recursive": "true"}, doing="write or delete")

    def _ask(
        self, method: str, path: str, parameters: dict[str, str], *, doing: str, absent: Sequence[str] = (_NOT_FOUND,)
    ) -> httpx.Response | None:
        """Return the answer of the name node that leads; None if something is absent: by default the path."""
        parameters = parameters | ({"user.name": self._access.user} if self._access.user else {})
        problem = ""
        # The one that leads comes first from then on.
        for url in tuple(self._urls):
            response = self._answer(method, f"{url}/{quote(path)}", params=parameters)
            if not isinstance(response, str):
                return response
            problem = response
            if problem in absent:
                return None
            if problem in _TERMINAL:
                break
            # Whole at any time, as others may ask meanwhile.
            self._urls = [*(other for other in self._urls if other != url), url]
        raise self._error(doing, path, problem)

    def _answer(self, method: str, url: str, **sent: Any) -> httpx.Response | str:
        """Return the answer, or why there is none."""
        import httpx

        try:
            response = self._http.request(method, url, **sent)
        except httpx.TransportError as error:
            where = url.partition("?")[0]
            return f"no answer from {where} ({type(error).__name__}): check the connection's host and port"
        is_told_where = (
            method == "PUT" or sent.get("params", {}).get("op") == "OPEN"
        ) and response.status_code == httpx.codes.TEMPORARY_REDIRECT
        return response if response.is_success or is_told_where else _exception_of(response)

    def _error(self, doing: str, path: str, problem: str) -> SourceError | TransientError:
        failed = f"Cannot {doing} /{path} in {self._where}"
        if problem in _TERMINAL:
            return SourceError(f"{failed}: {_TERMINAL[problem]}.")
        return TransientError(
            f"{failed}: {'none of its hosts is an active name node' if problem == _STANDBY else problem}."
        )


def _exception_of(response: httpx.Response) -> str:
    """Return the name of HDFS's exception, or else the status."""
    if response.status_code == _UNAUTHORIZED:
        return "AuthenticationException"
    try:
        return str(response.json()["RemoteException"]["exception"])
    except (ValueError, LookupError, TypeError):
        return f"HTTP status {response.status_code}"
