"""A database of before: what it believes to wait was executed since."""

import json
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path

from minara.tools.v1 import trading_control_service_pb2 as control_pb
from minara_core.actions import PendingAction
from minara_core.reasons import DenialReason, ErrorReason
from minara_core.taxonomy import Scope
from minara_runtime.channels import with_grant
from minara_tools.adapters.counter_file import counter_path
from support.attacks.scene import Scene, a_buy, attack, refusal_of
from support.attacks.standing import resume_token
from support.attacks.table import PREVIEW_ONLY, Attack, AttackClass

WRONG_TYPE = str(ErrorReason.GRANT_WRONG_TYPE)
HALTED = str(DenialReason.TRADING_HALTED)
RESTORED = "voided: BOOKS_RESTORED"


def _copy(source: Path, target: Path) -> None:
    with closing(sqlite3.connect(source)) as old, closing(sqlite3.connect(target)) as new:
        old.backup(new)


Afterwards = Callable[[Scene, PendingAction, PendingAction], Awaitable[str]]


def _restored(
    name: str, code: str, afterwards: Afterwards, tool: str = "buy_token"
) -> Attack[Scene]:
    """The database of before a confirmed move comes back; `afterwards` sees the action that was
    executed since, and one that still waited."""

    async def play(scene: Scene) -> str:
        executed = await scene.pending()
        waiting = await scene.pending("turn-2", amount="60", session_id="session-2")
        backup = scene.house.data_dir / "backup.db"
        _copy(scene.path, backup)
        assert await scene.person_confirms(executed) == "done"
        async with scene.again(url=f"sqlite:///{backup}") as other:
            return await afterwards(other, executed, waiting)

    return attack(name, code, play, tool)


async def _buys_again(scene: Scene, executed: PendingAction, waiting: PendingAction) -> str:
    await scene.opens("buy $50 of ETH", "turn-9")
    return await scene.calls("buy_token", a_buy(), turn_id="turn-9")


async def _confirms_the_executed(
    scene: Scene, executed: PendingAction, waiting: PendingAction
) -> str:
    return await scene.decides(executed, scene.grant(executed))


async def _confirms_the_waiting(
    scene: Scene, executed: PendingAction, waiting: PendingAction
) -> str:
    return await scene.person_confirms(waiting)


async def _resumes(scene: Scene, executed: PendingAction, waiting: PendingAction) -> str:
    state = await scene.house.control.GetTradingState(
        control_pb.GetTradingStateRequest(), metadata=scene.house.request_grant()
    )
    etag = state.trading_state.etag
    call = scene.house.control.ResumeTrading(
        control_pb.ResumeTradingRequest(etag=etag),
        metadata=with_grant(resume_token("trading:resume", "confirm")(scene, etag)),
    )
    return await refusal_of(call)


async def _adopts_with_a_turn(scene: Scene, executed: PendingAction, waiting: PendingAction) -> str:
    await scene.opens("adopt the books", "turn-9")
    grant = with_grant(scene.house.opened["turn-9"].grant)
    return await refusal_of(
        scene.house.control.AdoptBooks(control_pb.AdoptBooksRequest(), metadata=grant)
    )


async def _adopts_without_scope(
    scene: Scene, executed: PendingAction, waiting: PendingAction
) -> str:
    grant = scene.house.request_grant(Scope.CONFIRM)
    return await refusal_of(
        scene.house.control.AdoptBooks(control_pb.AdoptBooksRequest(), metadata=grant)
    )


async def _adopted(scene: Scene) -> None:
    await scene.house.control.AdoptBooks(
        control_pb.AdoptBooksRequest(), metadata=scene.house.request_grant()
    )


async def _confirms_after_adopting(
    scene: Scene, executed: PendingAction, waiting: PendingAction
) -> str:
    await _adopted(scene)
    return await scene.person_confirms(waiting)


async def _goes_on_after_adopting(
    scene: Scene, executed: PendingAction, waiting: PendingAction
) -> str:
    await _adopted(scene)
    return await _buys_again(scene, executed, waiting)


async def _without_its_counter(scene: Scene) -> str:
    action = await scene.pending()
    assert await scene.person_confirms(action) == "done"
    counter_path(scene.house.data_dir).unlink()
    async with scene.again() as other:
        return await _buys_again(other, action, action)


async def _from_another_machine(scene: Scene) -> str:
    action = await scene.pending()
    path = counter_path(scene.house.data_dir)
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | {"host": "there"}), "utf-8")
    async with scene.again() as other:
        return await _buys_again(other, action, action)


BACKUP = AttackClass(
    name="a restored backup",
    attacks=(
        _restored("confirm what was executed since", RESTORED, _confirms_the_executed),
        _restored("confirm what still waited", RESTORED, _confirms_the_waiting),
        _restored("buy again", HALTED, _buys_again),
        _restored("resume", str(ErrorReason.TRADING_HALTED), _resumes, "resume"),
        _restored(
            "adopt with the turn's grant",
            WRONG_TYPE,
            _adopts_with_a_turn,
            "adopt",
        ),
        _restored(
            "adopt without the scope",
            str(ErrorReason.SCOPE_MISSING),
            _adopts_without_scope,
            "adopt",
        ),
        _restored("confirm what waited, once adopted", RESTORED, _confirms_after_adopting),
        _restored("ask anew, once adopted", PREVIEW_ONLY, _goes_on_after_adopting),
        attack("a database without its counter file", HALTED, _without_its_counter),
        attack("a database of another machine", HALTED, _from_another_machine),
    ),
)
CLASSES = (BACKUP,)
