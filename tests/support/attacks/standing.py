"""What changes between a preview and the yes, and what is tried while trading is stopped."""

from collections.abc import Callable
from decimal import Decimal

from minara.tools.v1 import trading_control_service_pb2 as control_pb
from minara_core.actions import TradingMode
from minara_core.reasons import DenialReason, ErrorReason
from minara_core.taxonomy import Origin, Scope
from minara_runtime.channels import with_grant
from support.attacks.scene import PAGE, Scene, a_buy, attack, refusal_of
from support.attacks.table import Attack, AttackClass
from support.tools.entries import a_tool

VOID = f"voided: {DenialReason.CONFIRMATION_MISMATCH}"
HALTED = DenialReason.TRADING_HALTED
MISMATCH = ErrorReason.GRANT_MISMATCH


def _switched(name: str, switch: Callable[[Scene], None], code: str = VOID) -> Attack[Scene]:
    """Between the preview and the yes."""

    async def play(scene: Scene) -> str:
        action = await scene.pending()
        switch(scene)
        told = await scene.person_confirms(action)
        assert scene.house.venue.sent == []
        return told

    return attack(name, code, play)


def _mode(mode: TradingMode) -> Callable[[Scene], None]:
    return lambda scene: setattr(scene.house.venue, "mode", mode)


def _name(scene: Scene) -> None:
    scene.house.venue.name = "another"


def _account(scene: Scene) -> None:
    scene.house.venue.account_of = lambda user: f"live-{user}"


def _delisted(scene: Scene) -> None:
    del scene.market.prices_usd["ETH"]


def _dearer(scene: Scene) -> None:
    scene.market.prices_usd["ETH"] = Decimal(2600)


def _stopped_by_file(scene: Scene) -> None:
    (scene.house.data_dir / "HALT").touch()


async def _without_the_tool(scene: Scene) -> str:
    action = await scene.pending()
    async with scene.again(entries=(a_tool(PAGE),)) as other:
        return await other.person_confirms(action)


async def _buys_under_a_stop(scene: Scene) -> str:
    await scene.opens()
    await scene.house.halt()
    return await scene.calls("buy_token", a_buy())


async def _confirms_under_a_stop(scene: Scene) -> str:
    action = await scene.pending()
    await scene.house.halt()
    return await scene.decides(action, scene.grant(action))


async def _buys_by_selling_money(scene: Scene) -> str:
    await scene.house.halt()
    words = "sell 50 USDC"
    await scene.opens(words)
    sale = {"symbol": "USDC", "amount": "50", "amount_unit": "base", "intent": words}
    return await scene.calls("sell_token", sale)


async def _sells_from_a_schedule(scene: Scene) -> str:
    await scene.house.halt()
    await scene.opens("sell all of my ETH", origin=Origin.CRON)
    sale = {"symbol": "ETH", "amount_unit": "all", "intent": "sell all of my ETH"}
    return await scene.calls("sell_token", sale)


async def _resumes_with_a_tool(scene: Scene) -> str:
    await scene.house.halt()
    await scene.opens("resume trading")
    return await scene.calls("resume_trading", {})


def _resuming(name: str, code: ErrorReason, token_of: Callable[[Scene, str], str]) -> Attack[Scene]:
    async def play(scene: Scene) -> str:
        await scene.opens()
        halted = await scene.house.halt()
        etag = halted.trading_state.etag
        call = scene.house.control.ResumeTrading(
            control_pb.ResumeTradingRequest(etag=etag), metadata=with_grant(token_of(scene, etag))
        )
        return await refusal_of(call)

    return attack(name, code, play, "resume")


def resume_token(
    action_id: str, decision: str, etag: str | None = None
) -> Callable[[Scene, str], str]:
    """Signs a decision about resuming; the etag that was seen unless another is given."""

    def token_of(scene: Scene, seen: str) -> str:
        return scene.house.installation.confirmation.confirmation(
            user_id="local",
            pending_action_id=action_id,
            action_hash=seen if etag is None else etag,
            decision=decision,
        )

    return token_of


CONFIGURATION = AttackClass(
    name="switched between preview and yes",
    attacks=(
        _switched("from paper to live", _mode(TradingMode.LIVE)),
        _switched("from paper to testnet", _mode(TradingMode.TESTNET)),
        _switched("another venue", _name),
        _switched("another account", _account),
        _switched("the instrument is gone", _delisted),
        _switched("a price past the bound", _dearer, f"voided: {DenialReason.SLIPPAGE_EXCEEDED}"),
        _switched("the halt file appears", _stopped_by_file, f"voided: {HALTED}"),
        attack("the tool is gone", VOID, _without_the_tool),
    ),
)
STOP = AttackClass(
    name="around the emergency stop",
    attacks=(
        attack("buy all the same", HALTED, _buys_under_a_stop),
        attack("confirm what waited", ErrorReason.CONFIRMATION_USED, _confirms_under_a_stop),
        attack(
            "buy by selling money",
            DenialReason.TOKEN_AMBIGUOUS,
            _buys_by_selling_money,
            "sell_token",
        ),
        attack(
            "sell from a schedule",
            HALTED,
            _sells_from_a_schedule,
            "sell_token",
        ),
        attack("resume with a tool", DenialReason.TOOL_UNKNOWN, _resumes_with_a_tool, "resume"),
        _resuming(
            "resume with the turn's grant",
            ErrorReason.GRANT_WRONG_TYPE,
            lambda scene, etag: scene.house.opened["turn-1"].grant,
        ),
        _resuming(
            "resume with a request's grant",
            ErrorReason.GRANT_WRONG_TYPE,
            lambda scene, etag: scene.house.installation.gateway.request(
                user_id="local", scopes=tuple(Scope)
            ),
        ),
        _resuming(
            "resume with a yes to a move",
            MISMATCH,
            resume_token("action-1", "confirm"),
        ),
        _resuming("resume with a no", MISMATCH, resume_token("trading:resume", "reject")),
        _resuming(
            "resume with a yes to another state",
            MISMATCH,
            resume_token("trading:resume", "confirm", "f" * 32),
        ),
    ),
)
CLASSES = (CONFIGURATION, STOP)
