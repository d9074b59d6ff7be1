"""Load a month where no library is but those that the package requires: `python without_extras.py '{"bucket": …}'`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from importlib.abc import MetaPathFinder
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

_PACKAGE = Requirement("airflow-provider-chs3")


def _required() -> set[str]:
    """The names of all distributions that an installation without extras brings."""
    found: set[tuple[str, frozenset[str]]] = set()
    remaining = [_PACKAGE]
    while remaining:
        each = remaining.pop()
        key = canonicalize_name(each.name), frozenset(each.extras)
        if key not in found:
            found.add(key)
            remaining += _requirements(each)
    return {name for name, _ in found}


def _requirements(of: Requirement) -> Iterator[Requirement]:
    try:
        texts = requires(of.name) or ()
    except PackageNotFoundError:
        return  # of another platform, or of an older Python
    for text in texts:
        each = Requirement(text)
        if each.marker is None or any(each.marker.evaluate({"extra": extra}) for extra in ("", *of.extras)):
            yield each


class _Absent(MetaPathFinder):
    """Finds none of the modules that only other distributions bring."""

    def __init__(self) -> None:
        required = _required()
        self.names = {
            name
            for name, distributions in packages_distributions().items()
            if not required & {canonicalize_name(each) for each in distributions}
        }

    def find_spec(self, name: str, *_: Any) -> None:
        if name.partition(".")[0] in self.names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def main() -> None:
    """Load the month, and print its rows and what was absent."""
    absent = _Absent()
    sys.meta_path.insert(0, absent)
    from airflow_provider_chs3.transfers.s3_to_clickhouse import S3ToClickHouseOperator

    result = S3ToClickHouseOperator(task_id="load", **json.loads(sys.argv[1])).execute({})
    print(json.dumps({"rows": result["rows"], "absent": sorted(absent.names)}))


if __name__ == "__main__":
    main()
