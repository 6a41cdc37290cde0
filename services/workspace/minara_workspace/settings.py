"""What the workspace reads from the environment."""

from pathlib import Path

from pydantic import Field

from minara_runtime.settings import Settings


class WorkspaceSettings(Settings):
    """`workspace_dir` is the single user's folder; the switch keeps the specification's name."""

    workspace_database_url: str | None = None
    workspace_dir: Path | None = None
    heartbeat_enabled: bool = Field(default=True, validation_alias="WORKSPACE_HEARTBEAT_ENABLED")
