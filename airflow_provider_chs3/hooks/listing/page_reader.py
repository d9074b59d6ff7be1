"""Pages of ListObjectsV2, read in a sixth of the time that botocore takes to make dictionaries of them."""

from __future__ import annotations

import re
from functools import lru_cache
from operator import itemgetter
from typing import Any, TypeAlias

#: Under which an answer of boto3 has what was read here, in place of `Contents`.
LISTED = "Chs3Listed"

_NEEDED = ("Key", "Size", "ETag", "LastModified")
_NEEDED_TAGS = re.compile(rf"<({'|'.join(_NEEDED)})>")
_OPENING, _CLOSING = "<Contents>", "</Contents>"
_TEXT = r"<[A-Z]\w*>[^<]*</\w+>\s*"
#: What is not looked at, such as `StorageClass`, and `Owner`, which is one level deeper.
_OTHER = rf"(?:<(?!(?:{'|'.join(_NEEDED)})>)[A-Z]\w*(?:/>|>[^<]*(?:{_TEXT})*</\w+>)\s*)*+"
#: Comments, sections and declarations, and characters that a reader of XML refuses.
_UNUSUAL = ("<!", "<?", "\ufffe", "\uffff")
#: It refuses these too, but for carriage returns, which it makes newlines.
_CONTROL = bytes(number for number in range(0x20) if number not in b"\t\n")
#: What tells how to go on: it stands before or behind all objects, else the page is left to botocore.
_NOT_AMONG_OBJECTS = ("<EncodingType>", "<IsTruncated>", "<NextContinuationToken>", "<CommonPrefixes>")
_ENTITY = re.compile(r"&(?:(amp|lt|gt|quot|apos)|#(\d{1,7})|#x([0-9a-fA-F]{1,6}));|&")
_ENTITIES = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}


#: Key, size, ETag in quotes and time of an object as its page has them; a key may still be encoded as in a URL.
Listed: TypeAlias = tuple[str, str, str, str]


def read_leanly(client: Any) -> None:
    """Have a client's pages read here; whatever they are not made of as expected is left to botocore.

    Signing, endpoints, redirects, retries, proxies and errors stay botocore's: this only looks at a body before it
    does, at its event `before-parse`. botocore reads a whole body there, too, to see whether it is an error in
    disguise; that comes second here, when the objects are out of it.

    Args:
        client: Of boto3, for S3.
    """
    from botocore import handlers

    unmask = getattr(handlers, "_handle_200_error", None)

    def before_parse(response_dict: dict[str, Any], customized_response_dict: dict[str, Any], **event: Any) -> None:
        if event["operation_model"].name == "ListObjectsV2" and response_dict["status_code"] == 200:
            read = read_page(response_dict["body"])
            if read is not None:
                response_dict["body"], customized_response_dict[LISTED] = read
        if unmask is not None:
            unmask(response_dict=response_dict, customized_response_dict=customized_response_dict, **event)

    client.meta.events.unregister("before-parse.s3.*", unmask)
    client.meta.events.register_first("before-parse.s3.*", before_parse)


def read_page(body: bytes) -> tuple[bytes, list[Listed]] | None:
    """Take the objects out of a page.

    Args:
        body: The page, as XML.

    Returns:
        What is left of the page, and the objects in its order; None where anything is unusual.
    """
    try:
        # Most entities are the quotes of ETags, and a quote means nothing between tags.
        page = body.decode().replace("&quot;", '"').replace("&#34;", '"')
    except UnicodeDecodeError:
        return None
    start, end = page.find(_OPENING), page.rfind(_CLOSING) + len(_CLOSING)
    objects = page[start:end]
    order = tuple(_NEEDED_TAGS.findall(objects, 0, objects.find(_CLOSING)))
    is_usual = start >= 0 and sorted(order) == sorted(_NEEDED) and len(body.translate(None, _CONTROL)) == len(body)
    if not is_usual or any(text in objects for text in (*_UNUSUAL, *_NOT_AMONG_OBJECTS)):
        return None
    found = _pattern(order).findall(objects)
    # As many as begin and as end: none was passed over, as a text holds no tag.
    if not len(found) == objects.count(_OPENING) == objects.count(_CLOSING):
        return None
    listed: list[Listed] = list(map(itemgetter(*(order.index(name) for name in _NEEDED)), found))
    if "&" in objects:
        try:
            listed = [(_plain(key), size, _plain(etag), written) for key, size, etag, written in listed]
        except ValueError:
            return None
    return (page[:start] + page[end:]).encode(), listed


@lru_cache(maxsize=24)
def _pattern(order: tuple[str, ...]) -> re.Pattern[str]:
    """What an object is made of, where the texts that are needed come in this order; between them is anything."""
    texts = _OTHER.join(rf"<{name}>([^<]*)</{name}>\s*" for name in order)
    return re.compile(rf"{_OPENING}\s*{_OTHER}{texts}{_OTHER}{_CLOSING}")


def _plain(text: str) -> str:
    return _ENTITY.sub(_character, text) if "&" in text else text


def _character(entity: re.Match[str]) -> str:
    name, decimal, hexadecimal = entity.groups()
    if name:
        return _ENTITIES[name]
    number = int(decimal) if decimal else int(hexadecimal, 16) if hexadecimal else 0
    # What XML refuses, zero among it, and entities of another name.
    is_character = number in (0x9, 0xA, 0xD) or 0x20 <= number < 0xD800 or 0xE000 <= number <= 0xFFFD or number > 0xFFFF
    if number > 0x10FFFF or not is_character:
        raise ValueError(entity[0])
    return chr(number)
