"""Templates of the keys of a period, such as `trips/{YYYY-MM}/*.parquet`."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial

import pendulum

from airflow_provider_chs3.core.source.prefixes import PeriodKeys, cut, shared_prefix, without_longer
from airflow_provider_chs3.core.values.period import FIRST_YEAR, LAST_YEAR, Period
from airflow_provider_chs3.exceptions import ConfigurationError, SourceError

_YEAR_TOKENS = ("YYYY", "YY")
_MONTH_TOKENS = ("MMMM", "MMM", "MM", "M")
#: Tokens that vary within a period, so they match any value.
_VARYING_TOKENS = {"DD": r"\d{2}", "D": r"\d{1,2}", "HH": r"\d{2}", "H": r"\d{1,2}"}
_TOKEN = re.compile("|".join((*_YEAR_TOKENS, *_MONTH_TOKENS, *_VARYING_TOKENS)))
#: Token of the period → its text → the period's number.
_MONTH_NUMBERS = {
    token: {pendulum.datetime(2001, number, 1).format(token, locale="en"): number for number in range(1, 13)}
    for token in _MONTH_TOKENS
}
#: Patterns of the tokens of the period, the longest first: {M} must match 12, not 1.
_MONTH_PATTERNS = {
    "YYYY": "[0-9]{4}",
    "YY": "[0-9]{2}",
    **{token: "|".join(sorted(numbers, key=len, reverse=True)) for token, numbers in _MONTH_NUMBERS.items()},
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


@dataclass(frozen=True)
class _Piece:
    """A piece of the template: text, or a pattern with the name of its token of the period, if any."""

    text: str = ""
    pattern: str = ""
    token: str = ""


@dataclass(frozen=True)
class KeyTemplate:
    """A template of keys.

    Tokens in braces stand for the period (`YYYY`, `YY`, `MM`, `M`, `MMM`, `MMMM`) or for what varies in it (`DD`, `D`,
    `HH`, `H`); `*` and `?` stay within one level, `**` crosses levels; a template that ends with `/` takes everything
    below. All else is literal. Under the literal beginning, keys with a level that starts with `_` or `.` (such as
    `_SUCCESS`) do not count; neither do empty objects and keys that end with `/`.

    Args:
        text: The template, without the bucket.

    Raises:
        ConfigurationError: If a token is unknown, or the template does not distinguish periods.
    """

    text: str

    def __post_init__(self) -> None:
        if not self.text or self.text.startswith("/"):
            raise ConfigurationError(f"key={self.text!r}: give a key in the bucket, without a slash in front; {_HELP}.")
        tokens = set(_TOKEN.findall(" ".join(re.findall(r"\{([^{}]*)\}", self.text))))
        if not (tokens & set(_YEAR_TOKENS) and tokens & set(_MONTH_TOKENS)):
            raise ConfigurationError(f"key={self.text!r} has no period in it: {_HELP}.")
        january = self.keys_of(Period.of_month(2001, 1)).pattern
        for name, other in (
            ("October", self._pieces(Period.of_month(2001, 10))),
            ("November", self._pieces(Period.of_month(2001, 11))),
        ):
            if january.fullmatch("".join(_SAMPLES.get(piece.pattern, piece.text) for piece in other)):
                raise ConfigurationError(
                    f"key={self.text!r} takes keys of {name} for January too, as digits may stand beside {{M}}: use "
                    "{MM}, or put separators around it."
                )

    def keys_of(self, period: Period) -> PeriodKeys:
        """Return the keys that belong to the period."""
        return _keys_of(self._pieces(period))

    @cached_property
    def keys_of_all(self) -> PeriodKeys:
        """The keys that may belong to any period; `period_of` returns which."""
        return _keys_of(self._pieces(None))

    def period_of(self, key: str) -> Period | None:
        """Return the period that a key belongs to, the reverse of `keys_of`; None if it belongs to none.

        Raises:
            SourceError: If the key names two periods.
        """
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
        found = [pattern.fullmatch(key) for pattern in self._readings]
        return tuple(sorted({period for each in found if each and (period := self.period_in(each)) is not None}))

    @cached_property
    def is_read_in_one_way(self) -> bool:
        """Whether a key names one period at most, as no wildcard may take what looks like the period."""
        seen: set[str] = set()
        may_take = crosses_levels = False
        for piece in self._pieces(None):
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
        shortest = [replace(each, pattern=_SHORTEST.get(each.pattern, each.pattern)) for each in self._pieces(None)]
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
        literal beginning. Of a template whose keys do not begin with their period, a run is one path.

        Args:
            base: The part of a path before the key.
        """
        pieces = self._pieces(None)
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

        Args:
            prefix: A beginning of keys.

        Returns:
            The prefixes, sorted; none where periods cannot be told apart behind it.
        """
        return cut(prefix, self._period_prefixes)

    def together(self, periods: Collection[Period]) -> tuple[PeriodKeys, Callable[[str], tuple[str, ...]]]:
        """Return keys with the beginning that the keys of these periods have in common, and what cuts it into theirs.

        Args:
            periods: The periods; at least one.
        """
        prefixes = without_longer(_literal_beginning(self._pieces(period)) for period in periods)
        common = replace(self.keys_of_all, prefix=shared_prefix(prefixes), is_one_key=False)
        return common, partial(cut, prefixes=prefixes)

    @cached_property
    def _period_prefixes(self) -> list[str]:
        """The beginnings of the keys of all periods."""
        return without_longer(_literal_beginning(self._pieces(period)) for period in _all_periods())

    @cached_property
    def _periods_by_texts(self) -> dict[tuple[str, ...], Period | None]:
        """The periods found for the tokens' texts: a listing has the same texts again and again."""
        return {}

    def _period_of(self, found: Mapping[str, str]) -> Period | None:
        numbers = {_MONTH_NUMBERS[token][text] for token, text in found.items() if token in _MONTH_NUMBERS}
        years = {_year(text) for token, text in found.items() if token in _YEAR_TOKENS}
        # Tokens that name the period twice, as in {YYYY-MM}/{MMM}, must agree.
        if len(numbers) > 1 or len(years) > 1:
            return None
        try:
            return Period.of_month(years.pop(), numbers.pop())
        except ConfigurationError:
            return None

    def _pieces(self, period: Period | None) -> list[_Piece]:
        pieces: list[_Piece] = []
        text = self.text + ("**" if self.text.endswith("/") else "")
        for tokens, wildcard, stray, literal in _PIECE.findall(text):
            if stray:
                raise ConfigurationError(f"key={self.text!r} has a brace without its partner: {_HELP}.")
            if tokens:
                pieces += self._token_pieces(tokens[1:-1], period)
            elif wildcard:
                pieces.append(_Piece(pattern=_WILDCARDS[wildcard]))
            else:
                pieces.append(_Piece(text=literal))
        return pieces

    def _token_pieces(self, tokens: str, period: Period | None) -> list[_Piece]:
        pieces: list[_Piece] = []
        rest = tokens
        while rest:
            matched = _TOKEN.match(rest) or _SEPARATORS.match(rest)
            found = matched[0] if matched else ""
            if not found:
                known = ", ".join((*_YEAR_TOKENS, *_MONTH_TOKENS, *_VARYING_TOKENS))
                raise ConfigurationError(f"key={self.text!r}: {{{tokens}}} is not understood; tokens are {known}.")
            if found in _VARYING_TOKENS:
                pieces.append(_Piece(pattern=_VARYING_TOKENS[found]))
            elif _TOKEN.fullmatch(found):
                pieces.append(_period_piece(found, period))
            else:
                pieces.append(_Piece(text=found))
            rest = rest[len(found) :]
        return pieces


def _year(text: str) -> int:
    return int(text) if len(text) == 4 else (int(text) - _FIRST_OF_TWO_DIGITS) % 100 + _FIRST_OF_TWO_DIGITS


def _period_piece(token: str, period: Period | None) -> _Piece:
    if period is None:
        return _Piece(pattern=_MONTH_PATTERNS[token], token=token)
    is_year = token in _YEAR_TOKENS
    return _Piece(text=_written(token, period.begin.year if is_year else 2001, 1 if is_year else period.begin.month))


@lru_cache(maxsize=1024)
def _written(token: str, year: int, period: int) -> str:
    return pendulum.datetime(year, period, 1).format(token, locale="en")


def _all_periods() -> Iterator[Period]:
    return (Period.of_month(year, number) for year in range(FIRST_YEAR, LAST_YEAR + 1) for number in range(1, 13))


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
    """Whether a key that begins with these pieces names one period only; of `{M}`, 1 is the beginning of 12, too."""
    return all(
        following.text and not following.text[0].isdigit()
        for each, following in itertools.pairwise((*pieces, _Piece()))
        if each.token == "M"
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
