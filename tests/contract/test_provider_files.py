"""Images and documents go to those models that read them; to others they are named."""

import base64
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from minara_core.messages import FileBlock, Message, Role, TextBlock, user_message
from minara_llm.anthropic import AnthropicModel
from minara_llm.model import FileContent
from minara_llm.openai import OpenAIModel
from minara_llm.responses import ResponsesModel
from support.wire.dialects import AnthropicDialect, ChatDialect, Closable
from support.wire.requests import a_request, ask, said
from support.wire.responses_dialect import ResponsesDialect
from support.wire.server import Reply, WireServer, a_wire_server

PNG, PDF, CSV = b"\x89PNG\r\n\x1a\n\x00", b"%PDF-1.7\n", "a,以太\n1,2\n".encode()
TYPES = {
    "png": ("image/png", PNG),
    "jpg": ("image/jpeg", b"\xff\xd8\xff"),
    "gif": ("image/gif", b"GIF89a"),
    "webp": ("image/webp", b"RIFFxxxxWEBP"),
    "heic": ("image/heic", b"heic"),
    "pdf": ("application/pdf", PDF),
    "csv": ("text/csv; charset=utf-8", CSV),
    "zip": ("application/zip", b"PK"),
    "none": ("image/png", b""),
}
FILES = {
    key: FileContent(name=f"a.{key}", media_type=media_type, content=content)
    for key, (media_type, content) in TYPES.items()
}


def b64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def url(key: str) -> str:
    media_type, content = TYPES[key]
    return f"data:{media_type.partition(';')[0]};base64,{b64(content)}"


def line_of(key: str) -> str:
    return f"[file {key}, application/octet-stream]"


def with_file(key: str) -> Message:
    file = FileBlock(file_key=key, media_type="application/octet-stream")
    return Message(role=Role.USER, blocks=(TextBlock("what is it?"), file))


@pytest.fixture
async def wire() -> AsyncGenerator[WireServer]:
    async with a_wire_server() as made:
        yield made


async def content_sent(
    wire: WireServer, model: Closable, reply: bytes, key: str, **changes: Any
) -> Any:
    """The last message's content as it arrived."""
    wire.answer(Reply(parts=(reply,)))
    request = a_request(with_file(key), **{"files": FILES, **changes})
    await ask(model, request)
    await model.aclose()
    body = wire.requests[-1].json
    return (body.get("messages") or body["input"])[-1]["content"]


def messages_image(key: str) -> dict[str, Any]:
    media_type, content = TYPES[key]
    source = {"type": "base64", "media_type": media_type, "data": b64(content)}
    return {"type": "image", "source": source}


MESSAGES: dict[str, Any] = {
    **{key: messages_image(key) for key in ("png", "jpg", "gif", "webp")},
    "pdf": {
        "type": "document",
        "source": {"type": "base64", "media_type": "application/pdf", "data": b64(PDF)},
        "title": "a.pdf",
    },
    "csv": {
        "type": "document",
        "source": {"type": "text", "media_type": "text/plain", "data": CSV.decode()},
        "title": "a.csv",
    },
}


@pytest.mark.parametrize("key", TYPES)
async def test_anthropics_messages_take_images_pdf_and_text(wire: WireServer, key: str) -> None:
    dialect = AnthropicDialect()
    sent = await content_sent(wire, dialect.model(wire), dialect.stream("Hi."), key)
    file, text = ({n: v for n, v in b.items() if n != "cache_control"} for b in sent)
    assert file == MESSAGES.get(key, {"type": "text", "text": line_of(key)})
    assert text == {"type": "text", "text": "what is it?"}


CHAT: dict[str, Any] = {
    **{
        key: {"type": "image_url", "image_url": {"url": url(key)}}
        for key in ("png", "jpg", "gif", "webp")
    },
    "pdf": {"type": "file", "file": {"filename": "a.pdf", "file_data": url("pdf")}},
}


