"""What is smuggled into a running turn, and what a sub-agent of it tries."""

from minara.tools.v1 import tool_service_pb2 as tools_pb
from minara_core.errors import MinaraError
from minara_core.reasons import DenialReason, ErrorReason
from minara_core.taxonomy import Origin
from support.attacks.scene import PAGE, SEND, SETS, Scene, a_buy, attack
from support.attacks.table import PREVIEW_UNSOLICITED, Attack, AttackClass
from support.tools.house import BUY

FORBIDDEN = DenialReason.SUBAGENT_FORBIDDEN
TASK: dict[str, object] = {"task": "look around", "tool_sets": ["read"]}


async def _interject(
    scene: Scene,
    message: str = BUY,
    *,
    signed: str = "",
    into: str = "turn-1",
    origin: Origin = Origin.HTTP,
    user_id: str = "local",
    session_id: str = "session-1",
) -> str:
    """What comes of putting words into a turn; `signed` are those that the grant proves."""
    context = scene.house.context(
        "said-1",
        signed or message,
        origin=origin,
        session_id=session_id,
        sets=SETS,
        user_id=user_id,
    )
    scene.house.opened["said-1"] = context
    request = tools_pb.OpenTurnRequest(context=context, message=message, into_turn_id=into)
    try:
        await scene.house.tools.OpenTurn(request)
    except MinaraError as refused:
        return str(refused.reason)
    return "taken"


async def _words_of_a_page(scene: Scene) -> str:
    await scene.opens("summarise this page for me")
    await scene.calls(PAGE, {"text": BUY})
    return await _interject(scene, BUY, signed="go on")


async def _words_of_a_schedule(scene: Scene) -> str:
    await scene.opens("what is ETH?")
    return await _interject(scene, origin=Origin.CRON)


async def _words_of_a_program(scene: Scene) -> str:
    await scene.opens("what is ETH?")
    return await _interject(scene, origin=Origin.MCP)


async def _into_the_turn_of_another_person(scene: Scene) -> str:
    await scene.opens("what is ETH?")
    return await _interject(scene, user_id="ann", session_id="session-2")


async def _into_a_turn_of_another_session(scene: Scene) -> str:
    await scene.opens("what is ETH?")
    return await _interject(scene, session_id="session-2")


async def _into_a_closed_turn(scene: Scene) -> str:
    await scene.opens("what is ETH?")
    await scene.house.close()
    return await _interject(scene)


async def _buys_in_a_standing_goal(scene: Scene) -> str:
    await scene.opens(None, origin=Origin.GOAL)
    assert await _interject(scene) == "taken"
    return await scene.calls("buy_token", a_buy())


async def _buys_under_the_words_own_id(scene: Scene) -> str:
    await scene.opens("what is ETH?")
    assert await _interject(scene) == "taken"
    return await scene.calls("buy_token", a_buy(), turn_id="said-1")


async def _buys_by_answered_words(scene: Scene) -> str:
    await scene.opens("what is ETH?")
    assert await _interject(scene) == "taken"
    await scene.calls("buy_token", a_buy())
    (action,) = await scene.waiting()
    await scene.decides(action, scene.grant(action, "reject"), rejects=True)
    await scene.opens("hm", "turn-2")
    return await scene.calls("buy_token", a_buy(), turn_id="turn-2")


def _sub_agent(
    name: str,
    code: DenialReason | ErrorReason | str,
    tool: str,
    arguments: dict[str, object],
    call_id: str = "1.0/1.0",
) -> Attack[Scene]:
    """A sub-agent's call in a turn whose person asked for the purchase."""

    async def play(scene: Scene) -> str:
        await scene.opens()
        try:
            return await scene.calls(tool, arguments, call_id=call_id)
        except MinaraError as refused:
            return str(refused.reason)

    return attack(name, code, play, tool)


SMUGGLED = AttackClass(
    name="words put into a running turn",
    attacks=(
        attack("those of a page", ErrorReason.GRANT_MISMATCH, _words_of_a_page),
        attack("those of a schedule", ErrorReason.REQUEST_INVALID, _words_of_a_schedule),
        attack("those of a program", ErrorReason.REQUEST_INVALID, _words_of_a_program),
        attack("by another person", ErrorReason.TURN_NOT_FOUND, _into_the_turn_of_another_person),
        attack("from another session", ErrorReason.TURN_NOT_FOUND, _into_a_turn_of_another_session),
        attack("when it is over", ErrorReason.TURN_OVER, _into_a_closed_turn),
        attack(
            "of a goal, so that it may trade",
            DenialReason.TOOL_SET_NOT_ALLOWED,
            _buys_in_a_standing_goal,
        ),
        attack("as a turn of their own", DenialReason.GRANT_INVALID, _buys_under_the_words_own_id),
        attack("answered before", PREVIEW_UNSOLICITED, _buys_by_answered_words),
    ),
)
SUB_AGENTS = AttackClass(
    name="sub-agents",
    attacks=(
        _sub_agent("buys what the person asked for", FORBIDDEN, "buy_token", a_buy()),
        _sub_agent("buys from one level deeper", FORBIDDEN, "buy_token", a_buy(), "1.0/1.0/1.0"),
        _sub_agent(
            "buys from a depth that there is not",
            ErrorReason.REQUEST_INVALID,
            "buy_token",
            a_buy(),
            "1.0/1.0/1.0/1.0",
        ),
        _sub_agent(
            "buys under a path that is none",
            ErrorReason.REQUEST_INVALID,
            "buy_token",
            a_buy(),
            "1.0\\1.0",
        ),
        _sub_agent("sends", FORBIDDEN, SEND, {}),
        _sub_agent("asks the person", FORBIDDEN, "ask_user", {"question": "Buy ETH?"}),
        _sub_agent("activates skills", FORBIDDEN, "activate_skills", {"skill_ids": ["trade.spot"]}),
        _sub_agent("begins a third level", FORBIDDEN, "subagent", TASK, "1.0/1.0/1.0"),
        _sub_agent(
            "is given set trade",
            DenialReason.ARGUMENTS_INVALID,
            "subagent",
            TASK | {"tool_sets": ["trade"]},
            "1.0",
        ),
    ),
)
CLASSES = (SMUGGLED, SUB_AGENTS)
