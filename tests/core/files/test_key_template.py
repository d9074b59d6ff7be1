"""Key templates: which keys belong to a period."""

from __future__ import annotations

import pytest

from airflow_provider_chs3.core.files.key_template import KeyTemplate
from airflow_provider_chs3.core.model.period import Grain, Period
from airflow_provider_chs3.exceptions import ConfigurationError, SourceError

OCTOBER = Period.of_month(2026, 10)
MAY = Period.of_month(2026, 5)


def selects(template: str, key: str, period: Period = OCTOBER, *, size_bytes: int = 1) -> bool:
    return KeyTemplate(template).keys_of(period).select(key, size_bytes)


class TestPeriodTokens:
    @pytest.mark.parametrize(
        ("template", "october", "may"),
        [
            ("trips/{YYYY-MM}.parquet", "trips/2026-10.parquet", "trips/2026-05.parquet"),
            ("{YYYY}/{MM}/x", "2026/10/x", "2026/05/x"),
            ("{YYYYMM}.csv", "202610.csv", "202605.csv"),
            ("{YY}-{M}.csv", "26-10.csv", "26-5.csv"),
            ("{MMM}{YYYY}.csv", "Oct2026.csv", "May2026.csv"),
            ("{MMMM_YYYY}.csv", "October_2026.csv", "May_2026.csv"),
            ("{YYYY/MM}.csv", "2026/10.csv", "2026/05.csv"),
            ("year={YYYY}/month={MM}.csv", "year=2026/month=10.csv", "year=2026/month=05.csv"),
        ],
    )
    def test_a_template_without_wildcards_is_one_key(self, template, october, may):
        keys = KeyTemplate(template)
        assert [keys.keys_of(period).prefix for period in (OCTOBER, MAY)] == [october, may]
        assert keys.keys_of(OCTOBER).is_one_key

    @pytest.mark.parametrize("template", ["", "/", "/trips/{YYYY-MM}.csv"])
    def test_a_key_is_needed_without_a_slash_in_front(self, template):
        with pytest.raises(ConfigurationError, match="without a slash in front"):
            KeyTemplate(template)

    @pytest.mark.parametrize(
        "template", ["trips.csv", "{YYYY}.csv", "{DD}/{YYYY}.csv", "YYYY-MM.csv", "{}", "{YYYY}-Q{Q}", "{GGGG}-W{WW}"]
    )
    def test_a_template_without_year_and_month_is_the_same_for_every_month(self, template):
        with pytest.raises(ConfigurationError, match=r"has no month in it, .* one month from another: use \{"):
            KeyTemplate(template).at(Grain.MONTH)

    @pytest.mark.parametrize("template", ["{MM}.csv", "{DD}.csv", "{WW}/x", "{HH}/{DD}"])
    def test_tokens_must_name_some_period(self, template):
        with pytest.raises(ConfigurationError, match="names no period"):
            KeyTemplate(template)

    @pytest.mark.parametrize("token", ["{YYYY-MMx}", "{ds YYYY-MM}", "{YYYY MM}", "{YYYY-MM}{}x{foo}", "{YYYY-MM-dd}"])
    def test_an_unknown_token_is_told_with_the_known_ones(self, token):
        with pytest.raises(ConfigurationError, match="is not understood; tokens are YYYY, YY, GGGG, Q, MMMM"):
            KeyTemplate(f"trips/{token}{{foo}}")

    @pytest.mark.parametrize(
        "template", ["{YYYY-MM", "YYYY-MM}/{YYYY-MM}", "{{YYYY-MM}}", "{YYYY-MM}/}", "{YYYY-MM}/{"]
    )
    def test_a_brace_needs_its_partner(self, template):
        with pytest.raises(ConfigurationError, match=r"unmatched brace|is not understood"):
            KeyTemplate(template)

    @pytest.mark.parametrize("template", ["{YYYY}*{M}.csv", "{YYYY}/{D}{M}.csv", "trips/*{M}/{YYYY}/"])
    def test_a_period_without_zeros_must_not_be_preceded_by_more_digits(self, template):
        with pytest.raises(ConfigurationError, match=r"keys of 2001-11 for 2001-01.*use \{MM\}"):
            KeyTemplate(template)

    @pytest.mark.parametrize("template", ["{YYYY-M}*.csv", "{YYYY-M}{D}.csv", "{YYYY}/{M}**"])
    def test_january_must_not_take_the_keys_of_october(self, template):
        with pytest.raises(ConfigurationError, match=r"keys of 2001-10 for 2001-01.*use \{MM\}"):
            KeyTemplate(template)

    def test_the_error_shows_how_it_is_done(self):
        with pytest.raises(ConfigurationError, match=r"trips/\{YYYY-MM\}/\*\.parquet"):
            KeyTemplate("/trips/*.parquet")