@pytest.mark.parametrize("key", TYPES)
async def test_openais_chat_takes_images_and_pdf(wire: WireServer, key: str) -> None:
    dialect = ChatDialect(is_native=True)
    sent = await content_sent(wire, dialect.model(wire), dialect.stream("Hi."), key)
    if key in CHAT:
        assert sent == [CHAT[key], {"type": "text", "text": "what is it?"}]
    else:
        assert sent == f"{line_of(key)}\n\nwhat is it?"


RESPONSES: dict[str, Any] = {
    **{
        key: {"type": "input_image", "image_url": url(key), "detail": "auto"}
        for key in ("png", "jpg", "gif", "webp")
    },
    **{
        key: {"type": "input_file", "filename": f"a.{key}", "file_data": url(key)}
        for key in ("pdf", "csv")
    },
}


@pytest.mark.parametrize("key", TYPES)
async def test_openais_responses_take_images_pdf_and_text(wire: WireServer, key: str) -> None:
    dialect = ResponsesDialect()
    sent = await content_sent(wire, dialect.model(wire), dialect.stream("Hi."), key)
    file = RESPONSES.get(key, {"type": "input_text", "text": line_of(key)})
    assert sent == [file, {"type": "input_text", "text": "what is it?"}]


def compatible(wire: WireServer, name: str, **changes: Any) -> Closable:
    return OpenAIModel(
        provider="xai", api_key="key", name=name, base_url=f"{wire.url}/v1", **changes
    )


@pytest.mark.parametrize(
    ("name", "changes", "taken"),
    [
        ("qwen3", {}, set[str]()),
        ("qwen3", {"takes_images": True}, {"png", "jpg"}),
        ("grok-4.5", {}, {"png", "jpg"}),
        ("grok-4.5", {"takes_images": False}, set[str]()),
        ("anthropic/claude-sonnet-5.5", {}, {"png", "jpg", "gif", "webp"}),
    ],
)
async def test_a_compatible_server_gets_what_its_model_is_known_to_read(
    wire: WireServer, name: str, changes: dict[str, Any], taken: set[str]
) -> None:
    stream = ChatDialect(is_native=False).stream("Hi.")
    whole = {
        key
        for key in TYPES
        if isinstance(
            await content_sent(wire, compatible(wire, name, **changes), stream, key), list
        )
    }
    assert whole == taken


async def test_an_unknown_model_of_anthropic_or_openai_reads_nothing_unless_told(
    wire: WireServer,
) -> None:
    for takes_images in (None, True):
        claude = AnthropicModel(
            api_key="k", name="claude-new", base_url=wire.url, takes_images=takes_images
        )
        gpt = ResponsesModel(
            provider="openai",
            api_key="k",
            name="gpt-new",
            base_url=wire.url,
            takes_images=takes_images,
        )
        kinds = ["image", "input_image"] if takes_images else ["text", "input_text"]
        for model, stream, kind in zip(
            (claude, gpt),
            (AnthropicDialect().stream("Hi."), ResponsesDialect().stream("Hi.")),
            kinds,
            strict=True,
        ):
            assert (await content_sent(wire, model, stream, "png"))[0]["type"] == kind


async def test_a_file_without_content_is_named(wire: WireServer) -> None:
    dialect = AnthropicDialect()
    sent = await content_sent(wire, dialect.model(wire), dialect.stream("Hi."), "png", files={})
    assert sent[0]["text"] == line_of("png")


@pytest.mark.parametrize(
    "dialect",
    [AnthropicDialect(), ChatDialect(is_native=True), ResponsesDialect()],
    ids=["anthropic", "chat", "responses"],
)
async def test_a_file_stays_the_same_bytes_from_request_to_request(
    wire: WireServer, dialect: AnthropicDialect | ChatDialect | ResponsesDialect
) -> None:
    model = dialect.model(wire)
    messages = [with_file("png"), with_file("pdf")]
    for _ in range(2):
        wire.answer(Reply(parts=(dialect.stream("Hi."),)))
        messages += [said(await ask(model, a_request(*messages, files=FILES)))]
        messages += [user_message("and?")]
    await model.aclose()
    first, second = (dialect.flattened(seen.json) for seen in wire.requests)
    assert second[: len(first)] == first
    assert b64(PNG) in "".join(first)
