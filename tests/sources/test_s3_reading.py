"""Table functions, and how exactly the wanted objects are read."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from fnmatch import fnmatchcase

import pytest

from airflow_provider_chs3.core.files.key_template import KeyTemplate
from airflow_provider_chs3.core.model.models import Manifest, Unit
from airflow_provider_chs3.core.sql.quoting import literal
from airflow_provider_chs3.exceptions import ConfigurationError
from airflow_provider_chs3.sources.s3.reading import Credentials, S3Source

TEMPLATE = KeyTemplate("t/{YYYY-MM}/")
KEYS = Credentials(access_key_id="AKIA", secret_access_key="s3cr'et", session_token="tok\\en")


def source(credentials: Credentials = KEYS, *, bucket: str = "lake", base: str = "lake/") -> S3Source:
    return S3Source(
        bucket=bucket, template=TEMPLATE, endpoint_url="http://s3:9000/", credentials=credentials, base=base
    )


def manifest(*keys: str) -> Manifest:
    return Manifest.of(Unit(f"lake/{key}", 1, "e", datetime(2026, 10, 1, tzinfo=UTC)) for key in keys)


class TestTableFunction:
    def test_of_one_server(self):
        rendered = source(Credentials()).table_function("a/*", file_format="CSV").text
        assert rendered == "s3('http://s3:9000/lake/a/*', NOSIGN, 'CSV', 'auto', 'auto')"

    def test_of_a_cluster(self):
        rendered = source(Credentials()).table_function("a", file_format="CSV", cluster="it's").text
        assert rendered.startswith(r"s3Cluster('it\'s', 'http://s3:9000/lake/a', ")

    def test_structure_and_compression_are_literals(self):
        rendered = source(Credentials()).table_function(
            "a", file_format="X'", structure="`a` Enum8('x' = 1)", compression="g'"
        )
        assert rendered.text.endswith(r"NOSIGN, 'X\'', '`a` Enum8(\'x\' = 1)', 'g\'')")

    def test_keys_are_given_with_their_token(self):
        rendered = source().table_function("a", file_format="CSV").text
        assert r"'http://s3:9000/lake/a', 'AKIA', 's3cr\'et', 'tok\\en', 'CSV'" in rendered

    def test_keys_are_given_without_a_token_where_there_is_none(self):
        rendered = source(Credentials(access_key_id="A", secret_access_key="S")).table_function("a", file_format="CSV")
        assert "'http://s3:9000/lake/a', 'A', 'S', 'CSV', 'auto', 'auto')" in rendered.text

    def test_secret_and_token_are_hidden_when_printed(self):
        rendered = source().table_function("a", file_format="CSV")
        assert str(rendered) == ("s3('http://s3:9000/lake/a', 'AKIA', '[HIDDEN]', '[HIDDEN]', 'CSV', 'auto', 'auto')")

    def test_the_id_of_a_key_is_hidden_unless_it_is_as_short_as_a_word(self):
        keys = Credentials(access_key_id="AKIA2EXAMPLE4ID6", secret_access_key="secret")
        assert str(source(keys).table_function("a", file_format="CSV")) == (
            "s3('http://s3:9000/lake/a', '[HIDDEN]', '[HIDDEN]', 'CSV', 'auto', 'auto')"
        )
        assert "AKIA2" not in repr(keys)

    def test_a_role_is_assumed_by_the_servers(self):
        rendered = source(Credentials(role_arn="arn:'x")).table_function("a", file_format="CSV").text
        assert rendered == (
            r"s3('http://s3:9000/lake/a', extra_credentials(role_arn = 'arn:\'x'), 'CSV', 'auto', 'auto')"
        )

    def test_a_role_may_ask_for_an_external_id_which_is_hidden_unless_it_is_as_short_as_a_word(self):
        long = source(Credentials(role_arn="arn:x", external_id="it's-ours")).table_function("a", file_format="CSV")
        assert r"extra_credentials(role_arn = 'arn:x', external_id = 'it\'s-ours'), 'CSV'" in long.text
        assert "external_id = '[HIDDEN]'" in str(long)
        short = source(Credentials(role_arn="arn:x", external_id="CSV")).table_function("a", file_format="CSV")
        assert "external_id = 'CSV'), 'CSV'" in str(short)

    def test_an_external_id_is_for_a_role(self):
        with pytest.raises(ConfigurationError, match="no role is set: set role_arn"):
            Credentials(external_id="ours")

    def test_a_named_collection_holds_url_and_keys(self):
        given = Credentials(named_collection="nc`x")
        rendered = (
            source(given, bucket="").table_function("a'b", file_format="CSV", cluster="c", structure="x Int8").text
        )
        assert rendered == (
            r"s3Cluster('c', `nc\`x`, filename = 'a\'b', format = 'CSV', structure = 'x Int8', "
            "compression_method = 'auto')"
        )

    def test_secrets_are_not_in_the_repr_of_a_source(self):
        assert "s3cr" not in repr(source()) + repr(KEYS)
        assert "tok" not in repr(KEYS)


class TestBucket:
    @pytest.mark.parametrize("bucket", ["lake", "my-lake.2026", "a1b", "x_y"])
    def test_takes_a_name(self, bucket):
        assert source(bucket=bucket).bucket == bucket

    @pytest.mark.parametrize(
        "bucket", ["", "ab", "s3://lake", "lake/t", "Lake", "a b", "x'y", "-ab", "lake\n", "a" * 64]
    )
    def test_refuses_what_is_none(self, bucket):
        wrong = f"bucket={bucket!r} is not the name of a bucket" if bucket else "No bucket"
        with pytest.raises(ConfigurationError, match=re.escape(f"{wrong}: set it without s3://")):
            source(bucket=bucket)

    def test_a_named_collection_may_name_it(self):
        assert source(Credentials(named_collection="nc"), bucket="").bucket == ""


HOSTILE_KEYS = [
    "t/2026-10/a b.csv",
    "t/2026-10/it's.csv",
    "t/2026-10/{a,b}.csv",
    "t/2026-10/{1..9}.csv",
    "t/2026-10/*.csv",
    "t/2026-10/?.csv",
    "t/2026-10/[ab].csv",
    "t/2026-10/%20.csv",
    "t/2026-10/a#b.csv",
    "t/2026-10/a :: b.csv",
    "t/2026-10/a\\b.csv",
    "t/2026-10/a\nb.csv",
    "t/2026-10/ünï 🚕.csv",
    "t/2026-10/a+b&c=d.csv",
]


class TestBatches:
    def test_a_plain_key_alone_is_read_directly(self):
        (batch,) = source().batches(manifest("t/2026-10/a.csv"))
        assert batch.glob == "t/2026-10/a.csv"

    def test_several_plain_keys_are_listed_so_that_nothing_else_is_opened(self):
        (batch,) = source().batches(manifest("t/2026-10/part-1.csv", "t/2026-10/part-2.csv", "t/2026-10/x/30.csv"))
        assert batch.glob == "t/2026-10/{part-1.csv,part-2.csv,x/30.csv}"

    def test_the_condition_names_exactly_the_objects(self):
        (batch,) = source().batches(manifest("t/b", "t/a"))
        assert batch.condition == "_path IN ('lake/t/a', 'lake/t/b')"

    @pytest.mark.parametrize("key", HOSTILE_KEYS)
    def test_a_hostile_key_is_in_the_condition_as_a_literal(self, key):
        batches = source().batches(manifest(key, "t/2026-10/z.csv"))
        assert literal(f"lake/{key}") in "".join(batch.condition for batch in batches)

    @pytest.mark.parametrize("key", HOSTILE_KEYS)
    def test_the_glob_of_a_hostile_key_holds_none_of_its_characters(self, key):
        (batch,) = source().batches(manifest(key))
        assert batch.glob.startswith("t/2026-10/")
        assert not set(batch.glob) & set(" '{}*[]%#:\\\n+&🚕ü")

    @pytest.mark.parametrize("key", HOSTILE_KEYS)
    def test_the_glob_matches_the_object(self, key):
        (batch,) = source().batches(manifest(key))
        assert fnmatchcase(key, batch.glob)

    def test_plain_and_hostile_keys_are_a_batch_each_however_deep(self):
        batches = source().batches(manifest("t/a", "t/b/c", "t/b/c/d 1", "t/é/x"))
        assert [batch.glob for batch in batches] == ["t/{a,b/c}", "t/{b/c/d?1,?/x}"]

    def test_hostile_keys_that_are_alike_have_one_glob(self):
        (batch,) = source().batches(manifest("t/a{", "t/a}"))
        assert (batch.glob, batch.paths) == ("t/a?", ("lake/t/a{", "lake/t/a}"))

    @pytest.mark.parametrize(("name", "globs"), [("n (1)", ["t/**"]), ("{n}", ["t/*", "t/*/*"])])
    def test_many_hostile_keys_have_a_wildcard_with_braces_one_for_each_depth(self, name, globs):
        keys = [f"t/{folder}{name}{number}" for number in range(60) for folder in ("", "ü/")]
        batches = source().batches(manifest(*keys))
        assert sorted(batch.glob for batch in batches) == globs
        assert sorted(path for batch in batches for path in batch.paths) == sorted(f"lake/{key}" for key in keys)

    def test_every_object_is_in_exactly_one_batch(self):
        listed = manifest("t/a{1}", "t/b/c", "t/b/{c}", "t/b/c/d", *HOSTILE_KEYS)
        paths = [path for batch in source().batches(listed) for path in batch.paths]
        assert sorted(paths) == [unit.path for unit in listed.objects]

    def test_no_objects_are_no_batches(self):
        assert source().batches(manifest()) == []

    def test_a_base_below_the_bucket_is_not_in_the_glob(self):
        (batch,) = source(base="lake/t/").batches(manifest("t/2026-10/a.csv", "t/2026-10/b.csv"))
        assert batch.glob == "2026-10/{a.csv,b.csv}"

    def test_no_name_in_the_list_is_empty(self):
        (batch,) = source().batches(manifest("t/a", "t/a/b"))
        assert batch.glob == "t/{a,a/b}"


@pytest.mark.parametrize(
    ("key", "glob"),
    [
        ("t/a.csv", "t/a.csv"),
        ("m=1/a+b c.csv", "m=1/a%2Bb%20c.csv"),
        ("t/a%20b.csv", "t/a%2520b.csv"),
        ("🚕/[x]", "%F0%9F%9A%95/%5Bx%5D"),
        ("t/a b'{c}.csv", "t/a?b??c?.csv"),
    ],
)
def test_one_file_is_described_by_its_key_in_a_url_or_by_a_glob_without_hostile_characters(key, glob):
    assert source().glob_of(f"lake/{key}") == glob
