"""What the orchestrator reads from the environment."""

from decimal import Decimal
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from minara_llm.providers import ProviderSettings
from minara_llm.selection import RoleSettings
from minara_orchestrator.domain.turn import Limits, TakeOver
from minara_runtime.settings import Settings


def _is_url(text: str) -> str:
    if not text.startswith(("http://", "https://")) or any(c.isspace() for c in text):
        raise ValueError("is no address: it begins with http:// or https://")
    return text


_Url = Annotated[str, AfterValidator(_is_url)]


class OrchestratorSettings(Settings):
    """`MINARA_…` variables; provider keys keep the names their owners gave them."""

    orchestrator_database_url: str | None = None
    model: str = ""
    model_fallbacks: str = ""
    model_choices: str = ""
    batch_model: str = ""
    vision_model: str = ""
    context_window: int | None = Field(default=None, ge=4_096, le=10_000_000)
    max_steps: int = Field(default=25, ge=1, le=100)
    max_turn_usd: Decimal = Field(default=Decimal(2), gt=0)
    max_session_day_usd: Decimal = Field(default=Decimal(20), gt=0)
    max_turn_input_tokens: int = Field(default=600_000, ge=1_000)
    max_turn_output_tokens: int = Field(default=32_000, ge=100)
    take_over: TakeOver = TakeOver.RESUME
    event_retention_days: int = Field(default=7, ge=1, le=3_650)
    anthropic_api_key: str | None = Field(default=None, validation_alias="ANTHROPIC_API_KEY")
    openrouter_api_key: str | None = Field(default=None, validation_alias="OPENROUTER_API_KEY")
    openai_api_key: str | None = Field(default=None, validation_alias="OPENAI_API_KEY")
    xai_api_key: str | None = Field(default=None, validation_alias="XAI_API_KEY")
    ollama_base_url: _Url | None = Field(default=None, validation_alias="OLLAMA_BASE_URL")
    anthropic_base_url: _Url | None = None
    openrouter_base_url: _Url | None = None
    openai_base_url: _Url | None = None
    xai_base_url: _Url | None = None
    openai_chat_path: str | None = None
    openai_api: Literal["", "responses", "chat"] = ""

    @property
    def providers(self) -> ProviderSettings:
        """Keys and addresses."""
        return ProviderSettings(
            anthropic_api_key=self.anthropic_api_key,
            openrouter_api_key=self.openrouter_api_key,
            openai_api_key=self.openai_api_key,
            xai_api_key=self.xai_api_key,
            ollama_base_url=self.ollama_base_url,
            anthropic_base_url=self.anthropic_base_url,
            openrouter_base_url=self.openrouter_base_url,
            openai_base_url=self.openai_base_url,
            xai_base_url=self.xai_base_url,
            openai_chat_path=self.openai_chat_path,
            openai_api=self.openai_api,
            context_window=self.context_window,
        )

    @property
    def roles(self) -> RoleSettings:
        """Which models speak."""
        return RoleSettings(
            main=self.model,
            fallbacks=self.model_fallbacks,
            batch=self.batch_model,
            vision=self.vision_model,
            choices=self.model_choices,
        )

    @property
    def limits(self) -> Limits:
        """What a turn may spend."""
        return Limits(
            max_steps=self.max_steps,
            max_cost_usd=self.max_turn_usd,
            max_session_day_usd=self.max_session_day_usd,
            max_input_tokens=self.max_turn_input_tokens,
            max_output_tokens=self.max_turn_output_tokens,
        )
