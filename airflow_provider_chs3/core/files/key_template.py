"""Templates of the keys of a period, such as `trips/{YYYY-MM}/*.parquet`, and the prefixes to list for them."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property, lru_cache, partial

import pendulum

from airflow_provider_chs3.core.model.period import FIRST_YEAR, LAST_YEAR, Grain, Period, example_of
from airflow_provider_chs3.exceptions import ConfigurationError, SourceError

_MONTH_TOKENS = ("MMMM", "MMM", "MM", "M")
#: Token → what it names of a date.
_PARTS = {
    **{"YYYY": "year", "YY": "year", "GGGG": "week_year", "Q": "quarter"},
    **dict.fromkeys(_MONTH_TOKENS, "month"),
    **{"WW": "week", "W": "week", "DD": "day", "D": "day", "HH": "hour", "H": "hour"},
}
_TOKEN = re.compile("|".join(_PARTS))
#: Token of the month → its text → the month's number.
_MONTH_NUMBERS = {
    token: {pendulum.datetime(2001, number, 1).format(token, locale="en"): number for number in range(1, 13)}
    for token in _MONTH_TOKENS
}
#: Patterns of the tokens, the longest first: {M} must match 12, not 1.
_PATTERNS = {
    **{"YYYY": "[0-9]{4}", "GGGG": "[0-9]{4}", "YY": "[0-9]{2}", "Q": "[1-4]"},
    **{token: f"(?:{'|'.join(sorted(numbers, key=len, reverse=True))})" for token, numbers in _MONTH_NUMBERS.items()},
    **dict.fromkeys(("WW", "DD", "HH"), r"\d{2}"),
    **dict.fromkeys(("W", "D", "H"), r"\d{1,2}"),
}
#: Sets of tokens that name a period of a grain; those of the shorter periods in it name it, too.
_BY_DAY = frozenset({"year", "month", "day"})
_NAMES = {
    Grain.HOUR: (_BY_DAY | {"hour"},),
    Grain.DAY: (_BY_DAY,),
    Grain.WEEK: (frozenset({"week_year", "week"}), _BY_DAY),
    Grain.MONTH: (frozenset({"year", "month"}),),
    Grain.QUARTER: (frozenset({"year", "quarter"}), frozenset({"year", "month"})),
    Grain.YEAR: (frozenset({"year"}),),
    Grain.ALL: (frozenset[str](),),
}
_EXAMPLES = {
    Grain.HOUR: "{YYYY-MM-DD}/{HH}",
    Grain.DAY: "{YYYY-MM-DD}",
    Grain.WEEK: "{GGGG}-W{WW}",
    Grain.MONTH: "{YYYY-MM}",
    Grain.QUARTER: "{YYYY}-Q{Q}",
    Grain.YEAR: "{YYYY}",
}
#: Two digits of a year mean 1971 to 2070.
_FIRST_OF_TWO_DIGITS = 1971
_SEPARATORS = re.compile(r"[-_./]*")
_PIECE = re.compile(r"(\{[^{}]*\})|(\*\*|\*|\?)|([{}])|([^{}*?]+)")
_WILDCARDS = {"*": "[^/]*", "**": ".*", "?": "[^/]"}

#: Stands behind each of several paths: no text that was UTF-8 has it.
END = "\ud800"
_BEFORE_END = {"[^/]*": f"[^/{END}]*", ".*": f"[^{END}]*", "[^/]": f"[^/{END}]"}

#: The shortest text of a pattern instead of the longest.
_SHORTEST = {"[^/]*": "[^/]*?", ".*": ".*?", r"\d{1,2}": r"\d{1,2}?"}

#: A sample that each pattern matches.
_SAMPLES = {"[^/]*": "", ".*": "", "[^/]": "0", r"\d{2}": "00", r"\d{1,2}": "0"}

_HELP = "use {YYYY-MM} (case matters), as in 'trips/{YYYY-MM}/*.parquet', or {YYYY} and {MM}, as in 'y={YYYY}/m={MM}/'"
#: Numbers, the first being the beginning of the others, and a moment whose numbers are all the first.
_SAMPLE, _OTHERS = datetime(2001, 1, 1, 1), (10, 11)


@dataclass(frozen=True)
class _Piece:
    """A piece of the template: text, or a pattern with the name of its token of the period, if any."""

    text: str = ""
    pattern: str = ""
    token: str = ""


@dataclass(frozen=True)
class KeyTemplate:
    """A template of keys.

    Tokens in braces stand for the year (`YYYY`, `YY`), quarter (`Q`), month (`MM`, `M`, `MMM`, `MMMM`), ISO week (`WW`,
    `W`, with its year, `GGGG`), day (`DD`, `D`) and hour (`HH`, `H`; in UTC) of a period, or for what varies in it; `*`
    and `?` stay within one level, `**` crosses levels; a template that ends with `/` takes everything below. All else
    is literal. Under the literal beginning, keys with a level that starts with `_` or `.` (such as `_SUCCESS`) do not
    count; neither do empty objects and keys that end with `/`.
    """

    text: str
    grain: Grain = Grain.MONTH

    def __post_init__(self) -> None:
        if not self.text or self.text.startswith("/"):
            raise ConfigurationError(f"key={self.text!r}: set a key in the bucket, without a slash in front; {_HELP}.")
        self._pieces(longest=Grain.ALL)
        parts = self._parts
        if parts and all(_names_of(parts, grain) is None for grain in _EXAMPLES):
            raise ConfigurationError(f"key={self.text!r} names no period: {_HELP}.")
        if _names_of(parts, self.grain) is not None:
            self._check_tells_apart()

    def at(self, grain: Grain) -> KeyTemplate:
        """Return the template for periods of a length."""
        return _at(self, grain)

    @property
    def finest(self) -> KeyTemplate:
        """The template for the shortest periods that it tells apart; without tokens, for a whole table."""
        return self.at(next(grain for grain in _NAMES if _names_of(self._parts, grain) is not None))

    @cached_property
    def _parts(self) -> frozenset[str]:
        """The units of time that its tokens name."""
        pieces = [_TOKEN.findall(tokens[1:-1]) for tokens, *_ in _PIECE.findall(self.text) if tokens]
        return frozenset(_PARTS[token] for tokens in pieces for token in tokens)

    @cached_property
    def _names(self) -> Set[str]:
        """The units that name a period."""
        if (names := _names_of(self._parts, self.grain)) is not None:
            return names
        of_key = next((example for example in _EXAMPLES if _names_of(self._parts, example) is not None), None)
        # If the table has longer periods, too, the key is not what is wrong.
        instead = f", or set what it has: a {of_key}, such as {example_of(of_key)}" if of_key else ""
        raise ConfigurationError(
            f"key={self.text!r} has no {self.grain} in it, so it cannot distinguish one {self.grain} from another: use "
            f"{_EXAMPLES[self.grain]} (case matters){instead}."
        )

    def _check_tells_apart(self) -> None:
        if self.grain is Grain.ALL or not self._names & {"month", "week", "day", "hour"}:
            return
        sample = Period.of(_SAMPLE, self.grain)
        first = _keys_of(self._pieces(self._moments(sample))).pattern
        for unit in ("month", "day", "hour"):
            for number in _OTHERS:
                other = Period.of(_SAMPLE.replace(**{unit: number}), self.grain)  # type: ignore[arg-type]
                text = "".join(_SAMPLES.get(piece.pattern, piece.text) for piece in self._pieces([other.begin]))
                if other != sample and first.fullmatch(text):
                    raise ConfigurationError(
                        f"key={self.text!r} also matches keys of {other} for {sample}, as digits may stand next to a "
                        "token of one digit: use {MM}, {DD}, {HH} or {WW}, or put separators around it."
                    )

    def keys_of(self, period: Period) -> PeriodKeys:
        """Return the keys that belong to the period; unless `is_exact`, `period_of` decides, too."""
        template = self.at(period.grain)
        return _keys_of(template._pieces(template._moments(period)))

    @property
    def is_exact(self) -> bool:
        """Return whether `keys_of` alone decides: a week of {DD} and {MM} has other pairs of them, too."""
        return bool(self._names & {"week", "quarter"}) or self.grain not in (Grain.WEEK, Grain.QUARTER)

    @cached_property
    def keys_of_all(self) -> PeriodKeys:
        """The keys that may belong to any period; `period_of` returns which."""
        return _keys_of(self._pieces())

    def period_of(self, key: str) -> Period | None:
        """Return the period that a key belongs to, the reverse of `keys_of`; None if it belongs to none."""
        periods = self.periods_named(key)
        if len(periods) > 1:
            raise SourceError(
                f"{key!r} may belong to {' or to '.join(map(str, periods))} by key={self.text!r}, as a wildcard "
                "precedes the period: replace it with what the keys have there, or move the object to a key with one "
                "date."
            )
        return periods[0] if periods else None

    def periods_named(self, key: str) -> tuple[Period, ...]:
        """Return the periods that a key names, sorted: of two dates behind a wildcard, either may be the template's."""
        matches = [pattern.fullmatch(key) for pattern in self._readings]
        return tuple(sorted({period for match in matches if match and (period := self.period_in(match)) is not None}))

    @cached_property
    def is_read_in_one_way(self) -> bool:
        """Return whether a key names one period at most, as no wildcard may take what looks like the period."""
        seen: set[str] = set()
        may_take = crosses_levels = False
        for piece in self._pieces():
            if piece.token and piece.token not in seen and (may_take or crosses_levels):
                return False
            seen.add(piece.token)
            crosses_levels |= piece.pattern == _WILDCARDS["**"]
            may_take = (may_take or piece.pattern in _SHORTEST) and "/" not in piece.text
        return True

    @cached_property
    def _readings(self) -> tuple[re.Pattern[str], ...]:
        if self.is_read_in_one_way:
            return (self.keys_of_all.pattern,)
        shortest = [replace(piece, pattern=_SHORTEST.get(piece.pattern, piece.pattern)) for piece in self._pieces()]
        return self.keys_of_all.pattern, re.compile(_pattern(shortest), re.DOTALL)

    def period_in(self, matched: re.Match[str]) -> Period | None:
        """Return the period that a match of `keys_of_all` or `runs` names; None if it names none."""
        texts = matched.groups()
        if texts not in self._periods_by_texts:
            self._periods_by_texts[texts] = self._period_of(matched.groupdict())
        return self._periods_by_texts[texts]

    def runs(self, base: str) -> re.Pattern[str]:
        """Return the pattern of a run: one path, or several of the same period, with `END` behind each.

        One match for a whole page takes a tenth of the time of one for each key. The group `beginning` is the paths'
        literal beginning. If keys do not begin with their period, a run is one path.
        """
        pieces = self._pieces()
        length = next((at for at, piece in enumerate(pieces) if piece.pattern and not piece.token), len(pieces))
        beginning = [_Piece(pattern="(?P<beginning>"), _Piece(text=base), *pieces[:length], _Piece(pattern=")")]
        rest = [replace(piece, pattern=_BEFORE_END.get(piece.pattern, piece.pattern)) for piece in pieces[length:]]
        run = f"{_pattern([*beginning, *rest])}{END}"
        if _is_read_in_one_way(pieces[:length]) and not any(piece.token for piece in rest):
            run += f"(?:(?P=beginning){_pattern(rest)}{END})*+"
        return re.compile(run, re.DOTALL)

    def narrower(self, prefix: str) -> tuple[str, ...]:
        """Cut a prefix into longer ones: each key of a period that begins with it begins with exactly one of them.

        They follow from what periods are called, whatever is in the bucket, and so may be of periods without objects:
        at most a dozen or two at a time.

        Returns:
            The prefixes, sorted; none where periods cannot be distinguished behind it.
        """
        return cut(prefix, self._period_prefixes)

    def together(self, periods: Collection[Period]) -> tuple[PeriodKeys, Callable[[str], tuple[str, ...]]]:
        """Return keys with the beginning that these periods share, and what cuts it into theirs."""
        prefixes = _without_longer(self.keys_of(period).prefix for period in periods)
        common = replace(self.keys_of_all, prefix=shared_prefix(prefixes), is_one_key=False)
        return common, partial(cut, prefixes=prefixes)

    @cached_property
    def _period_prefixes(self) -> list[str]:
        """The beginnings of the keys of all periods; of days and hours, of their months: a million would take long."""
        longest = Grain.MONTH if self.grain in (Grain.HOUR, Grain.DAY) else self.grain
        first, last = (Period.of(at, longest) for at in (datetime(FIRST_YEAR, 1, 4), datetime(LAST_YEAR, 12, 31, 23)))
        every = (self._pieces([period.begin], longest) for period in first.through(last))
        return _without_longer(map(_literal_beginning, every))

    @cached_property
    def _periods_by_texts(self) -> dict[tuple[str, ...], Period | None]:
        """The periods found for the tokens' texts: a listing has the same texts again and again."""
        return {}

    def _period_of(self, texts: Mapping[str, str]) -> Period | None:
        numbers: dict[str, set[int]] = {}
        for token, text in ((token, text) for token, text in texts.items() if token in _PARTS):
            numbers.setdefault(_PARTS[token], set()).add(_number(token, text))
        # Tokens that name a part twice, as in {YYYY-MM}/{MMM}, must agree.
        if any(len(values) > 1 for values in numbers.values()):
            return None
        part = {name: values.pop() for name, values in numbers.items()}
        try:
            if "week" in part:
                return Period.of(datetime.fromisocalendar(part["week_year"], part["week"], 1), self.grain)
            month = part.get("month", part.get("quarter", 1) * 3 - 2)
            at = datetime(part.get("year", FIRST_YEAR), month, part.get("day", 1), part.get("hour", 0))
            return Period.of(at, self.grain)
        except (ConfigurationError, ValueError):
            return None

    def _moments(self, period: Period) -> list[datetime]:
        """Return a moment for each text that the tokens of a period have: all its days if it is named by them."""
        names = self._names
        if period.grain is Grain.WEEK and "day" in names:
            return [period.begin + timedelta(days=day) for day in range(7)]
        if period.grain is Grain.QUARTER and "month" in names:
            return [period.begin.replace(month=period.begin.month + after) for after in range(3)]
        return [period.begin]

    def _pieces(self, moments: Sequence[datetime] = (), longest: Grain | None = None) -> list[_Piece]:
        """Return the pieces of the keys of some moments; without any, of all."""
        pieces: list[_Piece] = []
        text = self.text + ("**" if self.text.endswith("/") else "")
        for tokens, wildcard, stray, literal in _PIECE.findall(text):
            if stray:
                raise ConfigurationError(f"key={self.text!r} has an unmatched brace: {_HELP}.")
            if tokens:
                pieces += self._token_pieces(tokens[1:-1], moments, longest or self.grain)
            elif wildcard:
                pieces.append(_Piece(pattern=_WILDCARDS[wildcard]))
            else:
                pieces.append(_Piece(text=literal))
        return pieces

    def _token_pieces(self, tokens: str, moments: Sequence[datetime], grain: Grain) -> list[_Piece]:
        pieces: list[_Piece] = []
        names = self._names if grain is self.grain else _names_of(self._parts, grain) or frozenset()
        rest = tokens
        while rest:
            matched = _TOKEN.match(rest) or _SEPARATORS.match(rest)
            token = matched[0] if matched else ""
            if not token:
                known = ", ".join(_PARTS)
                raise ConfigurationError(f"key={self.text!r}: {{{tokens}}} is not understood; tokens are {known}.")
            if token not in _PARTS:
                pieces.append(_Piece(text=token))
            elif _PARTS[token] in names:
                pieces.append(_token_piece(token, moments))
            else:
                pieces.append(_Piece(pattern=_PATTERNS[token]))
            rest = rest[len(token) :]
        return pieces


