"""Values of a result as JSON has them, for XCom."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import Field
from datetime import date, datetime, time
from typing import Any, ClassVar

#: Airflow sends XComs between its processes as msgpack, which has no larger integers.
_SMALLEST, _LARGEST = -(2**63), 2**64 - 1


def as_json(value: object) -> Any:
    """Return a value as JSON has it.

    Returns:
        Text, numbers, true, false and None stay. Tuples become lists; dates and times text as in ISO 8601; and all that
        JSON lacks, such as a Decimal, a UUID, NaN or an integer of more than 64 bits, becomes its text.
    """
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return value if _SMALLEST <= value <= _LARGEST else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {str(key): as_json(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [as_json(inner) for inner in value]
    return str(value)


class AsJson:
    """A dataclass whose fields are its JSON."""

    __slots__ = ()
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def as_json(self) -> dict[str, Any]:
        """Return JSON-safe values."""
        return {name: as_json(getattr(self, name)) for name in self.__dataclass_fields__}
