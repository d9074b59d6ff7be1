"""Cast numbers to other types, with the condition that nothing was lost."""

from __future__ import annotations

from airflow_provider_chs3.core.sql.column_types import ColumnType
from airflow_provider_chs3.core.sql.quoting import literal
from airflow_provider_chs3.core.sql.server_casts import OR_NULL, Cast, ServerCasting
from airflow_provider_chs3.core.sql.text_casts import INT64_DIGITS, digits_fit, holds_of_text

_DOUBLE_DIGITS = 15
#: Up to which floats that are narrower than a double hold all whole numbers.
_WHOLE_NUMBERS = {"Float32": 2**24, "BFloat16": 2**8}


def to_decimal(casting: ServerCasting, value: str, source: ColumnType, target: ColumnType) -> Cast:
    """Cast a decimal or an integer, whose digits may not fit."""
    made = casting.to(value, target)
    loses = source.name == "Decimal" and source.scale > target.bare.scale
    same = f"{made} = {value} AND " if loses and not casting.is_lossy else ""
    # 4 becomes 0.597… in a Decimal(38, 38): the server notices no overflow of 128 bits, or of 256.
    is_too_large = target.bare.precision > INT64_DIGITS and _digits_before_point(source) > _digits_before_point(target)
    fits = f"{digits_fit(value, target.bare)} AND " if is_too_large else ""
    return Cast(made, fits + same + digits_fit(made, target.bare))


def _digits_before_point(of: ColumnType) -> int:
    """Return the most digits that a Decimal or an integer has before the point."""
    if of.bare.name == "Decimal":
        return of.bare.precision - of.bare.scale
    return len(str(2 ** int(of.bare.name.lstrip("U")[3:])))


def to_float(casting: ServerCasting, value: str, source: ColumnType, target: ColumnType) -> Cast:
    """Cast a float to a narrower one, which may round it but not make it infinite."""
    # accurateCast refuses 0.1 for a Float32, as it has no such value; rounding is what a Float32 is for.
    made = f"CAST({value}, {literal(f'Nullable({target.bare})' if casting.function == OR_NULL else target.text)})"
    # 25.8 takes each BFloat16 for an infinite one.
    shown = f"toFloat32({made})" if target.bare.name == "BFloat16" else made
    return Cast(made, None if source.name == target.bare.name else f"isInfinite({shown}) = isInfinite({value})")


def to_bool(casting: ServerCasting, value: str, source: ColumnType, target: ColumnType) -> Cast:
    """Accept 0 and 1 alone: the server takes any other number for true."""
    return Cast(casting.to(value, target), f"{value} IN (0, 1)")


def float_to_decimal(casting: ServerCasting, value: str, source: ColumnType, target: ColumnType) -> Cast:
    """Cast to the nearest decimal: the server truncates 0.29, which as a double is slightly less, to 0.28."""
    scale = target.bare.scale
    is_wide = target.bare.precision > INT64_DIGITS or scale > _DOUBLE_DIGITS
    if is_wide:
        # Five times as slow, but there are no decimals of wider integers, and doubles have no more digits.
        nearest = _shortest(value, source)
    else:
        units = f"CAST(accurateCastOrNull(round({value} * 1e{scale}), 'Int64'), 'Nullable(Decimal(18, 0))')"
        nearest = f"{units} * CAST('1e-{scale}', 'Decimal(18, {scale})')"
    made = casting.to(nearest, target)
    fit = digits_fit(made, target.bare)
    if casting.is_lossy:
        return Cast(made, fit)
    same = f"CAST({made}, 'Nullable({source.name})') = {value}"
    if is_wide:
        # Tiny numbers come back with another last bit (-4.77e-60, seen on 26.9): compare their digits.
        same = f"({same} OR {holds_of_text(nearest, made, target.bare)})"
    return Cast(made, f"{same} AND {fit}")


def _shortest(value: str, of: ColumnType) -> str:
    """Return the fewest digits that identify a float, or all digits of a whole one.

    1529326336 has more digits than a Float32 needs.
    """
    whole = _WHOLE_NUMBERS.get(of.name)
    if whole is None:
        return f"toString({value})"
    return f"if(abs({value}) < {whole}, toString({value}), toString(toFloat64({value})))"


def decimal_to_integer(casting: ServerCasting, value: str, source: ColumnType, target: ColumnType) -> Cast:
    """Accept whole decimals alone: the server drops digits after the point."""
    # Servers cast integers of more than 64 bits to no Decimal. Beyond its range, a cast of one fails by itself.
    return Cast(casting.to(value, target), f"trunc({value}) = {value}" if source.scale else None)


def number_to_address(casting: ServerCasting, value: str, source: ColumnType, target: ColumnType) -> Cast:
    """Cast through the one type that the server converts to addresses."""
    return Cast(f"CAST(CAST({value}, 'Nullable(UInt32)'), {literal(target.text)})")


def number_to_enum(casting: ServerCasting, value: str, source: ColumnType, target: ColumnType) -> Cast:
    """Cast through the Enum's own integer: the server takes 1.5 for the name of 1, and 25.8 takes 257 so, too.

    Numbers without a name are stored by 25.8 as they are.
    """
    number = casting.to(value, ColumnType(f"Nullable({target.bare.name.replace('Enum', 'Int')})"))
    return Cast(casting.to(number, target), f"{number} IN ({', '.join(target.bare.numbers)})")


def enum_to_enum(casting: ServerCasting, value: str, source: ColumnType, target: ColumnType) -> Cast:
    """Cast by name, because the server itself compares numbers."""
    return Cast(casting.to(f"toString({value})", target))
