"""The models a wire server claims to have, as far as their rules differ."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class WireModel:
    """`shortest_cacheable` is in tokens. `is_native` is a model at OpenAI itself, which takes more
    and refuses more than compatible servers do."""

    name: str
    context_window: int = 1_000_000
    max_output: int = 128_000
    shortest_cacheable: int = 1_024
    takes_system_messages: bool = False
    thinks_adaptively: bool = False
    takes_prefill: bool = False
    is_native: bool = False
    has_no_effort_with_tools: bool = False


_CLAUDE_NOW = ("claude-fable-5-1", "claude-opus-5-5", "claude-opus-5", "claude-sonnet-5-5")

WIRE_MODELS = (
    *(
        WireModel(name=name, takes_system_messages=True, thinks_adaptively=True)
        for name in _CLAUDE_NOW
    ),
    WireModel(name="claude-sonnet-5", thinks_adaptively=True),
    WireModel(name="claude-haiku-5-5", shortest_cacheable=2_048, thinks_adaptively=True),
    WireModel(
        name="claude-haiku-4-5",
        context_window=200_000,
        max_output=64_000,
        shortest_cacheable=4_096,
        takes_prefill=True,
    ),
    WireModel(
        name="gpt-6-sol", context_window=1_050_000, is_native=True, has_no_effort_with_tools=True
    ),
    WireModel(
        name="gpt-6-luna", context_window=1_050_000, is_native=True, has_no_effort_with_tools=True
    ),
    WireModel(name="gpt-5.4", is_native=True),
    WireModel(name="gpt-5.4-mini", is_native=True),
    WireModel(name="grok-4.5", context_window=500_000, max_output=64_000),
    WireModel(name="qwen3", context_window=128_000, max_output=32_000),
)


def model_named(models: Sequence[WireModel], name: str) -> WireModel | None:
    """A model by its own id, a gateway's ("vendor/model-5.5"), a dated or a sized one."""
    own = name.rpartition("/")[2]
    for model in models:
        for known in (own, own.replace(".", "-"), own.partition(":")[0]):
            rest = known.removeprefix(model.name)
            if known == model.name or (rest != known and rest[1:].replace("-", "").isdecimal()):
                return model
    return None
