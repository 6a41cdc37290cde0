"""LimitService: convert in, call, convert out."""

import grpc.aio

from minara.tools.v1 import limit_service_pb2 as limit_pb
from minara.tools.v1 import limit_service_pb2_grpc as limit_grpc
from minara.type.v1 import decimal_pb2 as decimal_pb
from minara_core.errors import InvalidRequest
from minara_core.ids import UserId
from minara_core.money import canonical
from minara_runtime.call_context import current_grant
from minara_runtime.convert_actions import time_to_pb
from minara_tools.app.limit_control import LimitControl
from minara_tools.domain.addresses import AddressEntry
from minara_tools.domain.limits import HIGHEST, LimitsRecord, values_of

DEFAULT_PAGE_SIZE = 100
MAX_PAGE_SIZE = 500


class LimitServicer(limit_grpc.LimitServiceServicer):
    def __init__(self, control: LimitControl) -> None:
        self._control = control

    async def GetLimits(
        self,
        request: limit_pb.GetLimitsRequest,
        context: grpc.aio.ServicerContext[limit_pb.GetLimitsRequest, limit_pb.GetLimitsResponse],
    ) -> limit_pb.GetLimitsResponse:
        record = await self._control.current(_person())
        return limit_pb.GetLimitsResponse(limits=_record_to_pb(record))

    async def UpdateLimits(
        self,
        request: limit_pb.UpdateLimitsRequest,
        context: grpc.aio.ServicerContext[
            limit_pb.UpdateLimitsRequest, limit_pb.UpdateLimitsResponse
        ],
    ) -> limit_pb.UpdateLimitsResponse:
        record = await self._control.update(
            _person(), preset=request.preset, values=dict(request.values)
        )
        return limit_pb.UpdateLimitsResponse(limits=_record_to_pb(record))

    async def ListAddresses(
        self,
        request: limit_pb.ListAddressesRequest,
        context: grpc.aio.ServicerContext[
            limit_pb.ListAddressesRequest, limit_pb.ListAddressesResponse
        ],
    ) -> limit_pb.ListAddressesResponse:
        size = _page_size(request.page_size)
        rest = [
            entry
            for entry in await self._control.book(_person())
            if _place(entry) > request.page_token
        ]
        page = rest[:size]
        return limit_pb.ListAddressesResponse(
            addresses=[_address_to_pb(entry) for entry in page],
            next_page_token=_place(page[-1]) if len(rest) > size else "",
        )

    async def AddAddress(
        self,
        request: limit_pb.AddAddressRequest,
        context: grpc.aio.ServicerContext[limit_pb.AddAddressRequest, limit_pb.AddAddressResponse],
    ) -> limit_pb.AddAddressResponse:
        entry = await self._control.add_address(
            _person(),
            name=request.name,
            chain=request.chain,
            address=request.address,
            memo=request.memo,
        )
        return limit_pb.AddAddressResponse(address=_address_to_pb(entry))

    async def RemoveAddress(
        self,
        request: limit_pb.RemoveAddressRequest,
        context: grpc.aio.ServicerContext[
            limit_pb.RemoveAddressRequest, limit_pb.RemoveAddressResponse
        ],
    ) -> limit_pb.RemoveAddressResponse:
        await self._control.remove_address(_person(), request.address_id)
        return limit_pb.RemoveAddressResponse()


def _person() -> UserId:
    return UserId(current_grant().subject)


def _place(entry: AddressEntry) -> str:
    return f"{entry.name}\t{entry.address_id}"


def _page_size(asked: int) -> int:
    if asked < 0 or asked > MAX_PAGE_SIZE:
        raise InvalidRequest(
            f"a page has 1 to {MAX_PAGE_SIZE} entries", metadata={"field": "page_size"}
        )
    return asked or DEFAULT_PAGE_SIZE


def _record_to_pb(record: LimitsRecord) -> limit_pb.LimitsRecord:
    highest = values_of(HIGHEST)
    return limit_pb.LimitsRecord(
        limits=[
            limit_pb.Limit(
                name=name,
                value=decimal_pb.Decimal(value=canonical(value)),
                highest=decimal_pb.Decimal(value=canonical(highest[name])),
            )
            for name, value in values_of(record.limits).items()
        ],
        raises=[
            limit_pb.PendingRaise(
                name=one.limit,
                value=decimal_pb.Decimal(value=canonical(one.value)),
                effective_time=time_to_pb(one.effective_time),
            )
            for one in record.raises
        ],
        is_chosen=record.is_chosen,
        update_time=time_to_pb(record.update_time) if record.update_time else None,
    )


def _address_to_pb(entry: AddressEntry) -> limit_pb.Address:
    return limit_pb.Address(
        address_id=entry.address_id,
        name=entry.name,
        chain=entry.chain,
        address=entry.address,
        memo=entry.memo,
        create_time=time_to_pb(entry.create_time),
        usable_time=time_to_pb(entry.create_time if entry.used else entry.usable_time),
        is_used=entry.used,
    )
