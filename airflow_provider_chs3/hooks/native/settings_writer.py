"""Write the settings of a statement for servers of any version, and once for all nodes."""

from __future__ import annotations

import io
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from clickhouse_driver.settings.writer import SettingsFlags, write_settings  # noqa: TID253
from clickhouse_driver.writer import write_binary_str, write_binary_uint8  # noqa: TID253

from airflow_provider_chs3.core.sql.complete_answers import NEWER, OF_FEW_ROWS

_OF_NEWER_SERVERS = NEWER.keys() | OF_FEW_ROWS.keys()


def write_settings_of_any_server(settings: Mapping[str, Any], buf: Any, settings_as_strings: bool, flags: int) -> None:
    """Write settings as the driver does, but so that a server ignores those that only newer ones know.

    Args:
        settings: Name → value.
        buf: Where they go.
        settings_as_strings: Whether the server takes values as text, as all supported ones do.
        flags: The driver's flags of each setting.
    """
    if not settings_as_strings:
        write_settings(settings, buf, settings_as_strings, flags)
        return
    buf.write(_as_bytes(tuple((name, str(value)) for name, value in settings.items()), flags))


@lru_cache(maxsize=32)
def _as_bytes(settings: tuple[tuple[str, str], ...], flags: int) -> bytes:
    """Return settings as they are sent: with a statement, all nodes get the same hundred."""
    buffer = io.BytesIO()
    for name, value in settings:
        write_binary_str(name, buffer)
        write_binary_uint8(flags & ~SettingsFlags.IMPORTANT if name in _OF_NEWER_SERVERS else flags, buffer)
        write_binary_str(value, buffer)
    write_binary_str("", buffer)
    return buffer.getvalue()
