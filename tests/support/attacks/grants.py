"""Who may say yes: the model for itself, and grants that are old, foreign, forged or of another
kind."""

import base64
import json
from collections.abc import Callable
from datetime import timedelta

from minara_core.actions import PendingAction
from minara_core.grant import GrantType
from minara_core.reasons import DenialReason, ErrorReason
from minara_core.taxonomy import Scope
from minara_runtime import keys
from minara_runtime.grants import GrantSigner
from support.attacks.scene import Scene, a_buy, attack
from support.attacks.table import PREVIEW_ONLY, Attack, AttackClass
from support.ids import SequentialIds

CONFIRM = "minara.tools.v1.ApprovalService/ConfirmAction"
TokenOf = Callable[[Scene, PendingAction], str]


def _with_token(name: str, code: ErrorReason | str, token_of: TokenOf) -> Attack[Scene]:
    async def play(scene: Scene) -> str:
        action = await scene.pending()
        return await scene.decides(action, token_of(scene, action))

    return Attack(name=name, tool="buy_token", code=str(code), play=play)


def _signed_by(signer: GrantSigner, action: PendingAction) -> str:
    return signer.sign(
        GrantType.CONFIRMATION,
        subject=action.user_id,
        lifetime=timedelta(seconds=60),
        pending_action_id=action.pending_action_id,
        action_hash=action.action_hash,
        decision="confirm",
    )


async def _a_confirm_tool(scene: Scene) -> str:
    action = await scene.pending()
    return await scene.calls(
        "confirm_action",
        {"pending_action_id": action.pending_action_id, "action_hash": action.action_hash},
    )


async def _a_yes_in_the_arguments(scene: Scene) -> str:
    await scene.opens()
    return await scene.calls("buy_token", a_buy(confirmed_by="person"))


async def _its_preview_again(scene: Scene) -> str:
    await scene.pending()
    return await scene.calls("buy_token", a_buy(), call_id="2.0")


def _turn_grant(scene: Scene, action: PendingAction) -> str:
    return scene.house.opened[action.turn_id].grant


def _request_grant(scene: Scene, action: PendingAction) -> str:
    return scene.house.installation.gateway.request(user_id=action.user_id, scopes=tuple(Scope))


def _service_grant(scene: Scene, action: PendingAction) -> str:
    del action
    return scene.house.installation.orchestrator.service(service="orchestrator", methods=[CONFIRM])


def _run_grant(scene: Scene, action: PendingAction) -> str:
    del action
    return scene.house.installation.run_grant()


def _nobodys_key(scene: Scene, action: PendingAction) -> str:
    key = keys.generate("gateway-confirmation")
    return _signed_by(GrantSigner(key, scene.clock, SequentialIds("forged")), action)


def _without_a_signature(scene: Scene, action: PendingAction) -> str:
    return f"{_claims_of(scene, action)[0]}.{_claims_of(scene, action)[1]}."


def _of_no_algorithm(scene: Scene, action: PendingAction) -> str:
    head, body, _ = _claims_of(scene, action)
    fields = json.loads(base64.urlsafe_b64decode(head + "=" * (-len(head) % 4)))
    unsigned = base64.urlsafe_b64encode(json.dumps(fields | {"alg": "none"}).encode())
    return f"{unsigned.decode().rstrip('=')}.{body}."


def _claims_of(scene: Scene, action: PendingAction) -> list[str]:
    return scene.grant(action, "reject").split(".")


def _a_no_turned_into_a_yes(scene: Scene, action: PendingAction) -> str:
    head, body, signature = _claims_of(scene, action)
    claims = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    forged = json.dumps(claims | {"decision": "confirm"}).encode()
    return f"{head}.{base64.urlsafe_b64encode(forged).decode().rstrip('=')}.{signature}"


async def _reused(scene: Scene) -> str:
    action = await scene.pending()
    token = scene.grant(action)
    assert await scene.person_confirms(action) == "done"
    return await scene.decides(action, token)


async def _reused_for_a_no(scene: Scene) -> str:
    action = await scene.pending()
    assert await scene.person_confirms(action) == "done"
    return await scene.decides(action, scene.grant(action), rejects=True)


