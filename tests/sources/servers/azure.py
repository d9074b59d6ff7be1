"""A local server of Azure Blob Storage: Azurite, from npm."""

from __future__ import annotations

import base64
import secrets
from dataclasses import dataclass, field
from typing import Self

from airflow_provider_chs3.testbed.processes import HOST, LocalServer, free_ports
from tests.sources.servers.local import launch, new_folder
from tests.sources.servers.packages import from_npm, required

VERSION = "3.35.0"
_PUBLISHED_BEFORE = "2026-01-01"
_PROGRAM = "node_modules/azurite/dist/src/blob/main.js"
_ACCOUNT = "chs3"


@dataclass(frozen=True, kw_only=True)
class AzureServer(LocalServer):
    """A running server with one account, which refuses a wrong key: `start` it, and `stop` it or use a `with` block."""

    account_url: str
    account_name: str
    account_key: str = field(repr=False)

    @classmethod
    def start(cls) -> Self:
        """Start a server and wait until it answers."""
        node = required("node", hint="apt-get install nodejs npm")
        program = from_npm("azurite", VERSION, published_before=_PUBLISHED_BEFORE) / _PROGRAM
        key = base64.b64encode(secrets.token_bytes(64)).decode()
        port = free_ports(1)[0]
        with new_folder("azure") as folder:
            command = [node, str(program), "--blobHost", HOST, "--blobPort", str(port), "--location", str(folder)]
            # Clients may be newer than it; and it would call out otherwise.
            command += ["--skipApiVersionCheck", "--disableTelemetry", "--silent"]
            accounts = {"AZURITE_ACCOUNTS": f"{_ACCOUNT}:{key}"}
            process = launch(command, name="Azurite", folder=folder, port=port, environment=accounts)
        url = f"http://{HOST}:{port}/{_ACCOUNT}"
        return cls(process=process, folder=folder, account_url=url, account_name=_ACCOUNT, account_key=key)

    @property
    def connection_string(self) -> str:
        """The connection string, with the key, for Azure's clients and ClickHouse's `azureBlobStorage`."""
        return (
            f"DefaultEndpointsProtocol=http;AccountName={self.account_name};AccountKey={self.account_key};"
            f"BlobEndpoint={self.account_url};"
        )
