"""Pages of ListObjectsV2, read without a tree of their XML and without a dictionary for each object."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

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
    """Take the objects out of a page.

    Returns:
        The rest of the page, and the objects in its order; None where anything is unusual.
    """
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
