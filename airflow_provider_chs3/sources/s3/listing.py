"""S3 as the worker sees it: listing through an AWS connection, and the keys that it holds."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import datetime
from functools import cached_property, lru_cache, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote_plus

from airflow.providers.amazon.aws.hooks.s3 import S3Hook

from airflow_provider_chs3.client.listing import WritableListing
from airflow_provider_chs3.core.model.models import ObjectPage, Unit
from airflow_provider_chs3.exceptions import ConfigurationError, SourceError, TransientError
from airflow_provider_chs3.sources.s3.reading import Credentials
from airflow_provider_chs3.sources.side_by_side import AT_ONCE, Page, pages_of

if TYPE_CHECKING:
    from airflow.providers.amazon.aws.hooks.s3 import S3Hook

#: Under which an answer of boto3 has what was read here, in place of `Contents`.
LISTED = "Chs3Listed"

#: Storage classes of objects that must be restored before they are read. In GLACIER_IR they can be read.
ARCHIVES = ("GLACIER", "DEEP_ARCHIVE")
_ARCHIVED = re.compile(rf"<StorageClass>(?:{'|'.join(ARCHIVES)})<".encode())

#: In the order of the fields of `Listed`.
_NEEDED = ("Key", "Size", "ETag", "LastModified")
_NEEDED_TAGS = re.compile(rf"<({'|'.join(_NEEDED)})>".encode())
_OPENING, _CLOSING = b"<Contents>", b"</Contents>"
#: Elements that are skipped, such as `StorageClass`, and `Owner`, which is one level deeper.
_OTHER = (
    rf"(?:<(?!(?:{'|'.join(_NEEDED)})>)(?P<other%>[A-Z]\w*)(?:/>|>"
    r"[^<&]*(?:<(?P<deeper%>[A-Z]\w*)>[^<&]*</(?P=deeper%)>\s*)*</(?P=other%)>)\s*)*+"
)
#: A key may have entities. Quotes of an ETag are left out; of one with other entities nothing is known.
_TEXTS = {"Key": ("", "[^<]*", ""), "Size": ("", "[^<&]*", ""), "LastModified": ("", "[^<&]*", "")} | {
    "ETag": ('(?:"|&quot;|&#34;)*', '[^<&"]*', '(?:"|&quot;|&#34;)*')
}
#: Characters that a reader of XML refuses, and carriage returns, which it makes newlines.
_CONTROL = bytes(number for number in range(0x20) if number not in b"\t\n")
_ENTITY = re.compile(r"&(?:(amp|lt|gt|quot|apos)|#([0-9]{1,7})|#x([0-9a-fA-F]{1,6}));|&")
_ENTITIES = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}

#: Marks in place of the longer texts between the values of objects that are alike.
_MARKS = b"\1\2\3\4"
_NO_MARKS = bytes(number for number in range(0x100) if number not in _MARKS)
_ONE_MARK = bytes.maketrans(_MARKS, _MARKS[:1] * len(_MARKS))


class Listed(NamedTuple):
    """The objects of a page, as columns of texts."""

    keys: list[str]
    sizes: list[str]
    etags: list[str]
    times: list[str]


def read_leanly(client: Any) -> None:
    """Have a client's pages read here; whatever they are not made of as expected is left to botocore.

    Signing, endpoints, redirects, retries, proxies and errors stay botocore's: this only looks at a body before its
    parser does, at its event `before-parse`. botocore first reads each body to see whether it is an error in disguise.
    """

    def before_parse(response_dict: dict[str, Any], customized_response_dict: dict[str, Any], **_: Any) -> None:
        if response_dict["status_code"] != 200:
            return
        body = response_dict["body"]
        # botocore reads whether these are restored.
        read = None if _ARCHIVED.search(body) else read_page(body)
        if read is not None:
            response_dict["body"], customized_response_dict[LISTED] = read

    client.meta.events.register("before-parse.s3.ListObjectsV2", before_parse)


def read_page(body: bytes) -> tuple[bytes, Listed] | None:
    """Return a page without its objects, and these in their order; None where anything is unusual."""
    start, end = body.find(_OPENING), body.rfind(_CLOSING) + len(_CLOSING)
    order = tuple(tag.decode() for tag in _NEEDED_TAGS.findall(body, start, body.find(_CLOSING)))
    if start < 0 or sorted(order) != sorted(_NEEDED) or not _has_characters(body):
        return None
    of_one, of_all = _patterns(order)
    first = of_one.match(body, start)
    if first is None:
        return None
    columns = _read_alike(body, first, order, end)
    if columns is None:
        # From the first object to the last there is nothing else: no element that says how to continue, and no comment.
        if not of_all.fullmatch(body, start, end):
            return None
        columns = _read_unlike(body, of_one, start, end)
    listed = Listed(*(columns[name] for name in _NEEDED))
    if any("&" in key for key in listed.keys):
        try:
            listed.keys[:] = [_ENTITY.sub(_character, key) for key in listed.keys]
        except ValueError:
            return None
    return body[:start] + body[end:], listed


def _has_characters(body: bytes) -> bool:
    """Check that a page has only what XML has: UTF-8 without control characters."""
    if len(body.translate(None, _CONTROL)) != len(body):
        return False
    try:
        return body.isascii() or not any(letter in body.decode() for letter in "\ufffe\uffff")
    except UnicodeDecodeError:
        return False


def _read_alike(body: bytes, first: re.Match[bytes], order: tuple[str, ...], end: int) -> dict[str, list[str]] | None:
    """Return the columns of objects that differ from the first in values alone, in a third of a pattern's time.

    The text between two values becomes a mark, a control character that the page does not have. No other tag may be
    left then, and the marks must be in order: so the objects are nothing but that, from the first to the last.
    """
    spans = [first.span(name) for name in order]
    head, tail = body[first.start() : spans[0][0]], body[spans[-1][1] : first.end()]
    between = [body[after:before] for (_, after), (before, _) in pairwise(spans)]
    # As if another one followed the last.
    text = body[spans[0][0] : end] + tail[len(tail.rstrip()) :] + head
    for number, text_between in enumerate((*between, tail + head)):
        text = text.replace(text_between, _MARKS[number : number + 1])
    if any(mark in text for mark in (b"<", b"&", b'"')):
        return None
    marks = text.translate(None, _NO_MARKS)
    values = text.translate(_ONE_MARK).decode().split(chr(_MARKS[0]))
    if values.pop() or marks != _MARKS * (len(marks) // len(_MARKS)):
        return None
    return {name: values[number :: len(_MARKS)] for number, name in enumerate(order)}


def _read_unlike(body: bytes, of_one: re.Pattern[bytes], start: int, end: int) -> dict[str, list[str]]:
    """Return the columns of objects."""
    columns = list(zip(*of_one.findall(body, start, end), strict=True))
    return {name: [text.decode() for text in columns[of_one.groupindex[name] - 1]] for name in _NEEDED}


@lru_cache(maxsize=24)
def _patterns(order: tuple[str, ...]) -> tuple[re.Pattern[bytes], re.Pattern[bytes]]:
    """Match an object, and several, where the texts that are needed come in this order; between them is what is not."""
    # Groups would be filled for nothing in a match of several.
    return re.compile(_object(order, "(?P<{}>{})")), re.compile(b"(?:%b)*+" % _object(order, "(?:{1})"))


def _object(order: tuple[str, ...], group: str) -> bytes:
    needed = [
        rf"<{name}>{before}{group.format(name, text)}{after}</{name}>\s*"
        for name in order
        for before, text, after in (_TEXTS[name],)
    ]
    others = [_OTHER.replace("%", str(number)) for number in range(len(needed) + 1)]
    parts = [part for pair in zip(others, [*needed, ""], strict=True) for part in pair]
    return rf"{_OPENING.decode()}\s*{''.join(parts)}{_CLOSING.decode()}\s*".encode()


def _character(entity: re.Match[str]) -> str:
    name, decimal, hexadecimal = entity.groups()
    if name:
        return _ENTITIES[name]
    number = int(decimal) if decimal else int(hexadecimal, 16) if hexadecimal else 0
    # XML refuses these characters, such as zero, and entities of another name.
    is_character = number in (0x9, 0xA, 0xD) or 0x20 <= number < 0xD800 or 0xE000 <= number <= 0xFFFD or number > 0xFFFF
    if number > 0x10FFFF or not is_character:
        raise ValueError(entity[0])
    return chr(number)


#: Errors that will not pass by themselves.
_TERMINAL = {
    "NoSuchBucket": "there is no such bucket",
    "AccessDenied": "access is denied: the keys need s3:ListBucket and s3:GetObject",
    "403": "access is denied: the keys need s3:ListBucket and s3:GetObject",
    "InvalidAccessKeyId": "the access key is not known there",
    "SignatureDoesNotMatch": "the secret key is wrong",
    "ExpiredToken": "the session token has expired: set a new one in the AWS connection",
    "InvalidToken": "the session token is not known there: set the one of its keys in the AWS connection",
    "InvalidObjectState": "it is archived: restore the period's objects (`aws s3api restore-object`), which takes "
    "hours, and run the task again",
    "PermanentRedirect": "the bucket is in another region: set region_name in the AWS connection",
}

#: Pieces in which an object is read; larger ones are not faster.
_PIECE_BYTES = 1024**2
#: Ends the name of a directory bucket, of S3 Express: its prefixes must end with a slash.
_DIRECTORY_BUCKET = "--x-s3"


class S3Listing(WritableListing):
    """Lists buckets, and returns the credentials that ClickHouse reads them with.

    Args:
        aws_conn_id: The AWS connection; None reads without signing, for public buckets.
        is_patient: Whether a storage that does not answer is tried as long as the AWS connection says, which is minutes
            by default; else it has seconds. Default: True.
    """

    def __init__(self, aws_conn_id: str | None, *, is_patient: bool = True) -> None:
        self.aws_conn_id = aws_conn_id
        self.is_patient = is_patient
        self._lock = threading.Lock()

    @cached_property
    def _hook(self) -> S3Hook:
        from airflow_provider_chs3.sources.s3.client import QuickS3Hook

        # At DEBUG it logs the session token of every request, and the keys that STS answers with.
        logging.getLogger("botocore").setLevel(logging.INFO)
        from botocore import UNSIGNED
        from botocore.config import Config

        hasty = Config(connect_timeout=5, read_timeout=5, retries={"total_max_attempts": 2})
        if self.aws_conn_id is None:
            config = Config(signature_version=UNSIGNED)
            return QuickS3Hook(aws_conn_id=None, config=config if self.is_patient else config.merge(hasty))
        hook = QuickS3Hook(aws_conn_id=self.aws_conn_id)
        return hook if self.is_patient else QuickS3Hook(aws_conn_id=self.aws_conn_id, config=hook.config.merge(hasty))

    @cached_property
    def _client(self) -> Any:
        from botocore.config import Config

        config = self._hook.config
        options = Config(
            # Requests that find no connection free each make one, and urllib3 warns of it.
            max_pool_connections=max(AT_ONCE, config.max_pool_connections),
            # Not all that speak S3's protocol know the checksums that boto3 sends by default.
            request_checksum_calculation="when_required",
        )
        client = self._hook.get_client_type(self._hook.region_name, config.merge(options))
        read_leanly(client)
        return client

    def pages(
        self, bucket: str, prefix: str, narrower: Callable[[str], Sequence[str]] | None = None
    ) -> Iterator[ObjectPage]:
        """Yield the pages of the objects whose keys begin with a prefix, as they are asked for; see `Listing.pages`."""
        if bucket.endswith(_DIRECTORY_BUCKET):
            narrower = None
        with self._errors_of(f"list s3://{bucket}/{prefix}"):
            # Side by side, listings would each make a client of their own.
            with self._lock:
                client = self._client
            yield from pages_of(partial(_page, client, bucket), prefix, narrower)

    def read(self, bucket: str, key: str, start: int, length: int) -> Iterator[bytes]:
        """Yield a part of an object in pieces; see `WritableListing.read`."""
        wanted = f"bytes={start}-{start + length - 1}"
        with (
            self._errors_of(f"read s3://{bucket}/{key}"),
            closing(self._client.get_object(Bucket=bucket, Key=key, Range=wanted)["Body"]) as body,
        ):
            yield from body.iter_chunks(_PIECE_BYTES)

    @contextmanager
    def _errors_of(self, what: str) -> Iterator[None]:
        """Raise an error that says what could not be done, and why."""
        from botocore.exceptions import BotoCoreError, ClientError
        from botocore.parsers import ResponseParserError

        failed = f"Cannot {what} (connection {self.aws_conn_id!r})"
        try:
            yield
        except ClientError as error:
            code = error.response.get("Error", {}).get("Code", "")
            if code in _TERMINAL:
                raise SourceError(f"{failed}: {_TERMINAL[code]}.") from error
            raise TransientError(f"{failed}: {code}.") from error
        except (BotoCoreError, ResponseParserError) as error:
            # A page may follow.
            reason, _, _ = str(error).partition("\n")
            raise TransientError(f"{failed}: {reason}") from error

    def put(self, bucket: str, key: str, body: bytes) -> None:
        """Write an object; see `WritableListing.put`."""
        self._change("put_object", bucket, key, Body=body)

    def delete(self, bucket: str, prefix: str) -> None:
        """Delete the objects whose keys begin with a prefix; see `WritableListing.delete`."""
        for unit in list(self.objects(bucket, prefix)):
            self._change("delete_object", bucket, unit.key)

    def _change(self, operation: str, bucket: str, key: str, **sent: bytes) -> None:
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            getattr(self._client, operation)(Bucket=bucket, Key=key, **sent)
        except (BotoCoreError, ClientError) as error:
            raise SourceError(
                f"Cannot write or delete s3://{bucket}/{key} (connection {self.aws_conn_id!r}): {error}"
            ) from error

    def access(self) -> tuple[Credentials, str]:
        """Return the keys that the connection holds, or has been given for a while, and the storage's endpoint."""
        hook = self._hook
        endpoint_url = self._client.meta.endpoint_url
        if self.aws_conn_id is None:
            return Credentials(), endpoint_url
        credentials = hook.get_session(region_name=hook.region_name).get_credentials()
        if credentials is None:
            from airflow.exceptions import AirflowNotFoundException  # type: ignore[attr-defined]

            try:
                hook.get_connection(self.aws_conn_id)
                lacks, way_out = "has no keys", "set its login and password or a role"
            except AirflowNotFoundException:
                lacks, way_out = "does not exist", "create it in Airflow, or name another one"
            raise ConfigurationError(
                f"AWS connection {self.aws_conn_id!r} {lacks}, and nothing else on this machine has keys: {way_out}; "
                "for a public bucket, leave aws_conn_id (--aws-conn-id) empty."
            )
        keys = credentials.get_frozen_credentials()
        return Credentials(keys.access_key, keys.secret_key, keys.token), endpoint_url


