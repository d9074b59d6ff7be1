"""Pages of ListObjectsV2, read without a tree of their XML and without a dictionary for each object."""

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
#: Its quotes are left out; of an ETag with other entities nothing is known.
_ETAG = r'<ETag>(?:"|&quot;|&#34;)*([^<&"]*)(?:"|&quot;|&#34;)*</ETag>\s*'
#: What a reader of XML refuses, but for carriage returns, which it makes newlines.
_CONTROL = bytes(number for number in range(0x20) if number not in b"\t\n")
_ENTITY = re.compile(r"&(?:(amp|lt|gt|quot|apos)|#(\d{1,7})|#x([0-9a-fA-F]{1,6}));|&")
_ENTITIES = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}


#: Key, size, ETag without quotes and time of an object as its page has them; a key may still be encoded as in a URL.
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

    if unmask is not None:
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
        page = body.decode()
    except UnicodeDecodeError:
        return None
    start, end = page.find(_OPENING), page.rfind(_CLOSING) + len(_CLOSING)
    order = tuple(_NEEDED_TAGS.findall(page, start, page.find(_CLOSING)))
    if start < 0 or sorted(order) != sorted(_NEEDED) or len(body.translate(None, _CONTROL)) != len(body):
        return None
    of_one, of_all = _patterns(order)
    # From the first object to the last there is nothing else: no element that tells how to go on, and no comment.
    if not of_all.fullmatch(page, start, end) or "\ufffe" in page or "\uffff" in page:
        return None
    found = of_one.findall(page, start, end)
    listed: list[Listed] = list(map(itemgetter(*(order.index(name) for name in _NEEDED)), found))
    if any("&" in key for key, _, _, _ in listed):
        try:
            listed = [(_ENTITY.sub(_character, key), size, etag, at) for key, size, etag, at in listed]
        except ValueError:
            return None
    return (page[:start] + page[end:]).encode(), listed


@lru_cache(maxsize=24)
def _patterns(order: tuple[str, ...]) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """An object, and several, where the texts that are needed come in this order; between them is what is not."""
    needed = {name: rf"<{name}>([^<]*)</{name}>\s*" for name in _NEEDED} | {"ETag": _ETAG}
    of_one = rf"{_OPENING}\s*{_OTHER}{_OTHER.join(needed[name] for name in order)}{_OTHER}{_CLOSING}\s*"
    # Groups would be filled for nothing.
    return re.compile(of_one), re.compile(f"(?:{of_one.replace('([', '(?:[')})*+")


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
