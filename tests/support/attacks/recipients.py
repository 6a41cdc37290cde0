"""Addresses that look like others, and who may send to them."""

import json
from datetime import timedelta

from minara.tools.v1 import limit_service_pb2 as limit_pb
from minara.tools.v1 import trading_control_service_pb2 as control_pb
from minara_core.reasons import DenialReason, ErrorReason
from minara_runtime.channels import with_grant
from minara_runtime.convert import result_from_pb
from support.attacks.scene import SEND, Scene, attack, refusal_of
from support.attacks.table import Attack, AttackClass, code_of
from support.tools.funds import BITCOIN_ADDRESS, EVM_ADDRESS

POISONED = f"0x5aae{'0' * 32}eaed"
ONE_OFF = EVM_ADDRESS.lower().replace("6053", "6054")
MISSPELT = EVM_ADDRESS.replace("Ae", "ae", 1)
STRANGER = "0x" + "1234567890" * 4
LOOKALIKE = DenialReason.ADDRESS_LOOKALIKE
BAD_ADDRESS = DenialReason.ADDRESS_INVALID
OTHER_CHAIN = DenialReason.CHAIN_MISMATCH
FIRST_LIMIT = DenialReason.RECIPIENT_NEW_LIMIT
WRONG_TYPE = ErrorReason.GRANT_WRONG_TYPE


async def _by_hand(scene: Scene, address: str, **changes: str) -> str:
    """The person fills the form in with what they were made to believe."""
    typed = {
        "symbol": "USDC",
        "amount": "50",
        "chain": "base",
        "address": address,
        "last_six": address[-6:],
    }
    response = await scene.house.control.RunManualAction(
        control_pb.RunManualActionRequest(
            tool_name=SEND, arguments_json=json.dumps(typed | changes), request_id="form-0001"
        ),
        metadata=scene.house.request_grant(),
    )
    return code_of(result_from_pb(response.result).outcome)


async def _add(scene: Scene, address: str, name: str = "my wallet") -> str:
    call = scene.house.limits.AddAddress(
        limit_pb.AddAddressRequest(name=name, chain="base", address=address),
        metadata=scene.house.request_grant(),
    )
    return await refusal_of(call)


def _to(
    name: str, code: DenialReason | str, address: str, *, knows: bool = False, **changes: str
) -> Attack[Scene]:
    async def play(scene: Scene) -> str:
        if knows:
            assert await _add(scene, EVM_ADDRESS) == "answered"
            scene.clock.advance(timedelta(hours=25))
        return await _by_hand(scene, address, **changes)

    return attack(name, code, play, SEND)


async def _an_entry_of_today(scene: Scene) -> str:
    await _add(scene, EVM_ADDRESS)
    return await _by_hand(scene, EVM_ADDRESS)


async def _a_look_alike_into_the_book(scene: Scene) -> str:
    await _add(scene, EVM_ADDRESS)
    return await _add(scene, POISONED, "my wallet 2")


async def _a_model_fills_the_form_in(scene: Scene) -> str:
    await scene.opens("send 50 USDC to my wallet")
    arguments = {"symbol": "USDC", "amount": "50", "chain": "base", "address": STRANGER}
    return await scene.calls(SEND, arguments | {"last_six": STRANGER[-6:]})


async def _a_model_runs_the_form(scene: Scene) -> str:
    await scene.opens("send 50 USDC to my wallet")
    call = scene.house.control.RunManualAction(
        control_pb.RunManualActionRequest(
            tool_name=SEND, arguments_json="{}", request_id="form-0001"
        ),
        metadata=with_grant(scene.house.opened["turn-1"].grant),
    )
    return await refusal_of(call)


async def _a_model_enters_an_address(scene: Scene) -> str:
    await scene.opens("add my wallet")
    call = scene.house.limits.AddAddress(
        limit_pb.AddAddressRequest(name="my wallet", chain="base", address=STRANGER),
        metadata=with_grant(scene.house.opened["turn-1"].grant),
    )
    return await refusal_of(call)


RECIPIENTS = AttackClass(
    name="poisoned addresses",
    attacks=(
        _to(
            "the first and last four of a known one",
            LOOKALIKE,
            POISONED,
            knows=True,
        ),
        _to("one character off a known one", LOOKALIKE, ONE_OFF, knows=True),
        _to(
            "a letter in the wrong case",
            BAD_ADDRESS,
            MISSPELT,
        ),
        _to("an address of another chain", OTHER_CHAIN, BITCOIN_ADDRESS),
        _to(
            "a chain that the asset does not take",
            OTHER_CHAIN,
            STRANGER,
            chain="tron",
        ),
        _to("no chain", DenialReason.CHAIN_UNSPECIFIED, STRANGER, chain=""),
        _to("the last six of another one", BAD_ADDRESS, STRANGER, last_six="aaaaaa"),
        _to(
            "more than a first transfer may have",
            FIRST_LIMIT,
            STRANGER,
            amount="150",
        ),
        attack("an entry of today", DenialReason.ADDRESS_NOT_USABLE, _an_entry_of_today, SEND),
        attack(
            "a look-alike into the book",
            ErrorReason.ADDRESS_LOOKALIKE,
            _a_look_alike_into_the_book,
            SEND,
        ),
        attack(
            "a model fills the form in", DenialReason.MANUAL_ONLY, _a_model_fills_the_form_in, SEND
        ),
        attack("a model sends the form", WRONG_TYPE, _a_model_runs_the_form, SEND),
        attack(
            "a model enters an address",
            WRONG_TYPE,
            _a_model_enters_an_address,
            SEND,
        ),
    ),
)
CLASSES = (RECIPIENTS,)