class TestWhatVariesWithinAPeriod:
    @pytest.mark.parametrize(
        ("template", "key"),
        [
            ("t/{YYYY-MM}/*.csv", "t/2026-10/a.csv"),
            ("t/{YYYY-MM}/*.csv", "t/2026-10/ü x.csv"),
            ("t/{YYYY-MM}/", "t/2026-10/a"),
            ("t/{YYYY-MM}/", "t/2026-10/deep/er/a"),
            ("t/{YYYY-MM}/**/x.csv", "t/2026-10/a/b/x.csv"),
            ("t/{YYYY-MM}/?.csv", "t/2026-10/a.csv"),
            ("t/{YYYY-MM-DD}.csv", "t/2026-10-31.csv"),
            ("t/{YYYY}/{M}/{D}/{H}.csv", "t/2026/10/1/23.csv"),
            ("t/{YYYY-MM-DD}/{HH}.csv", "t/2026-10-01/00.csv"),
            ("t/{YYYY-MM}*", "t/2026-10"),
        ],
    )
    def test_a_key_that_matches_is_selected(self, template, key):
        assert selects(template, key)

    @pytest.mark.parametrize(
        ("template", "key"),
        [
            ("t/{YYYY-MM}/*.csv", "t/2026-10/a/b.csv"),
            ("t/{YYYY-MM}/*.csv", "t/2026-10/a.csv.gz"),
            ("t/{YYYY-MM}/*.csv", "t/2026-11/a.csv"),
            ("t/{YYYY-MM}/*.csv", "t/2026-10/a_csv"),
            ("t/{YYYY-MM}/?.csv", "t/2026-10/ab.csv"),
            ("t/{YYYY-MM}/?.csv", "t/2026-10//.csv"),
            ("t/{YYYY-MM-DD}.csv", "t/2026-10-1.csv"),
            ("t/{YYYY-MM}/", "u/t/2026-10/a"),
            ("t/{YYYY-MM}/", "t/2026-100/a"),
        ],
    )
    def test_a_key_that_does_not_match_is_left_out(self, template, key):
        assert not selects(template, key)


class TestLiteralText:
    @pytest.mark.parametrize(
        "hostile", ["a+b", "(x|y)", "[0-9]", "^$", "a\\b", "a'b", 'a"b', "%7B%20", "ü", "a b", "\n"]
    )
    def test_all_other_characters_stand_for_themselves(self, hostile):
        assert selects(f"{hostile}/{{YYYY-MM}}/*", f"{hostile}/2026-10/x")
        assert not selects(f"{hostile}/{{YYYY-MM}}/*", f"{hostile}{hostile}/2026-10/x")

    @pytest.mark.parametrize("hostile", ["a{b}c.csv", "[x].csv", "a'b.csv", "a%20b.csv", "a\nb.csv", "*.csv", "🚕.csv"])
    def test_wildcards_match_any_characters_of_a_level(self, hostile):
        assert selects("t/{YYYY-MM}/*.csv", f"t/2026-10/{hostile}")