def _page(client: Any, bucket: str, prefix: str, token: str | None) -> Page:
    """Ask for a page, and read what is on it."""
    page = client.list_objects_v2(
        Bucket=bucket, Prefix=prefix, **{"ContinuationToken": token} if token is not None else {}
    )
    following = page.get("NextContinuationToken") if page.get("IsTruncated") else None
    if page.get("IsTruncated") and following in (None, "", token):
        raise TransientError(
            f"Cannot list s3://{bucket}/{prefix}: the storage says that there is more, but not how to continue."
        )
    if LISTED not in page:
        return Page(ObjectPage.of([_s3_object(bucket, entry) for entry in page.get("Contents", ())]), following)
    listed = page[LISTED]
    keys = _decoded(listed.keys) if page.get("EncodingType") == "url" else listed.keys
    paths, times = [f"{bucket}/{key}" for key in keys], listed.times
    return Page(ObjectPage(paths, list(map(int, listed.sizes)), listed.etags, partial(_times, times)), following)


def _decoded(keys: list[str]) -> list[str]:
    """Decode keys that are written as in a URL: all at once if no line ends in one, as each call takes its time."""
    lines = "\n".join(keys)
    if "%" not in lines and "+" not in lines:
        return keys
    decoded = unquote_plus(lines).split("\n")
    return (
        decoded if len(decoded) == len(keys) and lines.count("\n") == len(keys) - 1 else list(map(unquote_plus, keys))
    )


def _times(texts: Sequence[str]) -> list[datetime]:
    from airflow_provider_chs3.sources.s3.client import parse_time

    try:
        return list(map(datetime.fromisoformat, texts))
    except ValueError:
        return list(map(parse_time, texts))


def _s3_object(bucket: str, listed: dict[str, Any]) -> Unit:
    return Unit(
        path=f"{bucket}/{listed['Key']}",
        size_bytes=listed["Size"],
        version=listed["ETag"].strip('"'),
        last_modified=listed["LastModified"],
        is_archived=listed.get("StorageClass") in ARCHIVES,
    )