@lru_cache(maxsize=256)
def _at(template: KeyTemplate, grain: Grain) -> KeyTemplate:
    dated = replace(template, grain=grain)
    # It raises if it does not tell such periods apart.
    _ = dated._names
    return dated


def _names_of(parts: Set[str], grain: Grain) -> Set[str] | None:
    """Return which parts of a date name periods of a length; None if they do not."""
    return next((names for names in _NAMES[grain] if names <= parts), None)


def _number(token: str, text: str) -> int:
    if token in _MONTH_NUMBERS:
        return _MONTH_NUMBERS[token][text]
    is_short = token == "YY"
    return (int(text) - _FIRST_OF_TWO_DIGITS) % 100 + _FIRST_OF_TWO_DIGITS if is_short else int(text)


def _token_piece(token: str, moments: Sequence[datetime]) -> _Piece:
    if not moments:
        return _Piece(pattern=_PATTERNS[token], token=token)
    texts = sorted({_written(token, at) for at in moments}, key=len, reverse=True)
    return _Piece(text=texts[0]) if len(texts) == 1 else _Piece(pattern=f"(?:{'|'.join(texts)})")


@lru_cache(maxsize=4096)
def _written(token: str, at: datetime) -> str:
    if token in ("GGGG", "WW", "W"):
        year, week, _ = at.isocalendar()
        return f"{year:04}" if token == "GGGG" else f"{week:02}" if token == "WW" else str(week)
    return pendulum.instance(at, tz=None).format(token, locale="en")


