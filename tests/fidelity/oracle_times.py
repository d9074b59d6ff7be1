"""Dates and times: which may become what in a column of them."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo

from tests.fidelity.column_types import Type
from tests.fidelity.sources import (
    Clock,
    Day,
    Exact,
    Moment,
    Number,
    Reading,
    Real,
    Text,
    Verdict,
    Whole,
    fits,
    may,
    refused,
)
from tests.fidelity.values import _DATES, EPOCH, days_of, moments, round32

_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)")
_LOOSE_DATE = re.compile(r"\s*(\d{4})[-/.]?(\d\d?)[-/.]?(\d\d?)\s*")
_WITHOUT_SECONDS = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d")
_DATE_TIME = re.compile(r"(\d{4}-\d\d-\d\d)([ T])(\d\d):(\d\d):(\d\d)(?:\.(\d+))?(Z|[+-]\d\d:\d\d)?")
_SINGLE_DIGITS = re.compile(r"(?<=[ T:])(\d)(?=:|$|\.)")
_TIME = re.compile(r"-?(\d{1,3}):(\d\d):(\d\d)(?:\.(\d+))?")
_DAY_SECONDS = 86_400
_OF_NEWER = "a year that newer servers have, and older ones do not"
#: Seconds of the years 0 to 9999, which DateTime64 has on newer servers.
_FIRST_OF_NEWER, _END_OF_NEWER = -62_167_219_200, 253_402_300_800


def judge(source: Any, of: Type, reading: Reading) -> Verdict:
    """As `oracle.judge`, for dates and times."""
    if isinstance(source, Text):
        judge_text = {"Date": _date_text, "Date32": _date_text, "Time": _time_text, "Time64": _time_text}
        return judge_text.get(of.kind, _moment_text)(source.raw.decode(errors="replace"), of, reading)
    if isinstance(source, Number):
        number = Fraction(source.text)
        return _of_number(number, of)
    if isinstance(source, Whole):
        return _of_number(Fraction(source.number), of)
    if isinstance(source, Real | Exact):
        is_finite = Decimal(source.number).is_finite()
        return _of_fraction(source, of) if is_finite else refused("no finite number")
    judge_typed = {"Date": _date, "Date32": _date, "Time": _time, "Time64": _time}.get(of.kind, _moment)
    verdict: Verdict = judge_typed(source, of, reading)
    if isinstance(source, Day) and source.is_date64 and not 0 <= source.days * _DAY_SECONDS < 2**32:
        return may("seconds of 32 bits do not hold it", *verdict.values)
    return verdict


def _of_fraction(source: Real | Exact, of: Type) -> Verdict:
    """A number that may have a fraction: of a float, the nearest tick, if that is the same float."""
    exact = Fraction(source.number)
    nearest = Fraction(round(exact * 10**of.precision), 10**of.precision)
    is_same = isinstance(source, Real) and source.number in (float(nearest), round32(float(nearest)))
    return _of_number(nearest if is_same else exact, of)


def _of_number(number: Fraction, of: Type) -> Verdict:
    """A bare number may be days or seconds."""
    if number.denominator == 1 and of.kind in ("Date", "Date32"):
        verdict = _in_range(int(number), of)
    elif of.kind in ("Time", "Time64"):
        verdict = _ticks(number, of)
    else:
        verdict = _instant(number, of)
    return may("a number as a time", *verdict.values) if verdict.values else verdict


def _date(source: Any, of: Type, reading: Reading) -> Verdict:
    if isinstance(source, Day):
        return _in_range(source.days, of)
    if isinstance(source, Moment):
        days, rest = divmod(source.seconds, _DAY_SECONDS)
        verdict = _in_range(int(days), of)
        return may("a time stamp as a date", *verdict.values) if not rest else refused("a time of day in a date")
    return refused("no date")


def _in_range(days: int, of: Type) -> Verdict:
    low, high = _DATES[of.kind]
    if days_of(low) <= days <= days_of(high):
        return fits(EPOCH + timedelta(days=days))
    if of.kind == "Date32" and days_of(date.min) <= days <= days_of(date.max):
        return may(_OF_NEWER, EPOCH + timedelta(days=days))
    return refused("the column holds no such date")


def _date_text(text: str, of: Type, reading: Reading) -> Verdict:
    if found := _DATE_TIME.fullmatch(text):
        is_midnight = found[3] == found[4] == found[5] == "00" and not (found[6] or "").strip("0") and not found[7]
        verdict = _date_text(found[1], of, reading)
        return may("a time of day", *verdict.values) if is_midnight else refused("a time of day in a date")
    if text.strip().isdigit() and len(text.strip()) != 8:
        return _of_number(Fraction(text.strip()), of)
    found = _LOOSE_DATE.fullmatch(text)
    day = found and _day(found[1], found[2], found[3])
    if not day:
        return refused("no date")
    verdict = _in_range(days_of(day), of)
    return verdict if _DATE.fullmatch(text) else may("another notation", *verdict.values)


def _day(year: str, period: str, day: str) -> date | None:
    try:
        return date(int(year), int(period), int(day))
    except ValueError:
        return None


def _moment(source: Any, of: Type, reading: Reading) -> Verdict:
    if isinstance(source, Day):
        verdict = _local(EPOCH + timedelta(days=source.days), Fraction(0), of)
        return may("a date as a time", *verdict.values)
    if not isinstance(source, Moment):
        return refused("no time")
    if source.is_instant is None:
        verdicts = [
            _moment(Moment(source.seconds, known), of, Reading("arrow", "column_zone")) for known in (True, False)
        ]
        return may("INT96 says no zone", *(value for each in verdicts for value in each.values))
    if source.is_instant or of.zone_name == "UTC" or reading.naive_timestamps == "utc":
        return _instant(source.seconds, of)
    if reading.naive_timestamps != "column_zone":
        return refused("a time stamp without a zone, in a column of one")
    days, rest = divmod(source.seconds, _DAY_SECONDS)
    return _local(EPOCH + timedelta(days=int(days)), rest, of)


def _instant(seconds: Fraction, of: Type) -> Verdict:
    low, high = moments(of)
    ticks = seconds * 10**of.precision
    if ticks.denominator != 1:
        return refused("a finer fraction than the column's")
    if not low <= seconds < high + 1:
        is_of_newer = of.kind == "DateTime64" and _FIRST_OF_NEWER <= seconds < _END_OF_NEWER and abs(ticks) < 2**63
        return may(_OF_NEWER, int(ticks)) if is_of_newer else refused("the column holds no such time")
    return (
        may("the last second, which ClickHouse's own check refuses", int(ticks))
        if seconds >= high
        else fits(int(ticks))
    )


def _moment_text(text: str, of: Type, reading: Reading) -> Verdict:
    if text.strip().lstrip("-").replace(".", "", 1).isdigit():
        return _of_number(Fraction(text.strip()), of)
    if _DATE.fullmatch(text):
        day = _day(*text.split("-"))
        verdict = _local(day, Fraction(0), of) if day else refused("no date")
        return may("a date as a time", *verdict.values) if verdict.values else verdict
    if _WITHOUT_SECONDS.fullmatch(text.strip()):
        verdict = _moment_text(f"{text.strip()}:00", of, reading)
        return may("a time without seconds", *verdict.values) if verdict.values else verdict
    found = _DATE_TIME.fullmatch(text.strip())
    if not found and _DATE_TIME.fullmatch(padded := _SINGLE_DIGITS.sub(r"0\1", text.strip())):
        verdict = _moment_text(padded, of, reading)
        return may("single digits", *verdict.values) if verdict.values else verdict
    if not found:
        return refused("no time")
    day = _day(*found[1].split("-"))
    seconds = _seconds(found[3], found[4], found[5], found[6])
    if day is None or seconds is None or int(found[3]) > 23:
        return refused("no such time")
    if found[7]:
        shift = 0 if found[7] == "Z" else _shift(found[7])
        verdict = _instant(days_of(day) * _DAY_SECONDS + seconds - shift, of)
        return may("another notation", *verdict.values) if verdict.values else verdict
    verdict = _local(day, seconds, of)
    is_usual = found[2] == " " and text == text.strip() and len(found[6] or "") <= of.precision
    return verdict if is_usual or not verdict.values else may("another notation", *verdict.values)


def _shift(text: str) -> int:
    return (int(text[1:3]) * 3600 + int(text[4:6]) * 60) * (-1 if text[0] == "-" else 1)


def _seconds(hours: str, minutes: str, seconds: str, fraction: str | None) -> Fraction | None:
    if int(minutes) > 59 or int(seconds) > 59:
        return None
    digits = fraction or "0"
    return int(hours) * 3600 + int(minutes) * 60 + int(seconds) + Fraction(int(digits), 10 ** len(digits))


def _local(day: date, seconds: Fraction, of: Type) -> Verdict:
    """Return the times of a clock in the column's zone: in autumn an hour comes twice, and in spring one not at all."""
    zone = ZoneInfo(of.zone_name)
    whole, rest = divmod(seconds, 1)
    shown = datetime(day.year, day.month, day.day) + timedelta(seconds=int(whole))
    instants = set()
    for fold in (0, 1):
        instant = shown.replace(tzinfo=zone, fold=fold).astimezone(UTC)
        if instant.astimezone(zone).replace(tzinfo=None) == shown:
            instants.add((instant - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(seconds=1))
    if not instants:
        return refused("the zone's clocks never show it")
    verdicts = [_instant(instant + rest, of) for instant in sorted(instants)]
    values = [value for verdict in verdicts for value in verdict.values]
    if not values:
        return verdicts[0]
    return fits(*values) if len(instants) == 1 else may("the zone's clocks show it twice", *values)


def _time(source: Any, of: Type, reading: Reading) -> Verdict:
    if not isinstance(source, Clock):
        return refused("no time of day")
    verdict = _ticks(source.seconds, of)
    return may("a type that few know", *verdict.values) if verdict.values else verdict


def _ticks(seconds: Fraction, of: Type) -> Verdict:
    ticks = seconds * 10**of.precision
    if ticks.denominator != 1 or abs(seconds) >= 1000 * 3600:
        return refused("a finer fraction than the column's")
    return fits(int(ticks))


def _time_text(text: str, of: Type, reading: Reading) -> Verdict:
    found = _TIME.fullmatch(text)
    seconds = _seconds(found[1], found[2], found[3], found[4]) if found else None
    if found is None or seconds is None:
        return refused("no time of day") if not text.strip().isdigit() else _of_number(Fraction(text.strip()), of)
    verdict = _ticks(-seconds if text.startswith("-") else seconds, of)
    is_usual = text[0] != "-" and len(found[1]) == 2 and (not found[4] or len(found[4]) == of.precision)
    return verdict if is_usual else may("another notation", *verdict.values)
