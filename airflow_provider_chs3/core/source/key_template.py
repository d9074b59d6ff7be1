"""Templates of the keys of a month, such as `trips/{YYYY-MM}/*.parquet`."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial

import pendulum

from airflow_provider_chs3.core.source.prefixes import MonthKeys, cut, shared_prefix, without_longer
from airflow_provider_chs3.core.values.models import FIRST_YEAR, LAST_YEAR, Month
from airflow_provider_chs3.exceptions import ConfigurationError, SourceError

_YEAR_TOKENS = ("YYYY", "YY")
_MONTH_TOKENS = ("MMMM", "MMM", "MM", "M")
#: Tokens that vary within a month, so they match any value.
_VARYING_TOKENS = {"DD": r"\d{2}", "D": r"\d{1,2}", "HH": r"\d{2}", "H": r"\d{1,2}"}
_TOKEN = re.compile("|".join((*_YEAR_TOKENS, *_MONTH_TOKENS, *_VARYING_TOKENS)))
#: Token of the month → its text → the month's number.
_MONTH_NUMBERS = {
    token: {pendulum.datetime(2001, number, 1).format(token, locale="en"): number for number in range(1, 13)}
    for token in _MONTH_TOKENS
}
#: Patterns of the tokens of the month, the longest first: {M} must match 12, not 1.
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
    """A piece of the template: text, or a pattern with the name of its token of the month, if any."""

    text: str = ""
    pattern: str = ""
    token: str = ""


@dataclass(frozen=True)
class KeyTemplate:
    """A template of keys.

    Tokens in braces stand for the month (`YYYY`, `YY`, `MM`, `M`, `MMM`, `MMMM`) or for what varies in it (`DD`, `D`,
    `HH`, `H`); `*` and `?` stay within one level, `**` crosses levels; a template that ends with `/` takes everything
    below. All else is literal. Under the literal beginning, keys with a level that starts with `_` or `.` (such as
    `_SUCCESS`) do not count; neither do empty objects and keys that end with `/`.

    Args:
        text: The template, without the bucket.

    Raises:
        ConfigurationError: If a token is unknown, or the template does not distinguish months.
    """

    text: str

    def __post_init__(self) -> None:
        if not self.text or self.text.startswith("/"):
            raise ConfigurationError(f"key={self.text!r}: give a key in the bucket, without a slash in front; {_HELP}.")
        tokens = set(_TOKEN.findall(" ".join(re.findall(r"\{([^{}]*)\}", self.text))))
        if not (tokens & set(_YEAR_TOKENS) and tokens & set(_MONTH_TOKENS)):
            raise ConfigurationError(f"key={self.text!r} has no month in it: {_HELP}.")
        january = self.keys_of(Month(2001, 1)).pattern
        for name, other in (("October", self._pieces(Month(2001, 10))), ("November", self._pieces(Month(2001, 11)))):
            if january.fullmatch("".join(_SAMPLES.get(piece.pattern, piece.text) for piece in other)):
                raise ConfigurationError(
                    f"key={self.text!r} takes keys of {name} for January too, as digits may stand beside {{M}}: use "
                    "{MM}, or put separators around it."
                )

    def keys_of(self, month: Month) -> MonthKeys:
        """Return the keys that belong to the month."""
        return _keys_of(self._pieces(month))

    @cached_property
    def keys_of_all(self) -> MonthKeys:
        """The keys that may belong to any month; `month_of` returns which."""
        return _keys_of(self._pieces(None))

    def month_of(self, key: str) -> Month | None:
        """Return the month that a key belongs to, the reverse of `keys_of`; None if it belongs to none.

        Raises:
            SourceError: If the key names two months.
        """
        months = self.months_named(key)
        if len(months) > 1:
            raise SourceError(
                f"{key!r} may belong to {' or to '.join(map(str, months))} by key={self.text!r}, as a wildcard "
                "precedes the month: replace it with what the keys have there, or move the object to a key with one "
                "date."
            )
        return months[0] if months else None

    def months_named(self, key: str) -> tuple[Month, ...]:
        """Return the months that a key names, sorted: of two dates behind a wildcard, either may be the template's."""
        found = [pattern.fullmatch(key) for pattern in self._readings]
        return tuple(sorted({month for each in found if each and (month := self.month_in(each)) is not None}))

    @cached_property
    def is_read_in_one_way(self) -> bool:
        """Whether a key names one month at most, as no wildcard may take what looks like the month."""
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

    def month_in(self, matched: re.Match[str]) -> Month | None:
        """Return the month that a match of `keys_of_all` or `runs` names; None if it names none."""
        texts = matched.groups()
        if texts not in self._months_by_texts:
            self._months_by_texts[texts] = self._month_of(matched.groupdict())
        return self._months_by_texts[texts]

    def runs(self, base: str) -> re.Pattern[str]:
        """Return the pattern of a run: one path, or several of the same month, with `END` behind each.

        One match for a whole page takes a tenth of the time of one for each key. The group `beginning` is the paths'
        literal beginning. Of a template whose keys do not begin with their month, a run is one path.

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
        """Cut a prefix into longer ones: each key of a month that begins with it begins with exactly one of them.

        They follow from what months are called, whatever is in the bucket, and so may be of months without objects: at
        most a dozen or two at a time.

        Args:
            prefix: A beginning of keys.

        Returns:
            The prefixes, sorted; none where months cannot be told apart behind it.
        """
        return cut(prefix, self._month_prefixes)

    def together(self, months: Collection[Month]) -> tuple[MonthKeys, Callable[[str], tuple[str, ...]]]:
        """Return keys with the beginning that the keys of these months have in common, and what cuts it into theirs.

        Args:
            months: The months; at least one.
        """
        prefixes = without_longer(_literal_beginning(self._pieces(month)) for month in months)
        common = replace(self.keys_of_all, prefix=shared_prefix(prefixes), is_one_key=False)
        return common, partial(cut, prefixes=prefixes)

    @cached_property
    def _month_prefixes(self) -> list[str]:
        """The beginnings of the keys of all months."""
        return without_longer(_literal_beginning(self._pieces(month)) for month in _all_months())

    @cached_property
    def _months_by_texts(self) -> dict[tuple[str, ...], Month | None]:
        """The months found for the tokens' texts: a listing has the same texts again and again."""
        return {}

    def _month_of(self, found: Mapping[str, str]) -> Month | None:
        numbers = {_MONTH_NUMBERS[token][text] for token, text in found.items() if token in _MONTH_NUMBERS}
        years = {_year(text) for token, text in found.items() if token in _YEAR_TOKENS}
        # Tokens that name the month twice, as in {YYYY-MM}/{MMM}, must agree.
        if len(numbers) > 1 or len(years) > 1:
            return None
        try:
            return Month(years.pop(), numbers.pop())
        except ConfigurationError:
            return None

    def _pieces(self, month: Month | None) -> list[_Piece]:
        pieces: list[_Piece] = []
        text = self.text + ("**" if self.text.endswith("/") else "")
        for tokens, wildcard, stray, literal in _PIECE.findall(text):
            if stray:
                raise ConfigurationError(f"key={self.text!r} has a brace without its partner: {_HELP}.")
            if tokens:
                pieces += self._token_pieces(tokens[1:-1], month)
            elif wildcard:
                pieces.append(_Piece(pattern=_WILDCARDS[wildcard]))
            else:
                pieces.append(_Piece(text=literal))
        return pieces

    def _token_pieces(self, tokens: str, month: Month | None) -> list[_Piece]:
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
                pieces.append(_month_piece(found, month))
            else:
                pieces.append(_Piece(text=found))
            rest = rest[len(found) :]
        return pieces