class TestWhatIsNoData:
    @pytest.mark.parametrize(
        "key", ["_SUCCESS", ".hidden", "_temporary/0/part.csv", "a/.x/b", "a/_b", ".part.csv.crc", "sub/"]
    )
    def test_markers_and_hidden_levels_do_not_count(self, key):
        assert not selects("t/{YYYY-MM}/", f"t/2026-10/{key}")

    def test_empty_objects_do_not_count(self):
        assert not selects("t/{YYYY-MM}/", "t/2026-10/a.csv", size_bytes=0)

    @pytest.mark.parametrize("key", ["a_b", "a.b/c_", "x_/y"])
    def test_underscores_and_dots_elsewhere_are_fine(self, key):
        assert selects("t/{YYYY-MM}/", f"t/2026-10/{key}")

    @pytest.mark.parametrize(
        ("template", "key"),
        [
            ("_raw/{YYYY-MM}/", "_raw/2026-10/a"),
            (".x/{YYYY-MM}.csv", ".x/2026-10.csv"),
            ("t/_{YYYY-MM}.csv", "t/_2026-10.csv"),
            ("t/_{YYYY-MM}*.csv", "t/_2026-10-a.csv"),
            ("t/{YYYY-MM}/_*.csv", "t/2026-10/_a.csv"),
        ],
    )
    def test_what_the_template_itself_begins_is_meant(self, template, key):
        assert selects(template, key)

    def test_below_a_level_that_the_template_begins_they_do_not_count_either(self):
        assert not selects("t/_{YYYY-MM}**", "t/_2026-10/_SUCCESS")


class TestListing:
    @pytest.mark.parametrize(
        ("template", "prefix"),
        [
            ("t/{YYYY-MM}/*.csv", "t/2026-10/"),
            ("t/{YYYY-MM}/", "t/2026-10/"),
            ("t/{YYYY-MM-DD}.csv", "t/2026-10-"),
            ("t/*/{YYYY-MM}/x", "t/"),
            ("*/{YYYY-MM}/x", ""),
            ("t/{YYYY-MM}?", "t/2026-10"),
        ],
    )
    def test_starts_from_the_literal_beginning(self, template, prefix):
        assert KeyTemplate(template).keys_of(OCTOBER).prefix == prefix

    @pytest.mark.parametrize(
        ("template", "levels"),
        [
            ("t/{YYYY-MM}/*.csv", 0),
            ("t/*/{YYYY-MM}/x", 2),
            ("t/{YYYY-MM}/", None),
            ("t/{YYYY-MM}/**.csv", None),
            ("t/{YYYY-MM}.csv", 0),
        ],
    )
    def test_knows_how_many_levels_follow(self, template, levels):
        assert KeyTemplate(template).keys_of(OCTOBER).levels_below == levels


class TestCuttingAPrefix:
    @pytest.mark.parametrize(
        ("template", "prefix", "first", "last", "count"),
        [
            ("t/{YYYY-MM}/*", "t/", "t/197", "t/210", 14),
            ("t/{YYYY-MM}/*", "t/2026", "t/2026-01", "t/2026-12", 12),
            ("t/{YYYY}/{M}/*", "t/2026", "t/2026/1", "t/2026/9", 9),
            ("{MMM}{YYYY}.csv", "", "A", "S", 8),
            ("t/{YYYY}/*-{MM}.csv", "t/202", "t/2020", "t/2029", 10),
        ],
    )
    def test_it_falls_into_what_periods_are_called(self, template, prefix, first, last, count):
        pieces = KeyTemplate(template).narrower(prefix)
        assert (pieces[0], pieces[-1], len(pieces)) == (first, last, count)

    @pytest.mark.parametrize(
        ("template", "prefix"),
        [
            ("t/{YYYY-MM}/*", "t/2026-10"),
            ("t/{YYYY-MM}/*", "t/2026-10/"),
            ("t/{YYYY-MM}/*", "t/3"),
            ("t/{YYYY}/*-{MM}.csv", "t/2026"),
            ("*/{YYYY-MM}.csv", ""),
            ("{DD}.{MM}.{YYYY}", ""),
        ],
    )
    def test_what_is_of_one_period_or_begins_with_what_varies_is_not_cut(self, template, prefix):
        assert KeyTemplate(template).narrower(prefix) == ()


