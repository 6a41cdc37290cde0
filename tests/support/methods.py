"""Every RPC of the contracts, found in the generated code, so that no new one is forgotten."""

import importlib
import pkgutil
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from google.protobuf import message_factory
from google.protobuf.descriptor import FileDescriptor
from google.protobuf.message import Message

import minara
from minara.type.v1 import turn_context_pb2 as context_pb
from minara_runtime.grant_interceptor import MethodRule, rule_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """`path` is `/minara.tools.v1.ToolService/ListTools`; `rule` None when it declares none."""

    path: str
    request_class: type[Message]
    response_class: type[Message]
    client_streaming: bool
    server_streaming: bool
    rule: MethodRule | None

    @property
    def has_context(self) -> bool:
        field = self.request_class.DESCRIPTOR.fields_by_name.get("context")
        return field is not None and field.message_type is context_pb.TurnContext.DESCRIPTOR

    def request(self, context: context_pb.TurnContext | None = None) -> Message:
        """An empty request, with the context when it takes one."""
        if context is None or not self.has_context:
            return self.request_class()
        return self.request_class(context=context)


def every_method() -> list[Method]:
    """All methods of all services of package `minara`, sorted by path."""
    methods = [method for module in _modules("_pb2") for method in _methods(module.DESCRIPTOR)]
    return sorted(methods, key=lambda method: method.path)


def add_unimplemented_servicers(server: Any) -> None:
    """Register the generated base servicers, which implement nothing."""
    for module in _modules("_pb2_grpc"):
        for name in dir(module):
            if name.startswith("add_"):
                service = name.removeprefix("add_").removesuffix("_to_server")
                getattr(module, name)(getattr(module, service)(), server)


def _modules(ending: str) -> Iterator[ModuleType]:
    for found in pkgutil.walk_packages(minara.__path__, "minara."):
        if found.name.endswith(ending):
            yield importlib.import_module(found.name)


def _methods(file: FileDescriptor) -> Iterator[Method]:
    for service in file.services_by_name.values():
        for method in service.methods:
            path = f"/{service.full_name}/{method.name}"
            yield Method(
                path=path,
                request_class=message_factory.GetMessageClass(method.input_type),
                response_class=message_factory.GetMessageClass(method.output_type),
                client_streaming=method.client_streaming,
                server_streaming=method.server_streaming,
                rule=rule_of(path),
            )