async def _replayed_on_a_twin(scene: Scene) -> str:
    first = await scene.pending()
    token = scene.grant(first)
    assert await scene.person_confirms(first) == "done"
    twin = await scene.pending("turn-2")
    return await scene.decides(twin, token)


async def _kept_until_too_late(scene: Scene) -> str:
    action = await scene.pending()
    token = scene.grant(action)
    scene.clock.advance(timedelta(seconds=61))
    return await scene.decides(action, token)


async def _verified_once_and_late(scene: Scene) -> str:
    action = await scene.pending()
    token = scene.grant(action)
    assert await scene.decides(action, token, action_hash="f" * 64) == ErrorReason.GRANT_MISMATCH
    scene.clock.advance(timedelta(seconds=61))
    return await scene.decides(action, token)


async def _from_the_future(scene: Scene) -> str:
    action = await scene.pending()
    scene.clock.advance(timedelta(minutes=1))
    token = scene.grant(action)
    scene.clock.advance(timedelta(minutes=-1))
    return await scene.decides(action, token)


async def _after_its_time(scene: Scene) -> str:
    action = await scene.pending()
    scene.clock.advance(timedelta(minutes=10))
    return await scene.decides(action, scene.grant(action))


async def _after_a_no(scene: Scene) -> str:
    action = await scene.pending()
    await scene.decides(action, scene.grant(action, "reject"), rejects=True)
    return await scene.decides(action, scene.grant(action))


async def _of_the_older_preview(scene: Scene) -> str:
    old = await scene.pending()
    await scene.pending("turn-2", amount="60")
    return await scene.decides(old, scene.grant(old))


async def _for_another_action(scene: Scene) -> str:
    first = await scene.pending()
    other = await scene.pending("turn-2", amount="5000", session_id="session-2")
    return await scene.decides(other, scene.grant(first))


async def _with_another_hash(scene: Scene) -> str:
    first = await scene.pending()
    other = await scene.pending("turn-2", amount="5000", session_id="session-2")
    return await scene.decides(other, scene.grant(first), action_hash=first.action_hash)


async def _turn_of_the_day_before(scene: Scene) -> str:
    await scene.opens()
    await scene.house.close()
    return await scene.calls("buy_token", a_buy())


async def _turn_another_one_closed(scene: Scene) -> str:
    await scene.opens()
    await scene.opens("price of BTC", "turn-2")
    return await scene.calls("buy_token", a_buy())


async def _turn_never_opened(scene: Scene) -> str:
    scene.house.opened["turn-9"] = scene.house.context("turn-9", "buy $50 of ETH")
    return await scene.calls("buy_token", a_buy(), turn_id="turn-9")


async def _same_call_other(scene: Scene, name: str, **changes: str) -> str:
    await scene.opens()
    assert await scene.calls("buy_token", a_buy()) == PREVIEW_ONLY
    return await scene.calls(name, a_buy(**changes))


def _changed(name: str, tool: str = "buy_token", **changes: str) -> Attack[Scene]:
    return attack(
        name,
        DenialReason.OPERATION_ARGUMENTS_CHANGED,
        lambda scene: _same_call_other(scene, tool, **changes),
    )


def _unlike_the_words(
    name: str, words: str, tool: str = "buy_token", **changes: str
) -> Attack[Scene]:
    async def play(scene: Scene) -> str:
        return await scene.asks_and_calls(words, tool, a_buy(**changes))

    return Attack(name=name, tool=tool, code=DenialReason.INTENT_MISMATCH.value, play=play)


