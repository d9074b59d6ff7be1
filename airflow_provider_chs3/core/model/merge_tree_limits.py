"""The number and size of parts that a table's settings allow."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_SIZE_SUFFIXES = {"": 1} | {
    f"{prefix}{binary}": base**power
    for power, prefix in enumerate("KMGTP", start=1)
    for binary, base in (("", 1000), ("i", 1024))
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """Part limits of a table; its own settings override the server's.

    Args:
        parts_to_delay_insert: Parts of a partition at which inserts are slowed down.
        parts_to_throw_insert: Parts of a partition at which inserts into the table are refused.
        max_parts_in_total: Parts of the table at which inserts are refused.
        max_bytes_to_merge_at_max_space_in_pool: Size of the largest part that merges make, in bytes.
        max_avg_part_size_for_too_many_parts: Average part size of a partition, in bytes, above which the number of
            parts neither delays nor refuses inserts.
    """

    parts_to_delay_insert: int
    parts_to_throw_insert: int
    max_parts_in_total: int
    max_bytes_to_merge_at_max_space_in_pool: int
    max_avg_part_size_for_too_many_parts: int

    @classmethod
    def of(cls, server: Mapping[str, str], table_settings: str) -> Limits:
        """Read the limits of a table."""
        of_table = {name: _own(name, table_settings) for name in cls.__slots__}
        return cls(**{name: int(server[name]) if value is None else value for name, value in of_table.items()})


def _own(name: str, table_settings: str) -> int | None:
    """Return the table's own value, such as `2000` or `'2K'`; else None."""
    matched = re.search(rf"(?:^|, ){name} = '?(\d+)([KMGTP]i?)?'?(?:,|$)", table_settings)
    return int(matched[1]) * _SIZE_SUFFIXES[matched[2] or ""] if matched else None
