"""What the orchestrator reads from the environment."""

from pydantic import Field

from minara_runtime.settings import Settings


class OrchestratorSettings(Settings):
    """`MINARA_…` variables; provider keys keep the names their owners gave them."""

    orchestrator_database_url: str | None = None
    model: str | None = None
    max_steps: int = Field(default=25, ge=1, le=100)
    anthropic_api_key: str | None = Field(default=None, validation_alias="ANTHROPIC_API_KEY")
    openrouter_api_key: str | None = Field(default=None, validation_alias="OPENROUTER_API_KEY")
    openai_api_key: str | None = Field(default=None, validation_alias="OPENAI_API_KEY")
    xai_api_key: str | None = Field(default=None, validation_alias="XAI_API_KEY")
    ollama_base_url: str | None = Field(default=None, validation_alias="OLLAMA_BASE_URL")
    openai_base_url: str | None = None
    openai_chat_path: str | None = None