def _literal_beginning(pieces: Sequence[_Piece]) -> str:
    return "".join(piece.text for piece in itertools.takewhile(lambda piece: not piece.pattern, pieces))


def _keys_of(pieces: Sequence[_Piece]) -> PeriodKeys:
    literal = list(itertools.takewhile(lambda piece: not piece.pattern, pieces))
    any_depth = any(piece.pattern == _WILDCARDS["**"] for piece in pieces)
    return PeriodKeys(
        prefix=_literal_beginning(pieces),
        pattern=re.compile(_pattern(pieces), re.DOTALL),
        is_one_key=len(literal) == len(pieces),
        levels_below=None if any_depth else sum(piece.text.count("/") for piece in pieces[len(literal) :]),
    )


def _is_read_in_one_way(pieces: Sequence[_Piece]) -> bool:
    """Check whether a key that begins with these pieces names one period only; with `{M}`, 1 also begins 12."""
    return all(
        following.text and not following.text[0].isdigit()
        for piece, following in itertools.pairwise((*pieces, _Piece()))
        if piece.token in ("M", "W", "D", "H")
    )


def _pattern(pieces: Sequence[_Piece]) -> str:
    pattern = ""
    seen: set[str] = set()
    for piece in pieces:
        if piece.token in seen:
            pattern += f"(?P={piece.token})"
        elif piece.token:
            seen.add(piece.token)
            pattern += f"(?P<{piece.token}>{piece.pattern})"
        else:
            pattern += piece.pattern or re.escape(piece.text)
    return pattern


