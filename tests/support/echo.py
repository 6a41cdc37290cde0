"""A small service for testing channels, whose contract is made here and whose methods a test gives.

All methods take a READ request grant; `Count` streams answers, `Collect` streams requests.
"""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import grpc
import grpc.aio
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from minara.type.v1 import permission_pb2 as permission_pb

SERVICE = "minara_echo.v1.EchoService"
METHODS = ("Say", "Count", "Collect", "Unruled")

_STRING = descriptor_pb2.FieldDescriptorProto.TYPE_STRING
_INT32 = descriptor_pb2.FieldDescriptorProto.TYPE_INT32
_OPTIONAL = descriptor_pb2.FieldDescriptorProto.LABEL_OPTIONAL


@cache
def message_class() -> Any:
    """The one message of the contract: `text`, `number`. Registers the contract once."""
    file = descriptor_pb2.FileDescriptorProto(
        name="minara_echo/v1/echo.proto",
        package="minara_echo.v1",
        syntax="proto3",
        dependency=["minara/type/v1/permission.proto"],
    )
    message = file.message_type.add(name="Echo")
    message.field.add(name="text", number=1, type=_STRING, label=_OPTIONAL)
    message.field.add(name="number", number=2, type=_INT32, label=_OPTIONAL)
    service = file.service.add(name="EchoService")
    for name in METHODS:
        method = service.method.add(
            name=name,
            input_type=".minara_echo.v1.Echo",
            output_type=".minara_echo.v1.Echo",
            client_streaming=name == "Collect",
            server_streaming=name == "Count",
        )
        if name != "Unruled":
            rule = method.options.Extensions[permission_pb.grant_rule]
            rule.types.append(permission_pb.GRANT_TYPE_REQUEST)
            rule.scope = permission_pb.SCOPE_READ
    pool = descriptor_pool.Default()
    pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("minara_echo.v1.Echo"))


def echo(text: str = "", number: int = 0) -> Any:
    return message_class()(text=text, number=number)


async def say(request: Any, context: Any) -> Any:
    return echo(request.text)


async def count(request: Any, context: Any) -> AsyncIterator[Any]:
    for number in range(request.number):
        yield echo(request.text, number)


async def collect(requests: AsyncIterator[Any], context: Any) -> Any:
    texts = [request.text async for request in requests]
    return echo(",".join(texts), len(texts))


@dataclass(frozen=True, slots=True, kw_only=True)
class EchoServicer:
    """Answers with the given functions, by default with an echo."""

    say: Callable[..., Any] = say
    count: Callable[..., Any] = count
    collect: Callable[..., Any] = collect

    def register(self, server: grpc.aio.Server) -> None:
        message = message_class()
        codec = (message.FromString, message.SerializeToString)
        handlers: dict[str, Any] = {
            "Say": grpc.unary_unary_rpc_method_handler(self.say, *codec),
            "Unruled": grpc.unary_unary_rpc_method_handler(self.say, *codec),
            "Count": grpc.unary_stream_rpc_method_handler(self.count, *codec),
            "Collect": grpc.stream_unary_rpc_method_handler(self.collect, *codec),
        }
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))


class EchoStub:
    """The caller's side, as generated code would be."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        message: Any = message_class()
        codec = (message.SerializeToString, message.FromString)
        self.say: Any = channel.unary_unary(f"/{SERVICE}/Say", *codec)
        self.unruled: Any = channel.unary_unary(f"/{SERVICE}/Unruled", *codec)
        self.missing: Any = channel.unary_unary(f"/{SERVICE}/Missing", *codec)
        self.raw: Any = channel.unary_unary(f"/{SERVICE}/Say")
        self.count: Any = channel.unary_stream(f"/{SERVICE}/Count", *codec)
        self.collect: Any = channel.stream_unary(f"/{SERVICE}/Collect", *codec)
