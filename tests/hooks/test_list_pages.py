"""Pages that are read here have the same objects as those that boto3 reads, whatever the keys are."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any
from xml.sax.saxutils import escape

import pytest
from botocore.awsrequest import AWSResponse
from botocore.exceptions import ClientError
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_chs3.core.months.plan import MonthObjects, list_months
from airflow_provider_chs3.core.source.key_template import KeyTemplate
from airflow_provider_chs3.core.source.s3_source import Credentials, S3Source
from airflow_provider_chs3.core.values.models import Manifest, Month, S3Object
from airflow_provider_chs3.core.workflow.driving import drive
from airflow_provider_chs3.core.workflow.operations import Gather
from airflow_provider_chs3.exceptions import SourceError, TransientError
from airflow_provider_chs3.hooks.listing.page_reader import LISTED, read_leanly, read_page
from airflow_provider_chs3.hooks.s3 import S3Listing
from airflow_provider_chs3.testbed.s3 import S3Endpoint
from tests.benchmarks.servers import s3_server

HOSTILE = [
    "t/a&b", "t/a&amp;b", "t/a&quot;b", "t/<Key>x</Key>", "t/]]>", "t/a>b", "t/a\nb", "t/a\tb", "t/a+b", "t/a b",
    "t/a%20b", "t/a%2Bb", "t/%", "t/ü", "t/u\u0308", "t/🚕", "t/日本", 't/"quoted"', "t/'s", "t/a;b?c=d#e",
    "t/</Contents><Contents>", "t/&#34;", "t/\x7f", "t/~-_.!*()", "t/Size", "t/__/..x", "t/{a,b}", "t/a\\b",
]  # fmt: skip
CONTROL = ["t/a\rb", "t/\x01", "t/\x1f\x0b"]
HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
ENDED = "<IsTruncated>false</IsTruncated>"
KEYS = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"], exclude_characters="\ufffe\uffff"))


def item(key: str, *, size: int = 1, etag: str = "&quot;e&quot;", more: str = "", order: str = "KTES") -> str:
    texts = {
        "K": f"<Key>{key}</Key>",
        "T": "<LastModified>2026-10-01T12:00:00.123Z</LastModified>",
        "E": f"<ETag>{etag}</ETag>",
        "S": f"<Size>{size}</Size>",
    }
    return f"<Contents>{''.join(texts[each] for each in order)}{more}</Contents>"


def body(*parts: str, head: str = HEAD, end: str = ENDED) -> bytes:
    return f"{head}{end}{''.join(parts)}</ListBucketResult>".encode()


class Answers:
    """A client of boto3 whose answers are given, and how it reads them: with us, and without."""

    def __init__(self, *answers: bytes | tuple[int, bytes]) -> None:
        self.answers = [each if isinstance(each, tuple) else (200, each) for each in answers]
        self.asked = 0

    def client(self, *, lean: bool) -> Any:
        client = S3Endpoint("http://s3.invalid", "a", "b").client()
        if lean:
            read_leanly(client)
        client.meta.events.register("before-send.s3.ListObjectsV2", self._answer)
        return client

    def _answer(self, request: Any, **kwargs: Any) -> AWSResponse:
        status, answer = self.answers[min(self.asked, len(self.answers) - 1)]
        self.asked += 1
        response = AWSResponse(request.url, status, {}, SimpleNamespace())
        response._content = answer
        return response


def listing_of(client: Any) -> S3Listing:
    listing = S3Listing("aws_default")
    listing._client = client
    return listing


def by_boto3(client: Any, bucket: str, prefix: str) -> list[S3Object]:
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
    return [
        S3Object(f"{bucket}/{each['Key']}", each["Size"], each["ETag"].strip('"'), each["LastModified"])
        for page in pages
        for each in page.get("Contents", ())
    ]


def is_read_alike(page: bytes) -> bool:
    """Check that both read the same, and tell whether we read it without botocore."""
    expected = by_boto3(Answers(page).client(lean=False), "b", "")
    assert list(listing_of(Answers(page).client(lean=True)).objects("b", "")) == expected
    return read_page(page) is not None


@pytest.fixture
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retries do not wait."""
    monkeypatch.setattr("botocore.endpoint.time.sleep", lambda _: None)


