"""A local MariaDB server, of the system's package: ClickHouse's `mysql` reads it as it reads MySQL."""

from __future__ import annotations

import secrets
import socket
import subprocess
from pathlib import Path
from typing import Any, Self

from airflow_provider_chs3.testbed.processes import HOST, free_ports
from airflow_provider_chs3.testbed.programs.foreign import hand_over
from tests.sources.servers.local import DatabaseServer, launch, new_folder
from tests.sources.servers.packages import required

_HINT = "apt-get install mariadb-server"
_NAME = "chs3"
_GREETING_SECONDS = 10.0


class MySqlServer(DatabaseServer):
    """A running MariaDB: `start` it, and `stop` it or use it in a `with` block."""

    @classmethod
    def start(cls) -> Self:
        """Start a server and wait until it answers."""
        server = required("mariadbd", folders=["/usr/sbin"], hint=_HINT)
        port = free_ports(1)[0]
        password = secrets.token_urlsafe()
        with new_folder("mysql") as folder:
            data = _initialized(folder, password)
            command = [server, "--no-defaults", f"--datadir={data}", f"--port={port}", f"--bind-address={HOST}"]
            command += [f"--socket={folder}/socket", f"--pid-file={folder}/pid", f"--init-file={folder}/users.sql"]
            command += ["--skip-name-resolve", "--default-time-zone=+00:00", "--character-set-server=utf8mb4"]
            # Commits outlive a kill of the server, though not a power cut.
            command += ["--innodb-flush-log-at-trx-commit=2"]
            process = launch(
                command,
                name="MariaDB",
                folder=folder,
                port=port,
                is_ready=lambda: _is_greeting(port),
                is_unprivileged=True,
            )
            (folder / "users.sql").unlink()
        login: dict[str, Any] = {"database": _NAME, "user": _NAME, "password": password}
        return cls(process=process, folder=folder, host=HOST, port=port, **login)


def _initialized(folder: Path, password: str) -> Path:
    install, data, users = required("mariadb-install-db", hint=_HINT), folder / "data", folder / "users.sql"
    users.write_text(
        f"CREATE DATABASE {_NAME};\n"
        f"CREATE USER '{_NAME}'@'{HOST}' IDENTIFIED BY '{password}';\n"
        f"GRANT ALL ON {_NAME}.* TO '{_NAME}'@'{HOST}';\n",
        encoding="utf-8",
    )
    # In a folder of its own, as two at once delete each other's temporary files.
    temporary = f"--tmpdir={folder}"
    options = ["--no-defaults", f"--datadir={data}", temporary, "--skip-test-db", "--skip-name-resolve"]
    done = subprocess.run([install, *options], cwd=folder, capture_output=True, text=True, **hand_over(folder))
    if done.returncode:
        raise RuntimeError(f"mariadb-install-db failed: {done.stderr.strip() or done.stdout.strip()}")
    return data


def _is_greeting(port: int) -> bool:
    # It listens before it has read the users.
    with socket.socket() as probe:
        probe.settimeout(_GREETING_SECONDS)
        try:
            probe.connect((HOST, port))
            return probe.recv(1) != b""
        except OSError:
            return False
