"""What operators say and check of their arguments where DAGs are read, which must be fast: it imports errors alone."""

from __future__ import annotations

from collections.abc import Iterable

from airflow_provider_chs3.exceptions import ConfigurationError

#: A load that is not alone on its cluster takes half of the memory (ClickHouse, "Optimizing S3 insert and read
#: performance").
SHARED = 0.5

#: Those arguments of a load that its definition is made of.
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

#: What a plan compares beside them, where it is given.
PLANNED = (*DEFINING, "settings")


def check_definition(given: Iterable[str]) -> None:
    """Check the names of what a load is told to make of objects.

    Raises:
        ConfigurationError: If one is not known.
    """
    if unknown := sorted(set(given) - set(PLANNED)):
        raise ConfigurationError(f"definition has {', '.join(unknown)}: it takes {', '.join(PLANNED)}.")
