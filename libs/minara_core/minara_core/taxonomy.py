"""The words by which turns, tools and assets are classified."""

from collections.abc import Mapping
from enum import IntEnum, StrEnum
from types import MappingProxyType


class LifecycleStage(StrEnum):
    """Where a person stands: looking around, weighing, acting, or minding what they hold."""

    DISCOVER = "discover"
    EVALUATE = "evaluate"
    DECIDE = "decide"
    MANAGE = "manage"


class AssetClass(StrEnum):
    CRYPTO_MAJOR = "crypto_major"
    CRYPTO_ALT = "crypto_alt"
    CRYPTO_MEME = "crypto_meme"
    STABLECOIN = "stablecoin"
    PERPS = "perps"
    PREDICTION = "prediction"
    EQUITY = "equity"
    TOKENIZED_EQUITY = "tokenized_equity"
    COMMODITY = "commodity"
    FX = "fx"
    NFT = "nft"
    MACRO = "macro"


class PermissionTier(IntEnum):
    """What a tool call needs before it runs (safety.md §1)."""

    READ_ONLY = 1
    CONFIRM_ONCE = 2
    ALWAYS_CONFIRM = 3
    MANUAL_ONLY = 4


class RiskTier(IntEnum):
    """How much a skill may put at risk; the numbers are those of PermissionTier."""

    READ = 1
    PREPARE = 2
    MOVE = 3
    MANUAL = 4


class Origin(StrEnum):
    """How a turn came about; decides what it may do at most."""

    REPL = "repl"
    HTTP = "http"
    OPENAI_COMPAT = "openai_compat"
    AG_UI = "ag_ui"
    MCP = "mcp"
    GOAL = "goal"
    CRON = "cron"
    EVENT = "event"
    WORKFLOW = "workflow"
    AGENT = "agent"
    AUTOPILOT = "autopilot"

    @property
    def is_human(self) -> bool:
        """Whether a person wrote the message of such a turn."""
        return self in {Origin.REPL, Origin.HTTP}


class TradingState(StrEnum):
    """ACTIVE trades; REDUCING only exits; HALTED only cancels, and closes for a person."""

    ACTIVE = "active"
    REDUCING = "reducing"
    HALTED = "halted"


class Scope(StrEnum):
    """What a caller outside a turn may do. TRADE may preview; only CONFIRM may confirm."""

    READ = "read"
    CHAT = "chat"
    TRADE = "trade"
    CONFIRM = "confirm"
    ADMIN = "admin"


DEFAULT_CEILING_STAGE = LifecycleStage.EVALUATE
STAGE_CEILING: Mapping[LifecycleStage, PermissionTier] = MappingProxyType(
    {
        LifecycleStage.DISCOVER: PermissionTier.CONFIRM_ONCE,
        LifecycleStage.EVALUATE: PermissionTier.CONFIRM_ONCE,
        LifecycleStage.DECIDE: PermissionTier.ALWAYS_CONFIRM,
        LifecycleStage.MANAGE: PermissionTier.ALWAYS_CONFIRM,
    }
)

TOOL_SETS: tuple[str, ...] = (
    "read", "analysis", "research", "trade", "perps", "transfer", "autopilot", "memory", "file",
    "artifact", "web", "browser", "agents", "workflow", "turn",
)  # fmt: skip
"""Every tool set a grant or a skill may name; `mcp:<server>` sets come on top. `turn` holds the
local tools of the orchestrator."""
