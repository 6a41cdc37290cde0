"""What a servicer is given with a call that stays inside the process."""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Any, Generic, Never, TypeVar

import grpc
import grpc.aio
from typing_extensions import override

from minara_runtime.inprocess_exchange import Ending, Exchange, MetadataPairs, SlotClosed

Req = TypeVar("Req")
Res = TypeVar("Res")
MetadataLike = grpc.aio.Metadata | Iterable[tuple[str, str | bytes]]

_SUCCESS = (None, grpc.StatusCode.OK)


class InProcessContext(grpc.aio.ServicerContext[Req, Res], Generic[Req, Res]):
    """`grpc.aio.ServicerContext` over an Exchange."""

    def __init__(
        self,
        exchange: Exchange,
        *,
        deserialize: Callable[[bytes], Req] | None,
        serialize: Callable[[Res], bytes] | None,
    ) -> None:
        self._exchange = exchange
        self._deserialize = deserialize
        self._serialize = serialize
        self._code: grpc.StatusCode | None = None
        self._details = ""
        self._trailing: MetadataPairs = ()

    @override
    async def abort(
        self,
        code: grpc.StatusCode,
        details: str = "",
        trailing_metadata: Any = (),
    ) -> Never:
        if code is grpc.StatusCode.OK:
            details, code = "abort with OK", grpc.StatusCode.UNKNOWN
        pairs: MetadataPairs = tuple(trailing_metadata) or self._trailing
        self._exchange.end(Ending(code=code, details=details, trailing_metadata=pairs))
        raise grpc.aio.AbortError("Locally aborted.")

    @override
    async def abort_with_status(self, status: Any) -> Never:
        await self.abort(status.code, status.details, status.trailing_metadata)

    @override
    async def read(self) -> Any:
        message = await self._exchange.requests.take()
        if message is None:
            return grpc.aio.EOF
        return message if self._deserialize is None else self._deserialize(message)

    @override
    async def write(self, message: Res) -> None:
        data = encode(message, self._serialize)
        self._exchange.send_initial_metadata(())
        if self._exchange.refuse_oversized(data, "Sent"):
            raise grpc.aio.AbortError("The message is over the limit.")
        try:
            await self._exchange.responses.put(data)
        except SlotClosed:
            raise grpc.aio.UsageError("RPC already finished.") from None

    @override
    async def send_initial_metadata(self, initial_metadata: Any) -> None:
        self._exchange.send_initial_metadata(tuple(initial_metadata))

    @override
    def set_trailing_metadata(self, trailing_metadata: Any) -> None:
        self._trailing = tuple(trailing_metadata)

    @override
    def invocation_metadata(self) -> Any:
        return self._exchange.metadata

    @override
    def set_code(self, code: grpc.StatusCode) -> None:
        self._code = code

    @override
    def set_details(self, details: str) -> None:
        self._details = details

    @override
    def set_compression(self, compression: grpc.Compression) -> None:
        return

    @override
    def disable_next_message_compression(self) -> None:
        return

    @override
    def peer(self) -> str:
        return "inprocess"

    @override
    def peer_identities(self) -> Iterable[bytes] | None:
        return None

    @override
    def peer_identity_key(self) -> str | None:
        return None

    @override
    def auth_context(self) -> Mapping[str, Iterable[bytes]]:
        return {}

    @override
    def time_remaining(self) -> Any:
        return self._exchange.time_remaining()

    @override
    def trailing_metadata(self) -> Any:
        return self._trailing

    @override
    def code(self) -> Any:
        return self._code

    @override
    def details(self) -> str:
        return self._details

    @override
    def add_done_callback(self, callback: Any) -> None:
        self._exchange.on_end(lambda: callback(self))

    @override
    def cancelled(self) -> bool:
        ending = self._exchange.ending
        return ending is not None and ending.code is grpc.StatusCode.CANCELLED

    @override
    def done(self) -> bool:
        return self._exchange.ending is not None

    async def requests(self) -> AsyncIterator[Req]:
        """The messages of a streaming caller, in order."""
        while (message := await self.read()) is not grpc.aio.EOF:
            yield message

    def finish(self) -> None:
        """The servicer returned: end with the status it set, OK when it set none."""
        code = grpc.StatusCode.OK if self._code is None else self._code
        self._exchange.end(
            Ending(code=code, details=self._details, trailing_metadata=self._trailing)
        )

    def answer(self, response: Res) -> None:
        """The servicer's only response; dropped when it set another status than OK."""
        if self._code in _SUCCESS:
            data = encode(response, self._serialize)
            if self._exchange.refuse_oversized(data, "Sent"):
                return
            self._exchange.response = data
        self.finish()


def encode(message: Any, serialize: Callable[[Any], bytes] | None) -> bytes:
    """The bytes of a message, real ones, so that neither end can hold the other's object."""
    data = message if serialize is None else serialize(message)
    if not isinstance(data, bytes):
        raise TypeError(f"a serializer made {type(data).__name__}, not bytes")
    return data
