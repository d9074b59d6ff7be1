"""One ClickHouse node as an operating-system process, from the engine inside the `chdb-core` wheel.

Since 26.7 the `clickhouse-local` in that wheel can listen on the native and the HTTP protocol. This is the only module
that uses the wheel's private function, and the wheel's version is pinned for it. It is suitable for tests and a demo,
not for production.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

from airflow_provider_chs3.testbed.processes import INSTALL_HINT, die_with_parent, spawn

# The listeners live as long as the last statement, so that one sleeps forever. One row per block, because the
# engine limits how long a block may sleep, not a query.
_SERVE_SQL = """
SYSTEM START LISTEN TCP;
SYSTEM START LISTEN HTTP;
SELECT sleepEachRow(1) FROM system.numbers FORMAT Null SETTINGS max_block_size = 1, max_execution_time = 0;
"""


def start(folder: Path, time_zone: str = "UTC") -> subprocess.Popen[bytes]:
    """Start the node whose configuration is in `<folder>/.clickhouse-local/config.xml`."""
    _wheel_folder()
    environment = {"HOME": str(folder), "TZ": time_zone}
    return spawn(__name__, str(folder / "data"), log=folder / "engine.log", environment=environment)


def _wheel_folder() -> Path:
    # find_spec does not import chdb: its __init__ opens an embedded connection, whose settings would be the process's.
    spec = importlib.util.find_spec("chdb")
    if spec is None or spec.origin is None:
        raise RuntimeError(f"The local ClickHouse engine (chdb-core) is not installed; {INSTALL_HINT}")
    return Path(spec.origin).parent


def _load() -> ModuleType:
    folder = _wheel_folder()
    # The extension looks for its companion libraries in the working folder.
    os.chdir(folder)
    loader = importlib.machinery.ExtensionFileLoader("_chdb", str(folder / "_chdb.abi3.so"))
    spec = importlib.util.spec_from_file_location("_chdb", loader.path, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


if __name__ == "__main__":
    die_with_parent()
    # TabSeparated also becomes the default format of the HTTP interface, as clients expect from a server.
    _load().query(_SERVE_SQL, "TabSeparated", path=sys.argv[1])
