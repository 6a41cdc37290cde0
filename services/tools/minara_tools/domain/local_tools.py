"""Tools that the orchestrator runs itself; gated and audited here like all others."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from minara_core.taxonomy import PermissionTier
from minara_core.tooling import Executor
from minara_tools.domain.registry import ToolEntry

ALWAYS_CALLABLE = frozenset({"activate_skills", "ask_user", "subagent"})
FOR_THE_TURN_ALONE = frozenset({"activate_skills", "ask_user"})
"""A sub-agent has no person to ask, and its skills are those of its turn."""

_ShortText = Annotated[str, Field(min_length=1, max_length=200)]


class ActivateSkillsArguments(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    skill_ids: Annotated[
        list[_ShortText],
        Field(min_length=1, max_length=6, description="Skill ids from the catalog, exactly."),
    ]


class AskUserArguments(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    question: Annotated[
        str,
        Field(min_length=1, max_length=1_000, description="One question, in their language."),
    ]
    options: Annotated[
        list[_ShortText],
        Field(max_length=4, description="Up to four short answers to choose from."),
    ] = []


class SubagentArguments(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    task: Annotated[
        str,
        Field(
            min_length=1,
            max_length=4_000,
            description="All it must know: it sees neither this conversation nor its results.",
        ),
    ]
    tool_sets: Annotated[
        list[Literal["read", "analysis", "memory", "web"]],
        Field(
            min_length=1,
            max_length=4,
            description="What it may use of that which this turn may use.",
        ),
    ]
    max_steps: Annotated[
        int, Field(ge=1, le=12, description="Model calls it may make at most.")
    ] = 6


def local_tools() -> tuple[ToolEntry, ...]:
    """`activate_skills`, `ask_user` and `subagent`, of tool set `turn`."""
    return (
        ToolEntry(
            name="activate_skills",
            tool_set="turn",
            description=(
                "Load skills of the catalog when their instructions or tools are needed for what "
                "the person asks and are not active yet."
            ),
            arguments=ActivateSkillsArguments,
            permission_tier=PermissionTier.READ_ONLY,
            untrusted_output=False,
            executor=Executor.ORCHESTRATOR,
        ),
        ToolEntry(
            name="ask_user",
            tool_set="turn",
            description=(
                "Ask the person one question when you cannot go on without the answer. It ends "
                "your turn; their next message is the answer."
            ),
            arguments=AskUserArguments,
            permission_tier=PermissionTier.READ_ONLY,
            untrusted_output=False,
            executor=Executor.ORCHESTRATOR,
        ),
        ToolEntry(
            name="subagent",
            tool_set="turn",
            description=(
                "Give a task that needs much reading and a short answer to a sub-agent, such as "
                "comparing many assets. It begins with nothing but the task, only reads, can "
                "neither ask the person nor move or prepare to move money, and shares what is "
                "left of this turn's budget. Returns its final text. For one or two calls make "
                "them yourself."
            ),
            arguments=SubagentArguments,
            permission_tier=PermissionTier.READ_ONLY,
            executor=Executor.ORCHESTRATOR,
        ),
    )