class TestMadeUpPages:
    @given(st.lists(KEYS, min_size=1, max_size=5))
    def test_any_text_of_a_key_is_read_as_by_boto3(self, keys: list[str]) -> None:
        listed = [(key, "1", '"e"', "2026-10-01T12:00:00.123Z") for key in keys]
        page = body(*(item(escape(key, {'"': "&quot;"})) for key in keys))
        left, read = read_page(page) or (b"", [])
        assert read == listed
        assert left == body()

    @pytest.mark.parametrize(
        "page",
        [
            body(item("a")),
            body(item("a", order="EKTS"), item("b", order="EKTS")),
            body(item("a", order="SETK", more="<StorageClass>STANDARD</StorageClass>")),
            body(item("a", more="<Owner><ID>1</ID><DisplayName>x</DisplayName></Owner>"), item("b")),
            body(item("a", more="<ChecksumAlgorithm>CRC32</ChecksumAlgorithm><ChecksumType/>"), item("b", more="\n  ")),
            body("\n  ", item("a").replace("><", ">\n    <"), "\n  ", item("b")),
            body(item("a%2Bb+c%0A%26"), end=f"<EncodingType>url</EncodingType>{ENDED}"),
            body(item("a%2Bb+c")),
            body(item("&#x41;&#66;&#x1F695;&lt;&amp;lt;&#9;")),
            body(item("a", etag='"plain"'), item("b", etag="&#34;x-2&#34;"), item("c", etag="")),
            body(item("", size=0), item("x", size=5 * 1024**4)),
        ],
    )
    def test_what_servers_send_is_read_here(self, page: bytes) -> None:
        assert is_read_alike(page)

    @pytest.mark.parametrize(
        "page",
        [
            body(),
            body("<!-- <Contents> -->", item("a"), "<!-- -->", item("b")),
            body(item("<![CDATA[a<b]]>")),
            body(item("a\rb")),
            body(item("a"), "<CommonPrefixes><Prefix>p/</Prefix></CommonPrefixes>", item("b")),
            body(item("a"), ENDED, item("b"), end=""),
            body(item("a"), item("b", order="ETKS")),
            body(item("a", more="<Deep><er><Key>b</Key></er></Deep>")),
            body(item("a").replace("<Key>", '<Key lang="x">')),
            body(item("a").replace("Contents>", "x:Contents>"), head=HEAD.replace(">", ' xmlns:x="y">')).replace(
                b'?xml version="1.0" encoding="UTF-8"? xmlns:x="y">', b'?xml version="1.0" encoding="UTF-8"?>'
            ),
        ],
    )
    def test_what_is_unusual_is_left_to_botocore(self, page: bytes) -> None:
        assert not is_read_alike(page)

    @pytest.mark.parametrize(
        "page",
        [
            body(item("a"))[:-5],
            body(item("a"))[:-60],
            body(item("a"), item("b&nbsp;")),
            body(item("\x01")),
            body(item("&#0;")),
            body(item("a")).replace(b"<Key>a", b"<Key>\xff"),
        ],
    )
    @pytest.mark.usefixtures("_impatient")
    def test_what_is_no_xml_is_asked_for_again_and_then_an_error_that_may_pass(self, page: bytes) -> None:
        assert read_page(page) is None or b"</ListBucketResult>" not in page
        answers = Answers(page)
        with pytest.raises(TransientError, match=r"Cannot list s3://b/t/"):
            list(listing_of(answers.client(lean=True)).objects("b", "t/"))
        assert answers.asked > 1


class TestGoingOn:
    MORE = "<IsTruncated>true</IsTruncated><NextContinuationToken>{}</NextContinuationToken>"
    ERROR = b"<Error><Code>%s</Code><Message>no</Message></Error>"

    def test_pages_follow_each_other(self) -> None:
        pages = [body(item("a"), end=self.MORE.format(1)), body(item("b"), end=self.MORE.format(2)), body(item("c"))]
        found = listing_of(Answers(*pages).client(lean=True)).objects("b", "")
        assert [each.key for each in found] == ["a", "b", "c"]

    @pytest.mark.parametrize("token", ["", "<NextContinuationToken/>"])
    def test_more_without_a_way_to_it_is_an_error_and_not_the_end(self, token: str) -> None:
        page = body(item("a"), end=f"<IsTruncated>true</IsTruncated>{token}")
        with pytest.raises(TransientError, match="the storage says that there is more, and not how to go on"):
            list(listing_of(Answers(page).client(lean=True)).objects("b", ""))

    def test_a_circle_is_an_error(self) -> None:
        page = body(item("a"), end=self.MORE.format(1))
        with pytest.raises(TransientError, match="the storage says that there is more, and not how to go on"):
            list(listing_of(Answers(page).client(lean=True)).objects("b", ""))

    @pytest.mark.parametrize("answer", [(503, ERROR % b"SlowDown"), (200, ERROR % b"InternalError"), (500, b"")])
    @pytest.mark.usefixtures("_impatient")
    def test_a_page_that_fails_is_asked_for_again(self, answer: tuple[int, bytes]) -> None:
        answers = Answers(body(item("a"), end=self.MORE.format(1)), answer, body(item("b")))
        found = listing_of(answers.client(lean=True)).objects("b", "")
        assert [each.key for each in found] == ["a", "b"]
        assert answers.asked == 3

    def test_a_token_that_expires_on_a_later_page_ends_the_listing(self) -> None:
        answers = Answers(body(item("a"), end=self.MORE.format(1)), (400, self.ERROR % b"ExpiredToken"))
        found = listing_of(answers.client(lean=True)).objects("b", "")
        assert next(found).key == "a"
        with pytest.raises(SourceError, match="the session token has expired") as raised:
            next(found)
        assert isinstance(raised.value.__cause__, ClientError)

    def test_boto3_without_us_is_as_it_was(self) -> None:
        answer = Answers(body(item("a"))).client(lean=False).list_objects_v2(Bucket="b")
        assert "Contents" in answer
        assert LISTED not in answer