OWN_PREVIEW = AttackClass(
    name="a model confirms its own preview",
    attacks=(
        attack("with a tool that it makes up", DenialReason.TOOL_UNKNOWN, _a_confirm_tool),
        attack("in the arguments", DenialReason.ARGUMENTS_INVALID, _a_yes_in_the_arguments),
        attack("by asking for it once more", PREVIEW_ONLY, _its_preview_again),
        _with_token("without any grant", ErrorReason.GRANT_MISSING, lambda scene, action: ""),
        _with_token("with the turn's grant", ErrorReason.GRANT_WRONG_TYPE, _turn_grant),
        _with_token("with a grant of all scopes", ErrorReason.GRANT_WRONG_TYPE, _request_grant),
        _with_token("with a service's grant", ErrorReason.GRANT_WRONG_TYPE, _service_grant),
        _with_token("with a schedule's grant", ErrorReason.GRANT_WRONG_TYPE, _run_grant),
    ),
)
CHANGED = AttackClass(
    name="changed arguments",
    attacks=(
        _changed("the same call with a hundred times the amount", amount="5000"),
        _changed("the same call for another token", symbol="BTC"),
        _changed("the same call as another tool", "sell_token"),
        _changed("the same call with other words", intent="buy $50 of ETH now"),
        _unlike_the_words("ten times what was said", "buy $50 of ETH", amount="500"),
        _unlike_the_words("another token than was said", "buy $50 of ETH", symbol="BTC"),
        _unlike_the_words("a sale for a purchase", "buy $50 of ETH", "sell_token"),
        _unlike_the_words("50 tokens for 50 dollars", "buy $50 of ETH", amount_unit="base"),
        _unlike_the_words("other than its own intent", "buy ETH", intent="buy $60 of ETH"),
        attack(
            "the grant of one preview for another", ErrorReason.GRANT_MISMATCH, _for_another_action
        ),
        attack(
            "the hash of one preview for another", ErrorReason.GRANT_MISMATCH, _with_another_hash
        ),
    ),
)
GRANTS = AttackClass(
    name="reused, late, foreign, forged and replayed grants",
    attacks=(
        attack("used again: the recorded outcome, no second order", "done", _reused),
        attack("used again for a no", ErrorReason.GRANT_MISMATCH, _reused_for_a_no),
        attack("replayed on a twin", ErrorReason.GRANT_MISMATCH, _replayed_on_a_twin),
        attack("a minute late", ErrorReason.GRANT_EXPIRED, _kept_until_too_late),
        attack("verified once, then late", ErrorReason.GRANT_EXPIRED, _verified_once_and_late),
        attack("from the future", ErrorReason.GRANT_INVALID, _from_the_future),
        attack("for a preview that expired", ErrorReason.CONFIRMATION_EXPIRED, _after_its_time),
        attack("for a preview that was rejected", ErrorReason.CONFIRMATION_USED, _after_a_no),
        attack("for the older preview", ErrorReason.CONFIRMATION_USED, _of_the_older_preview),
        _with_token(
            "of somebody else",
            ErrorReason.ACTION_NOT_FOUND,
            lambda scene, action: scene.grant(action, user="mallory"),
        ),
        _with_token(
            "of the orchestrator's own key",
            ErrorReason.GRANT_INVALID,
            lambda scene, action: _signed_by(scene.house.installation.orchestrator, action),
        ),
        _with_token(
            "of the gateway's other key",
            ErrorReason.GRANT_INVALID,
            lambda scene, action: _signed_by(scene.house.installation.gateway, action),
        ),
        _with_token("of nobody's key", ErrorReason.GRANT_INVALID, _nobodys_key),
        _with_token("of no algorithm", ErrorReason.GRANT_INVALID, _of_no_algorithm),
        _with_token("without its signature", ErrorReason.GRANT_INVALID, _without_a_signature),
        _with_token("a no turned into a yes", ErrorReason.GRANT_INVALID, _a_no_turned_into_a_yes),
        _with_token(
            "a no for a yes",
            ErrorReason.GRANT_MISMATCH,
            lambda scene, action: scene.grant(action, "reject"),
        ),
        attack("of a closed turn", DenialReason.GRANT_INVALID, _turn_of_the_day_before),
        attack(
            "of a turn that another closed", DenialReason.GRANT_INVALID, _turn_another_one_closed
        ),
        attack("of a turn never opened", DenialReason.GRANT_INVALID, _turn_never_opened),
    ),
)
CLASSES = (OWN_PREVIEW, CHANGED, GRANTS)
