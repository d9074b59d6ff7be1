"""Pages that are read here have the same objects as those that boto3 reads, whatever the keys are."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote_plus
from xml.etree import ElementTree
from xml.sax.saxutils import escape

import pytest
from botocore.awsrequest import AWSResponse
from botocore.exceptions import ClientError
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_chs3.exceptions import SourceError, TransientError
from airflow_provider_chs3.sources.s3.listing import LISTED, read_leanly, read_page
from airflow_provider_chs3.testbed.s3 import S3Endpoint
from tests.hooks.listed import by_boto3, listing_of

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
        self.answers = [answer if isinstance(answer, tuple) else (200, answer) for answer in answers]
        self.headers: dict[str, str] = {}
        self.urls: list[str] = []

    @property
    def asked(self) -> int:
        return len(self.urls)

    def client(self, *, lean: bool, **options: Any) -> Any:
        client = S3Endpoint("http://s3.invalid", "a", "b").client(**options)
        if lean:
            read_leanly(client)
        client.meta.events.register("before-send.s3.ListObjectsV2", self._answer)
        return client

    def _answer(self, request: Any, **kwargs: Any) -> AWSResponse:
        status, answer = self.answers[min(self.asked, len(self.answers) - 1)]
        self.urls.append(request.url)
        response = AWSResponse(request.url, status, self.headers, SimpleNamespace())
        response._content = answer
        return response


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
        page = body(*(item(escape(key, {'"': "&quot;"})) for key in keys))
        left, read = read_page(page) or (b"", [])
        assert list(zip(*read, strict=True)) == [(key, "1", "e", "2026-10-01T12:00:00.123Z") for key in keys]
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
            body(item("a"), "text", item("b")),
            body(item("a", etag="a&amp;b")),
            body(item("a", etag='a"b')),
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


def by_a_reader_of_xml(page: bytes) -> list[tuple[str, ...]]:
    """Key, size, ETag and time of each object."""
    space = "{http://s3.amazonaws.com/doc/2006-03-01/}"
    return [
        tuple((each.findtext(f"{space}{name}") or "").strip(strip) for name, strip in NAMES.items())
        for each in ElementTree.fromstring(page).findall(f"{space}Contents")
    ]


#: And what is left out around their texts.
NAMES = {"Key": "\0", "Size": "\0", "ETag": '"', "LastModified": "\0"}
ESCAPES = [
    lambda key: escape(key),
    lambda key: escape(key, {'"': "&quot;"}),
    lambda key: "".join(f"&#{ord(each)};" for each in key),
]
MORE = ["", "<StorageClass>STANDARD</StorageClass>", "<StorageClass>GLACIER</StorageClass>", "<ChecksumType/>"]
ITEMS = st.builds(
    item,
    st.builds(lambda key, form: form(key), KEYS, st.sampled_from(ESCAPES)),
    size=st.integers(0, 5 * 1024**4),
    etag=st.sampled_from(["&quot;e&quot;", "&quot;e-2&quot;", '"e"', "e", "", "&#34;x&#34;"]),
    more=st.sampled_from(MORE),
)


class TestBesideAReaderOfXml:
    @given(st.lists(ITEMS, min_size=1, max_size=6), st.sampled_from(["", "\n  "]))
    @settings(max_examples=200)
    def test_objects_are_the_same_whether_they_are_alike_or_not(self, items: list[str], space: str) -> None:
        page = body(space, *(f"{each}{space}" for each in items))
        left, read = read_page(page) or (b"", [])
        assert list(zip(*read, strict=True)) == by_a_reader_of_xml(page)
        assert by_a_reader_of_xml(left) == []

    @given(
        st.lists(
            st.text("ab<>&;/", max_size=3).map(lambda key: item(escape(key), more=MORE[1])), min_size=2, max_size=5
        ),
        st.data(),
    )
    @settings(max_examples=500)
    def test_a_broken_page_is_read_as_it_is_or_not_at_all(self, items: list[str], data: st.DataObject) -> None:
        page = body(*items)
        tags = [each.span() for each in re.finditer(rb"<[^>]*>|[^<]+", page)]
        one, other = data.draw(st.sampled_from(tags)), data.draw(st.sampled_from(tags))
        page = page[: one[0]] + data.draw(st.sampled_from([b"", page[slice(*other)], b"<", b"x"])) + page[one[1] :]
        if (read := read_page(page)) is None:
            return
        left, listed = read
        try:
            expected = by_a_reader_of_xml(page)
        except ElementTree.ParseError:
            with pytest.raises(ElementTree.ParseError):
                by_a_reader_of_xml(left)
        else:
            assert [*zip(*listed, strict=True), *by_a_reader_of_xml(left)] == expected


class TestUrlEncodedKeys:
    PIECES = st.sampled_from(["a", "/", "+", "%", "%2B", "%0A", "%3D", "%C3%BC", "%E2%82", "%ff", "%4", "\n", "ü"])
    ENCODED = st.lists(PIECES, max_size=6).map("".join)

    # A client takes long to make.
    @settings(deadline=None)
    @given(st.lists(ENCODED, min_size=1, max_size=5))
    def test_keys_are_decoded_as_each_alone(self, keys: list[str]) -> None:
        page = body(*map(item, keys), end=f"<EncodingType>url</EncodingType>{ENDED}")
        found = listing_of(Answers(page).client(lean=True)).objects("b", "")
        assert [each.key for each in found] == [unquote_plus(key) for key in keys]


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
        with pytest.raises(TransientError, match="the storage says that there is more, but not how to continue"):
            list(listing_of(Answers(page).client(lean=True)).objects("b", ""))

    def test_a_circle_is_an_error(self) -> None:
        page = body(item("a"), end=self.MORE.format(1))
        with pytest.raises(TransientError, match="the storage says that there is more, but not how to continue"):
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

    def test_a_bucket_of_another_region_is_followed_to_it(self) -> None:
        redirect = self.ERROR % b"PermanentRedirect"
        answers = Answers((301, redirect), body(item("a"), end=self.MORE.format(1)), body(item("b")))
        answers.headers = {"x-amz-bucket-region": "eu-west-1"}
        found = listing_of(answers.client(lean=True, endpoint_url=None)).objects("lake", "")
        assert [each.key for each in found] == ["a", "b"]
        assert ["eu-west-1" in url for url in answers.urls] == [False, True, True]

    def test_boto3_without_us_is_as_it_was(self) -> None:
        answer = Answers(body(item("a"))).client(lean=False).list_objects_v2(Bucket="b")
        assert "Contents" in answer
        assert LISTED not in answer
