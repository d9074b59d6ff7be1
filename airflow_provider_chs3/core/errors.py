"""What a server's error means for a retry."""

from __future__ import annotations

from airflow_provider_chs3.exceptions import Chs3Error, ClickHouseServerError, TerminalError

#: A retry would meet them again: wrong names, types, rights, keys, structures; 394 is a person's kill.
_TERMINAL_CODES = frozenset(
    {
        6,
        8,
        27,
        36,
        41,
        44,
        47,
        48,
        49,
        53,
        60,
        62,
        69,
        70,
        81,
        107,
        115,
        117,
        122,
        131,
        164,
        192,
        193,
        215,
        321,
        344,
        349,
    }
    | {321, 344, 349, 376, 386, 394, 407, 452, 467, 469, 497, 516, 636, 669, 675, 691}
)


def is_terminal(error: Chs3Error) -> bool:
    """Whether a retry would end the same way."""
    if isinstance(error, ClickHouseServerError):
        return error.code in _TERMINAL_CODES
    return isinstance(error, TerminalError)
