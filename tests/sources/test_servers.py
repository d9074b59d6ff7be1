"""The servers of further sources leave nothing behind."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from airflow_provider_chs3.testbed.processes import is_listening
from airflow_provider_chs3.testbed.programs.packages import ProgramMissingError, started_or_skip
from tests.sources.servers.azure import AzureServer
from tests.sources.servers.gcs import GcsServer
from tests.sources.servers.mysql import MySqlServer
from tests.sources.servers.packages import required
from tests.sources.servers.postgres import PostgresServer
from tests.support.waiting import wait_until

# Go compiles fake-gcs-server, once on a machine, which takes a minute.
SERVERS = [PostgresServer, AzureServer, MySqlServer, pytest.param(GcsServer, marks=pytest.mark.thorough)]
#: Starts a server, tells where, and waits for what never comes.
CHILD = """
import sys
from importlib import import_module
server = getattr(import_module(sys.argv[1]), sys.argv[2]).start()
print(vars(server).get("account_url") or vars(server).get("endpoint_url") or f"//{server.host}:{server.port}")
print(server.folder, flush=True)
sys.stdin.read()
"""


@pytest.mark.thorough
@pytest.mark.parametrize("kind", SERVERS)
def test_a_server_ends_with_the_process_that_started_it(kind: Any) -> None:
    with started_or_skip(kind.start) as server:
        assert server.folder.exists()
    # Nothing is left after it was stopped.
    assert server.process.poll() is not None
    assert not server.folder.exists()
    command = [sys.executable, "-c", CHILD, kind.__module__, kind.__name__]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout
        port = urlsplit(child.stdout.readline().strip()).port
        folder = child.stdout.readline().strip()
        assert port
        assert is_listening(port)
        child.kill()
    wait_until(lambda: not is_listening(port))
    shutil.rmtree(folder)


@pytest.mark.parametrize(
    ("kind", "hint"), [(AzureServer, "apt-get install nodejs npm"), (GcsServer, "apt-get install golang-go")]
)
def test_a_missing_program_skips_the_test_and_says_how_to_install_it(
    kind: Any, hint: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CHS3_SERVER_FOLDER", str(tmp_path))
    with pytest.raises(pytest.skip.Exception, match=hint), started_or_skip(kind.start):
        pass


def test_a_program_outside_path_is_found_in_the_folders_of_its_package(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ProgramMissingError, match="tool is not installed"):
        required("tool", folders=[str(tmp_path)], hint="-")
    (tmp_path / "tool").touch(mode=0o755)
    assert required("tool", folders=[str(tmp_path)], hint="-") == str(tmp_path / "tool")
