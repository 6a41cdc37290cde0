"""LimitService over gRPC: who may read, who may change, and what is refused."""

from collections.abc import AsyncGenerator
from datetime import timedelta

import pytest
import sqlalchemy as sa

from minara.tools.v1 import limit_service_pb2 as limit_pb
from minara_core.errors import InvalidRequest, LimitExceeded, MinaraError, NotFound
from minara_core.reasons import ErrorReason
from minara_core.taxonomy import Scope
from minara_tools.app import limit_control
from minara_tools.main import VERSIONS
from support.databases import Databases
from support.tools.funds import BITCOIN_ADDRESS, EVM_ADDRESS
from support.tools.limits import LimitsHouse, a_limits_house

POISONED = "0x5aaeb6" + "0" * 28 + "1beaed"


@pytest.fixture
async def house(databases: Databases) -> AsyncGenerator[LimitsHouse]:
    async with a_limits_house(await databases.open(VERSIONS)) as running:
        yield running


async def update(house: LimitsHouse, *, preset: str = "", **values: str) -> limit_pb.LimitsRecord:
    response = await house.stub.UpdateLimits(
        limit_pb.UpdateLimitsRequest(preset=preset, values=values), metadata=house.grant()
    )
    return response.limits


async def add(house: LimitsHouse, **changes: str) -> limit_pb.Address:
    known = {"name": "wallet", "chain": "ethereum", "address": EVM_ADDRESS} | changes
    response = await house.stub.AddAddress(
        limit_pb.AddAddressRequest(**known), metadata=house.grant()
    )
    return response.address


def shown(record: limit_pb.LimitsRecord) -> dict[str, str]:
    return {one.name: one.value.value for one in record.limits}


async def current(house: LimitsHouse, user_id: str = "local") -> limit_pb.LimitsRecord:
    response = await house.stub.GetLimits(
        limit_pb.GetLimitsRequest(), metadata=house.grant(Scope.READ, user_id=user_id)
    )
    return response.limits


async def test_who_never_chose_reads_the_standard_limits(house: LimitsHouse) -> None:
    record = await current(house)
    assert shown(record) == {
        "max_move_usd": "5000",
        "max_day_usd": "10000",
        "max_day_moves": "20",
        "max_new_recipient_usd": "100",
        "max_leverage": "10",
        "max_submits_a_minute": "10",
    }
    assert not record.is_chosen
    assert not record.HasField("update_time")
    assert {one.highest.value for one in record.limits if one.name == "max_leverage"} == {"10"}


async def test_a_preset_can_be_chosen_and_single_values_win_over_it(house: LimitsHouse) -> None:
    record = await update(house, preset="small", max_move_usd="123.45")
    assert shown(record)["max_move_usd"] == "123.45"
    assert shown(record)["max_day_usd"] == "1000"
    assert record.is_chosen
    assert await current(house) == record
    assert not (await current(house, "other")).is_chosen


async def test_a_raise_is_shown_with_its_time_until_it_holds(house: LimitsHouse) -> None:
    await update(house, preset="small")
    record = await update(house, max_move_usd="8000")
    (waiting,) = record.raises
    assert (waiting.name, waiting.value.value) == ("max_move_usd", "8000")
    clock = house.installation.clock
    assert waiting.effective_time.ToDatetime(clock.now().tzinfo) == clock.now() + timedelta(hours=1)
    clock.advance(timedelta(hours=1))
    assert shown(await current(house))["max_move_usd"] == "8000"
    assert not (await current(house)).raises