def _year(text: str) -> int:
    return int(text) if len(text) == 4 else (int(text) - _FIRST_OF_TWO_DIGITS) % 100 + _FIRST_OF_TWO_DIGITS


def _month_piece(token: str, month: Month | None) -> _Piece:
    if month is None:
        return _Piece(pattern=_MONTH_PATTERNS[token], token=token)
    is_year = token in _YEAR_TOKENS
    return _Piece(text=_written(token, month.year if is_year else 2001, 1 if is_year else month.number))


@lru_cache(maxsize=1024)
def _written(token: str, year: int, month: int) -> str:
    return pendulum.datetime(year, month, 1).format(token, locale="en")


def _all_months() -> Iterator[Month]:
    return (Month(year, number) for year in range(FIRST_YEAR, LAST_YEAR + 1) for number in range(1, 13))


def _literal_beginning(pieces: Sequence[_Piece]) -> str:
    return "".join(piece.text for piece in itertools.takewhile(lambda piece: not piece.pattern, pieces))


def _keys_of(pieces: Sequence[_Piece]) -> MonthKeys:
    literal = list(itertools.takewhile(lambda piece: not piece.pattern, pieces))
    any_depth = any(piece.pattern == _WILDCARDS["**"] for piece in pieces)
    return MonthKeys(
        prefix=_literal_beginning(pieces),
        pattern=re.compile(_pattern(pieces), re.DOTALL),
        is_one_key=len(literal) == len(pieces),
        levels_below=None if any_depth else sum(piece.text.count("/") for piece in pieces[len(literal) :]),
    )


def _is_read_in_one_way(pieces: Sequence[_Piece]) -> bool:
    """Whether a key that begins with these pieces names one month only; of `{M}`, 1 is the beginning of 12, too."""
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
