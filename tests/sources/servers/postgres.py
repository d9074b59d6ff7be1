"""A local PostgreSQL server, of the system's package."""

from __future__ import annotations

import secrets
import signal
import subprocess
from pathlib import Path
from typing import Any, Self

from airflow_provider_chs3.testbed.processes import HOST, free_ports
from airflow_provider_chs3.testbed.programs.foreign import hand_over
from tests.sources.servers.local import DatabaseServer, launch, new_folder
from tests.sources.servers.packages import required

_USER = "chs3"
_DATABASE = "postgres"


class PostgresServer(DatabaseServer):
    """A running PostgreSQL: `start` it, and `stop` it or use it in a `with` block."""

    @classmethod
    def start(cls) -> Self:
        """Start a server and wait until it answers."""
        port = free_ports(1)[0]
        password = secrets.token_urlsafe()
        with new_folder("postgres") as folder:
            data = _initialized(folder, password)
            # Nothing here outlives a crash of the machine.
            options = {"listen_addresses": HOST, "unix_socket_directories": "", "fsync": "off", "timezone": "UTC"}
            command = [_program("postgres"), "-D", str(data), "-p", str(port)]
            command += [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
            process = launch(
                command,
                name="PostgreSQL",
                folder=folder,
                port=port,
                is_ready=lambda: _is_ready(port),
                # Its own processes end at once, and shared memory is freed; SIGKILL would leave both to chance.
                stop_signal=signal.SIGQUIT,
                is_unprivileged=True,
            )
        login: dict[str, Any] = {"database": _DATABASE, "user": _USER, "password": password}
        return cls(process=process, folder=folder, host=HOST, port=port, **login)


def _program(name: str) -> str:
    # Debian keeps the programs of each version outside PATH.
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return required(name, folders=[str(version) for version in versions], hint="apt-get install postgresql")


def _initialized(folder: Path, password: str) -> Path:
    initdb, data, secret = _program("initdb"), folder / "data", folder / "password"
    secret.write_text(password, encoding="utf-8")
    options = ["--username", _USER, "--auth", "scram-sha-256", "--pwfile", str(secret), "--encoding", "UTF8"]
    options += ["--locale", "C.UTF-8", "--no-sync"]
    done = subprocess.run(
        [initdb, "-D", str(data), *options], cwd=folder, capture_output=True, text=True, **hand_over(folder)
    )
    secret.unlink()
    if done.returncode:
        raise RuntimeError(f"initdb failed: {done.stderr.strip()}")
    return data


def _is_ready(port: int) -> bool:
    # It listens before it takes connections.
    return subprocess.run([_program("pg_isready"), "-q", "-h", HOST, "-p", str(port)], check=False).returncode == 0
