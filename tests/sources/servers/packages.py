"""Programs of this machine, and of npm, Maven and Go, in versions that are pinned."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from airflow_provider_chs3.testbed.programs.packages import ProgramMissingError, kept

#: Pinned, as everything else here.
_MAVEN_GOAL = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"


def required(program: str, *, folders: Sequence[str] = (), hint: str) -> str:
    """Find a program of this machine."""
    found = shutil.which(program, path=os.pathsep.join([os.environ.get("PATH", ""), *folders]))
    if found is None:
        raise ProgramMissingError(f"{program} is not installed; install it with: {hint}")
    return found


def from_npm(package: str, version: str, *, published_before: str) -> Path:
    """Install a package of npm without running its scripts."""

    def make(folder: Path) -> None:
        npm = required("npm", hint="apt-get install nodejs npm")
        # Errors go to the exception: npm's own log would be one more place that it writes to.
        quiet = ["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error", "--logs-max=0"]
        _fetch([npm, "install", *quiet, f"--before={published_before}", f"{package}@{version}"], folder)

    return kept(f"{package}-{version}", make)


def from_maven(name: str, coordinates: Sequence[str]) -> Path:
    """Fetch jars of Maven, with those that they need to run."""

    def make(folder: Path) -> None:
        maven = required("mvn", hint="apt-get install maven")
        with tempfile.TemporaryDirectory() as scratch:
            (Path(scratch) / "pom.xml").write_text(_pom(coordinates), encoding="utf-8")
            # Not into ~/.m2: all of it would stay there a second time.
            options = ["--batch-mode", "--quiet", f"-Dmaven.repo.local={scratch}/repository"]
            _fetch(
                [maven, *options, _MAVEN_GOAL, "-DincludeScope=runtime", f"-DoutputDirectory={folder}"], Path(scratch)
            )

    return kept(name, make)


def from_go(module: str, version: str) -> Path:
    """Compile a program of Go."""
    name = module.rpartition("/")[2]

    def make(folder: Path) -> None:
        go = required("go", hint="apt-get install golang-go")
        _fetch(["env", f"GOBIN={folder}", go, "install", f"{module}@{version}"], folder)

    return kept(f"{name}-{version}", make) / name


def _pom(coordinates: Sequence[str]) -> str:
    tags = ("groupId", "artifactId", "version", "classifier")

    def described(coordinate: str) -> str:
        return "".join(f"<{tag}>{value}</{tag}>" for tag, value in zip(tags, coordinate.split(":"), strict=False))

    own = f"<modelVersion>4.0.0</modelVersion>{described('chs3:testbed:1')}"
    needed = "".join(f"<dependency>{described(each)}</dependency>" for each in coordinates)
    return f"<project>{own}<dependencies>{needed}</dependencies></project>"


def _fetch(command: Sequence[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ProgramMissingError(f"`{' '.join(command)}` failed: {(done.stderr or done.stdout).strip()}")
