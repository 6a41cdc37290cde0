"""Tools that the orchestrator runs itself; gated and audited here like all others."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from minara_core.taxonomy import PermissionTier
from minara_core.tooling import Executor
from minara_tools.domain.registry import ToolEntry

ALWAYS_CALLABLE = frozenset({"activate_skills", "ask_user"})

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


def local_tools() -> tuple[ToolEntry, ...]:
    """`activate_skills` and `ask_user`, of tool set `turn`."""
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
    )