class TestPeriodOfKey:
    @pytest.mark.parametrize(
        ("template", "key"),
        [
            ("trips/{YYYY-MM}/*.parquet", "trips/2026-10/a.parquet"),
            ("year={YYYY}/month={MM}/", "year=2026/month=10/a/b.csv"),
            ("{YYYYMM}.csv", "202610.csv"),
            ("{YY}-{M}.csv", "26-10.csv"),
            ("t{YYYY}{M}", "t202610"),
            ("{MMM}{YYYY}.csv", "Oct2026.csv"),
            ("{MMMM_YYYY}.csv", "October_2026.csv"),
            ("**/{YYYY}/x-{YYYY-MM}-{DD}.csv", "a/b/2026/x-2026-10-31.csv"),
            ("{YYYY-MM}/{MMM}{YY}.csv", "2026-10/Oct26.csv"),
        ],
    )
    def test_it_is_the_month_whose_keys_have_it(self, template, key):
        assert KeyTemplate(template).period_of(key) == OCTOBER
        assert selects(template, key)

    @pytest.mark.parametrize(
        ("template", "key"),
        [
            ("{YYYY-MM}.csv", "2026-13.csv"),
            ("{YYYY-MM}.csv", "2026-00.csv"),
            ("{YYYY-MM}.csv", "1026-10.csv"),
            ("{YYYY-MM}.csv", "2026-10.csv.gz"),
            ("{YYYY-MM}/{YYYY-MM}.csv", "2026-10/2026-11.csv"),
            ("{YYYY-MM}/{MMM}.csv", "2026-10/Nov.csv"),
            ("{YYYY-MM}/{YY}.csv", "2026-10/25.csv"),
        ],
    )
    def test_a_key_of_no_period_has_none(self, template, key):
        assert KeyTemplate(template).period_of(key) is None

    @pytest.mark.parametrize(
        ("template", "key"),
        [
            ("*{YYYY-MM-DD}*.csv", "from_2026-09-30_to_2026-10-01.csv"),
            ("{YYYY}*{MM}*.csv", "2026-09-10.csv"),
            ("{YYYY}/**/{MM}/**", "2026/x/09/10/a.csv"),
            ("**{YYYY-MM}/", "2026-09/2026-10/a.csv"),
        ],
    )
    def test_a_key_that_names_two_periods_is_refused(self, template, key):
        with pytest.raises(SourceError, match=r"may belong to 2026-\d\d or to 2026-1\d by key=.*wildcard precedes"):
            KeyTemplate(template).period_of(key)

    @pytest.mark.parametrize(
        ("template", "key"),
        [
            ("{YYYY}/{MM}/*{YYYY-MM-DD}*.csv", "2026/10/from_2026-10-31_to_2026-11-01.csv"),
            ("*/{YYYY-MM}/*.csv", "2026-09/2026-10/2026-11.csv"),
            ("*{YYYY-MM-DD}*.csv", "from_2026-10-01_to_2026-10-31.csv"),
            ("*{YYYYMM}*.csv", "x202610201.csv"),
        ],
    )
    def test_a_second_date_does_no_harm_where_the_template_tells(self, template, key):
        assert KeyTemplate(template).period_of(key) == OCTOBER

    @pytest.mark.parametrize(("digits", "year"), [("71", 1971), ("99", 1999), ("00", 2000), ("70", 2070)])
    def test_two_digits_of_a_year_mean_1971_to_2070(self, digits, year):
        assert KeyTemplate("{YYMM}.csv").period_of(f"{digits}10.csv") == Period.of_month(year, 10)