@pytest.fixture(scope="module", params=["moto", "versitygw"])
def server(request: pytest.FixtureRequest) -> Any:
    try:
        with s3_server(request.param) as server:
            client = server.endpoint.client()
            client.create_bucket(Bucket="hostile")
            yield server.endpoint
    except RuntimeError as error:
        pytest.skip(str(error))


def with_small_pages(client: Any, size: int = 7) -> Any:
    client.meta.events.register(
        "provide-client-params.s3.ListObjectsV2", lambda params, **_: {**params, "MaxKeys": size}
    )
    return client


def lean_client(server: S3Endpoint) -> Any:
    client = with_small_pages(server.client())
    read_leanly(client)
    return client


def test_hostile_keys_are_listed_as_boto3_lists_them(server: S3Endpoint) -> None:
    client, put = server.client(), set()
    for number, key in enumerate([*HOSTILE, *CONTROL, *(f"t/{number:04}" for number in range(20))]):
        try:
            client.put_object(Bucket="hostile", Key=key, Body=b"x" * (number % 3))
        except Exception:
            assert key in {*HOSTILE, *CONTROL}, key
        else:
            put.add(key)
    found = list(listing_of(lean_client(server)).objects("hostile", "t/"))
    assert found == by_boto3(client, "hostile", "t/") == by_boto3(with_small_pages(server.client()), "hostile", "t/")
    assert len(found) == len({each.key for each in found}) == len(put) > 40
    # VersityGW writes a control character as U+FFFD, which boto3 shows as well.
    assert {each.key for each in found} >= put - set(CONTROL)
    assert all(timedelta(0) <= datetime.now(UTC) - each.last_modified < timedelta(minutes=5) for each in found)


@pytest.mark.parametrize(
    "template", ["m/{YYYY-MM}/*", "m/{YYYY-MM}/", "m/{YYYY}-{M}/*.csv", "m/{YYYY}*-{MM}/*", "**/{YYYY-MM}/*"]
)
def test_months_that_are_cut_are_those_of_one_listing(server: S3Endpoint, template: str) -> None:
    client, october = server.client(), Month(2026, 10)
    months = [october.shifted(-number) for number in range(30)]
    if not by_boto3(client, "hostile", "m/"):
        for key in [f"m/{month}/{name}" for month in months for name in ("a&b.csv", "ü +.csv", "_x", "c.csv")]:
            client.put_object(Bucket="hostile", Key=key, Body=b"x")
        for key in ["m/0000", "m/2026", "m/2026-10", "m/2026-1/x.csv", "m/2026-13/x.csv", "m/x/2026-10/x.csv"]:
            with suppress(ClientError):  # a folder of VersityGW is no object
                client.put_object(Bucket="hostile", Key=key, Body=b"x")
    source = S3Source(
        bucket="hostile", template=KeyTemplate(template), endpoint_url=server.endpoint_url, credentials=Credentials()
    )
    listing, steps = listing_of(lean_client(server)), []

    def listed(*, is_cut: bool, wanted: list[Month] | None = None) -> dict[Month, MonthObjects]:
        def perform(step: Any) -> Any:
            if isinstance(step, Gather):
                return [drive(each, perform) for each in step.workflows]
            steps.append(step)
            return listing.objects(step.bucket, step.prefix, step.narrower if is_cut else None)

        return drive(list_months(source, wanted), perform)

    found = listed(is_cut=True)
    assert found == listed(is_cut=False)
    # {M} means `1`, and so only three months of a year are there for it.
    assert len(found) >= 8
    assert listed(is_cut=True, wanted=months[:20]) == {
        month: found.get(month) or MonthObjects(0, 0, Manifest(()).fingerprint) for month in months[:20]
    }