@pytest.mark.parametrize(
    ("preset", "values", "reason"),
    [
        ("", {}, ErrorReason.FIELD_REQUIRED),
        ("huge", {}, ErrorReason.REQUEST_INVALID),
        ("", {"max_fun": "3"}, ErrorReason.REQUEST_INVALID),
        ("", {"max_move_usd": "1e9"}, ErrorReason.AMOUNT_INVALID),
        ("small", {"max_move_usd": "0"}, ErrorReason.LIMIT_INVALID),
    ],
)
async def test_a_refused_change_changes_nothing(
    house: LimitsHouse, preset: str, values: dict[str, str], reason: ErrorReason
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        await update(house, preset=preset, **values)
    assert refused.value.reason is reason
    assert not (await current(house)).is_chosen


@pytest.mark.parametrize("scope", [Scope.READ, Scope.CHAT, Scope.TRADE])
async def test_only_who_may_confirm_may_change(house: LimitsHouse, scope: Scope) -> None:
    changes = (
        house.stub.UpdateLimits(
            limit_pb.UpdateLimitsRequest(preset="small"), metadata=house.grant(scope)
        ),
        house.stub.AddAddress(limit_pb.AddAddressRequest(), metadata=house.grant(scope)),
        house.stub.RemoveAddress(limit_pb.RemoveAddressRequest(), metadata=house.grant(scope)),
    )
    for change in changes:
        with pytest.raises(MinaraError) as refused:
            await change
        assert refused.value.reason is ErrorReason.SCOPE_MISSING


async def test_an_address_is_entered_listed_and_removed(house: LimitsHouse) -> None:
    entered = await add(house, memo="  7 ", name=" my wallet ")
    assert (entered.name, entered.memo, entered.address) == ("my wallet", "7", EVM_ADDRESS)
    assert entered.usable_time.seconds - entered.create_time.seconds == 86_400
    assert await add(house, memo="7", address=EVM_ADDRESS.lower()) == entered
    listed = await house.stub.ListAddresses(
        limit_pb.ListAddressesRequest(), metadata=house.grant(Scope.READ)
    )
    assert list(listed.addresses) == [entered]
    for _ in range(2):
        await house.stub.RemoveAddress(
            limit_pb.RemoveAddressRequest(address_id=entered.address_id), metadata=house.grant()
        )
    listed = await house.stub.ListAddresses(
        limit_pb.ListAddressesRequest(), metadata=house.grant(Scope.READ)
    )
    assert not listed.addresses


@pytest.mark.parametrize(
    ("changes", "reason", "field"),
    [
        ({"chain": "dogechain"}, ErrorReason.ADDRESS_INVALID, "chain"),
        ({"chain": "bitcoin"}, ErrorReason.ADDRESS_INVALID, "address"),
        ({"address": EVM_ADDRESS[:-1] + "D"}, ErrorReason.ADDRESS_INVALID, "address"),
        ({"address": ""}, ErrorReason.ADDRESS_INVALID, "address"),
        ({"name": ""}, ErrorReason.REQUEST_INVALID, "name"),
        ({"name": "a\u202eb"}, ErrorReason.REQUEST_INVALID, "name"),
        ({"name": "n" * 61}, ErrorReason.REQUEST_INVALID, "name"),
        ({"memo": "m" * 101}, ErrorReason.REQUEST_INVALID, "memo"),
    ],
)
async def test_what_is_no_recipient_is_refused(
    house: LimitsHouse, changes: dict[str, str], reason: ErrorReason, field: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        await add(house, **changes)
    assert (refused.value.reason, refused.value.metadata["field"]) == (reason, field)


async def test_a_look_alike_does_not_get_into_the_book(house: LimitsHouse) -> None:
    await add(house)
    with pytest.raises(InvalidRequest) as refused:
        await add(house, address=POISONED)
    assert refused.value.reason is ErrorReason.ADDRESS_LOOKALIKE
    assert refused.value.metadata == {"known": EVM_ADDRESS}


async def test_a_foreign_entry_is_not_found(house: LimitsHouse) -> None:
    entered = await add(house)
    with pytest.raises(NotFound) as refused:
        await house.stub.RemoveAddress(
            limit_pb.RemoveAddressRequest(address_id=entered.address_id),
            metadata=house.grant(user_id="other"),
        )
    assert refused.value.reason is ErrorReason.ADDRESS_NOT_FOUND


async def test_pages_go_through_the_book_once(house: LimitsHouse) -> None:
    for number in range(5):
        await add(house, name=f"n{number}", memo=str(number))
    names: list[str] = []
    token = ""
    while True:
        page = await house.stub.ListAddresses(
            limit_pb.ListAddressesRequest(page_size=2, page_token=token),
            metadata=house.grant(Scope.READ),
        )
        names += [entry.name for entry in page.addresses]
        token = page.next_page_token
        if not token:
            break
    assert names == ["n0", "n1", "n2", "n3", "n4"]


async def test_a_book_has_an_end(house: LimitsHouse) -> None:
    row = "('{n}', 'local', 'x', 'bitcoin', '{a}', '{a}', '{n}', false, false, {t}, {t})"
    time = f"'{house.installation.clock.now().isoformat(timespec='microseconds')}'"
    rows = [
        row.format(n=number, a=BITCOIN_ADDRESS, t=time)
        for number in range(limit_control.MOST_ADDRESSES)
    ]
    columns = "address_id, user_id, name, chain, address, spelling, memo, is_used, is_removed"
    statement = f"INSERT INTO addresses ({columns}, create_time, update_time) VALUES "
    await house.database.transaction(
        lambda c: c.execute(sa.text(statement + ", ".join(rows))).close()
    )
    with pytest.raises(LimitExceeded):
        await add(house)


async def test_every_change_is_audited(house: LimitsHouse) -> None:
    await update(house, preset="small")
    entered = await add(house)
    await house.stub.RemoveAddress(
        limit_pb.RemoveAddressRequest(address_id=entered.address_id), metadata=house.grant()
    )
    rows = await house.database.read(
        lambda c: c.execute(
            sa.text("SELECT kind, subject, outcome FROM audit_records ORDER BY sequence")
        ).all()
    )
    assert [tuple(row) for row in rows] == [
        ("state_change", "limits", "changed"),
        ("state_change", "addresses", "added"),
        ("state_change", "addresses", "removed"),
    ]


def test_reads_may_be_retried_and_changes_repeated() -> None:
    levels = {
        method.name: method.GetOptions().idempotency_level
        for method in limit_pb.DESCRIPTOR.services_by_name["LimitService"].methods
    }
    reads = {"GetLimits", "ListAddresses"}
    assert {name for name, level in levels.items() if level == 1} == reads
    assert {name for name, level in levels.items() if level == 2} == set(levels) - reads