#: A prefix is cut where it falls into so many: as many as are listed at the same time.
_FEW_PREFIXES = 8


@dataclass(frozen=True)
class PeriodKeys:
    """The keys of one period, or of all periods."""

    prefix: str
    pattern: re.Pattern[str]
    is_one_key: bool
    levels_below: int | None

    def select(self, key: str, size_bytes: int) -> bool:
        """Check whether an object with this key and size contains data of the period."""
        if size_bytes == 0 or key.endswith("/") or not self.pattern.fullmatch(key):
            return False
        below = key[len(self.prefix) :]
        if not self.prefix or self.prefix.endswith("/"):
            below = f"/{below}"
        # Else the template itself says how this level begins.
        return "/_" not in below and "/." not in below


def _without_longer(prefixes: Iterable[str]) -> list[str]:
    """Return prefixes, sorted, without those that begin with another one."""
    shortest: list[str] = []
    for prefix in sorted(set(prefixes)):
        if not shortest or not prefix.startswith(shortest[-1]):
            shortest.append(prefix)
    return shortest


def shared_prefix(texts: Sequence[str]) -> str:
    """Return the longest beginning that all texts have."""
    first, last = texts[0], texts[-1]
    differ_at = (at for at, (a, b) in enumerate(zip(first, last, strict=False)) if a != b)
    return first[: next(differ_at, min(len(first), len(last)))]


def cut(prefix: str, prefixes: Sequence[str]) -> tuple[str, ...]:
    """Cut a prefix into longer ones: each key that begins with it and with one of others begins with exactly one.

    There are none if fewer than two of the others begin with it.
    """
    below = [longer for longer in prefixes if longer.startswith(prefix)]
    for length in range(len(prefix) + 1, max(map(len, below), default=0) + 1):
        pieces = dict.fromkeys(longer[:length] for longer in below)
        if len(pieces) >= _FEW_PREFIXES:
            return tuple(pieces)
    return tuple(below) if len(below) > 1 else ()
