"""Files as they come in requests: whole, and of the type they claim to be."""

import base64
from types import MappingProxyType

from minara_llm.wire.bodies import Body, as_body, as_text, invalid, require

_IMAGES = MappingProxyType(
    {
        b"\x89PNG\r\n\x1a\n": "image/png",
        b"\xff\xd8\xff": "image/jpeg",
        b"GIF8": "image/gif",
        b"RIFF": "image/webp",
    }
)
_DOCUMENTS = frozenset({"application/pdf", "text/plain"})


def check_file(block: Body, place: str) -> None:
    """Raises Refused for an image or document block of the Messages API that it cannot take."""
    source = as_body(block.get("source"), f"{place}.source")
    kind, media_type = source.get("type"), str(source.get("media_type", ""))
    if kind == "text" and block["type"] == "document":
        text = as_text(source.get("data"), f"{place}.source.data")
        require(bool(text), f"{place}.source.data: document text must not be empty")
        return
    require(kind == "base64", f"{place}.source.type: '{kind}' is not expected")
    content = decoded(source.get("data"), f"{place}.source.base64.data")
    if block["type"] == "image":
        check_image(content, media_type, f"{place}.source.base64")
    else:
        require(media_type == "application/pdf", f"{place}.source.base64.media_type: not a PDF")
        require(content.startswith(b"%PDF-"), f"{place}: The PDF specified was not valid.")


def check_image(content: bytes, media_type: str, place: str) -> None:
    """Raises Refused unless the bytes are an image of this type."""
    require(media_type in _IMAGES.values(), f"{place}.media_type: '{media_type}' is not supported")
    found = next((name for head, name in _IMAGES.items() if content.startswith(head)), None)
    if found is None:
        raise invalid(f"{place}: Could not process image")
    require(
        found == media_type,
        f"{place}: The image was specified using the {media_type} media type, but the image appears"
        f" to be a {found} image",
    )


def check_data_url(url: str, place: str) -> None:
    """Raises Refused unless it is a `data:` URL whose bytes are of the type it names."""
    head, comma, data = url.partition(",")
    media_type = head.removeprefix("data:").removesuffix(";base64")
    is_whole = head.startswith("data:") and head.endswith(";base64") and bool(comma)
    require(is_whole, f"Invalid '{place}'. Expected a base64-encoded data URL.", param=place)
    content = decoded(data, place)
    if media_type in _DOCUMENTS:
        return
    check_image(content, media_type, place)


def decoded(data: object, place: str) -> bytes:
    """The bytes; raises Refused for what is no base64, or nothing."""
    text = as_text(data, place)
    try:
        content = base64.b64decode(text, validate=True)
    except ValueError:
        raise invalid(f"{place}: invalid base64 data") from None
    require(bool(content), f"{place}: the file is empty")
    return content
