"""Which keys belong to a month: `trips/{YYYY-MM}/*.parquet` and its like."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass

import pendulum

from airflow_provider_chs3.core.models import Month
from airflow_provider_chs3.exceptions import ConfigurationError

_YEAR_TOKENS = ("YYYY", "YY")
_MONTH_TOKENS = ("MMMM", "MMM", "MM", "M")
#: Tokens that vary within a month, and so match any value.
_VARYING_TOKENS = {"DD": r"\d{2}", "D": r"\d{1,2}", "HH": r"\d{2}", "H": r"\d{1,2}"}
_TOKEN = re.compile("|".join((*_YEAR_TOKENS, *_MONTH_TOKENS, *_VARYING_TOKENS)))
_SEPARATORS = re.compile(r"[-_./]*")
_PIECE = re.compile(r"(\{[^{}]*\})|(\*\*|\*|\?)|([{}])|([^{}*?]+)")
_WILDCARDS = {"*": "[^/]*", "**": ".*", "?": "[^/]"}

#: Something that each pattern matches.
_SAMPLES = {"[^/]*": "", ".*": "", "[^/]": "0", r"\d{2}": "00", r"\d{1,2}": "0"}

_HELP = "name year and month by pendulum's tokens in braces, as in 'trips/{YYYY-MM}/*.parquet' or 'y={YYYY}/m={MM}/'"


@dataclass(frozen=True)
class _Piece:
    """A stretch of the template: text that is the same for a whole month, or a pattern for what varies within it."""

    text: str = ""
    pattern: str = ""


@dataclass(frozen=True)
class MonthKeys:
    """The keys of one month.

    Args:
        prefix: Their literal beginning, which is what a listing starts from.
        pattern: What a whole key must match.
        is_one_key: Whether `prefix` is the key itself.
        levels_below: Slashes in the keys after the prefix; None where that varies.
    """

    prefix: str
    pattern: re.Pattern[str]
    is_one_key: bool
    levels_below: int | None

    def select(self, key: str, size_bytes: int) -> bool:
        """Whether an object of that key and size holds data of the month."""
        if size_bytes == 0 or key.endswith("/") or not self.pattern.fullmatch(key):
            return False
        levels = key[len(self.prefix) :].split("/")
        if self.prefix and not self.prefix.endswith("/"):
            # The template itself says how this level begins.
            levels = levels[1:]
        return not any(level.startswith(("_", ".")) for level in levels)


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
        ConfigurationError: If a token is not known, or the template does not tell months apart.
    """

    text: str

    def __post_init__(self) -> None:
        if not self.text or self.text.startswith("/"):
            raise ConfigurationError(f"key={self.text!r}: give a key in the bucket, without a slash in front; {_HELP}.")
        tokens = set(_TOKEN.findall(" ".join(re.findall(r"\{([^{}]*)\}", self.text))))
        if not (tokens & set(_YEAR_TOKENS) and tokens & set(_MONTH_TOKENS)):
            raise ConfigurationError(f"key={self.text!r} is the same for every month: {_HELP}.")
        january, october = self.keys_of(Month(2001, 1)), self._pieces(Month(2001, 10))
        if january.pattern.fullmatch("".join(_SAMPLES.get(piece.pattern, piece.text) for piece in october)):
            raise ConfigurationError(
                f"key={self.text!r} takes keys of October for January too, as digits may follow {{M}}: use {{MM}}, "
                "or put a separator after it."
            )

    def keys_of(self, month: Month) -> MonthKeys:
        """Which keys belong to the month."""
        pieces = self._pieces(month)
        literal = list(itertools.takewhile(lambda piece: not piece.pattern, pieces))
        any_depth = any(piece.pattern == _WILDCARDS["**"] for piece in pieces)
        return MonthKeys(
            prefix="".join(piece.text for piece in literal),
            pattern=re.compile("".join(piece.pattern or re.escape(piece.text) for piece in pieces), re.DOTALL),
            is_one_key=len(literal) == len(pieces),
            levels_below=None if any_depth else sum(piece.text.count("/") for piece in pieces[len(literal) :]),
        )

    def _pieces(self, month: Month) -> list[_Piece]:
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

    def _token_pieces(self, tokens: str, month: Month) -> list[_Piece]:
        first_day = pendulum.datetime(month.year, month.number, 1)
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
                pieces.append(_Piece(text=first_day.format(found, locale="en")))
            else:
                pieces.append(_Piece(text=found))
            rest = rest[len(found) :]
        return pieces
