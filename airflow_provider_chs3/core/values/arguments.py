"""Constants and checks of operator arguments for DAG parsing, which must be fast: imports only errors."""

from __future__ import annotations

from collections.abc import Iterable

from airflow_provider_chs3.exceptions import ConfigurationError

#: A load that shares its cluster takes half of the memory (ClickHouse, "Optimizing S3 insert and read
#: performance").
SHARED = 0.5

#: The arguments that make up a load's definition.
DEFINING = (
    "columns",
    "select",
    "null_as_default",
    "lossy_columns",
    "naive_timestamps",
    "csv",
    "on_other_months",
    "distribution",
    "file_format",
    "compression",
)

#: Everything a plan compares, where given.
PLANNED = (*DEFINING, "settings", "on_new_columns")


def check_definition(given: Iterable[str]) -> None:
    """Check the names of the arguments in a load's definition.

    Raises:
        ConfigurationError: If a name is unknown.
    """
    if unknown := sorted(set(given) - set(PLANNED)):
        raise ConfigurationError(f"definition has {', '.join(unknown)}: it takes {', '.join(PLANNED)}.")


def either_name(name: str, given: str | None, *, as_s3: str | None) -> str | None:
    """Return an argument that is given by one of its names, `<name>` or, as in Airflow's own transfers, `s3_<name>`.

    Args:
        name: The name without `s3_`.
        given: What it is given as by this name.
        as_s3: What it is given as by the other.

    Raises:
        ConfigurationError: If it is given by both.
    """
    if given is not None and as_s3 is not None:
        raise ConfigurationError(
            f"{name}={given!r} and s3_{name}={as_s3!r} are the same argument by two names: remove s3_{name}."
        )
    return given if as_s3 is None else as_s3


def written_to(name: str, given: str | None, *, as_s3: str | None) -> str:
    """Return the key or the bucket that a task writes to, as `either_name` does.

    Args:
        name: The name without `s3_`.
        given: What it is given as by this name.
        as_s3: What it is given as by the other.

    Raises:
        ConfigurationError: If it is given by both names, or by none.
    """
    found = either_name(name, given, as_s3=as_s3)
    if found is None:
        raise ConfigurationError(f"Nothing says where the objects go: give {name}=….")
    return found
