"""The compose project of the container tests: docker-compose.yml as it is, and what one may ask it.

Everything here blocks. The engine and the images are the ones of the environment (`DOCKER_HOST`,
`MINARA_IMAGE`, `POSTGRES_IMAGE`), as scripts/containers/test.sh sets them.
"""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

from support.source import ROOT

PROJECT = "minara-test"
GRPC_SERVICES = ("orchestrator", "tools", "skills", "workspace")
SERVICES = (*GRPC_SERVICES, "gateway")
REPLICAS = 2
UP_SECONDS = 240
TOKEN = "token-of-the-container-tests"

COMPOSE_FILE = "docker-compose.yml"
FILES = (COMPOSE_FILE, "tests/containers/compose.test.yml")

_OURS = f"com.docker.compose.project={PROJECT}"
_OWNERS: Mapping[str, str] = MappingProxyType(
    {name: name for name in SERVICES} | {"paper": "tools"}
)
"""Which role owns a database."""
_KEPT = frozenset({"PATH", "HOME", "LANG", "DOCKER_HOST", "MINARA_IMAGE", "POSTGRES_IMAGE"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ComposeProject:
    """One gateway and two replicas of each gRPC service, on one PostgreSQL."""

    port: int
    database_port: int
    environment: Mapping[str, str]

    @classmethod
    def here(cls, environment: Mapping[str, str] = MappingProxyType({})) -> "ComposeProject":
        """The project as it runs, else on free ports; `environment` adds settings to it."""
        kept = {n: v for n, v in os.environ.items() if n in _KEPT}  # noqa: TID251 - the children's environment is explicit
        port = _published("gateway") or _free_port()
        database_port = _published("postgres") or _free_port()
        passwords = {
            f"{service.upper()}_DATABASE_PASSWORD": password_of(service) for service in SERVICES
        }
        return cls(
            port=port,
            database_port=database_port,
            environment=kept
            | passwords
            | {
                "POSTGRES_PASSWORD": password_of("postgres"),
                "MINARA_HTTP_TOKEN": TOKEN,
                "MINARA_PORT": str(port),
                "MINARA_HEALTH_INTERVAL": "3s",
                "MINARA_TEST_DATABASE_PORT": str(database_port),
            }
            | dict(environment),
        )

    @property
    def gateway_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def token(self) -> str:
        """The owner's bearer token."""
        return TOKEN

    def secrets(self) -> dict[str, str]:
        """Each secret, and the only service that may have it."""
        return {password_of(name): name for name in (*SERVICES, "postgres")} | {TOKEN: "gateway"}

    def database_url(self, database: str) -> str:
        """A database as its owner sees it, from this machine."""
        role = _OWNERS[database]
        place = f"127.0.0.1:{self.database_port}"
        return f"postgresql://{role}:{password_of(role)}@{place}/{database}"

    def compose(
        self, *arguments: str, files: Sequence[str] = FILES, timeout: float = UP_SECONDS
    ) -> str:
        """What docker-compose prints. Raises AssertionError with its complaint when it fails."""
        return _done(
            [
                str(Path(sys.executable).parent / "docker-compose"),
                *("--project-name", PROJECT, "--project-directory", str(ROOT)),
                *(part for file in files for part in ("--file", str(ROOT / file))),
                *arguments,
            ],
            environment=self.environment,
            timeout=timeout,
        )

    def up(self) -> None:
        """Start whatever does not run, and return when every container is healthy."""
        scales = [part for name in GRPC_SERVICES for part in ("--scale", f"{name}={REPLICAS}")]
        self.compose("up", "--detach", "--no-build", "--wait", *scales)

    def is_up(self) -> bool:
        """Whether every container is there and healthy."""
        healthy = [state for state in _listed("{{.Status}}") if "(healthy)" in state]
        return len(healthy) == REPLICAS * len(GRPC_SERVICES) + 2  # the gateway and PostgreSQL

    def down(self, *, with_volumes: bool = True) -> None:
        """Remove its containers and networks, and by default what they have kept."""
        self.compose("down", "--remove-orphans", *(["--volumes"] if with_volumes else []))

    def containers(self, service: str) -> list[str]:
        """The names of a service's containers, running or not."""
        return _containers(service)


def password_of(role: str) -> str:
    """A role's password in the test project: one's password is not another's."""
    return f"test-password-of-{role}"


def inspect(container: str) -> dict[str, Any]:
    """All the engine knows about a container."""
    return cast("dict[str, Any]", json.loads(_done(["docker", "inspect", container]))[0])


def health(container: str) -> str:
    """`starting`, `healthy` or `unhealthy` as long as it runs; else its state, such as `exited`."""
    state = inspect(container)["State"]
    return str(state["Health"]["Status"] if state["Running"] else state["Status"])


def run_in(container: str, *command: str) -> subprocess.CompletedProcess[str]:
    """A command in a running container, as the container's own user; whatever its exit code."""
    return subprocess.run(
        ["docker", "exec", container, *command],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def read_file(container: str, path: str) -> str:
    """A text file in a running container. Raises AssertionError when it cannot be read."""
    reading = "import pathlib, sys; sys.stdout.write(pathlib.Path(sys.argv[1]).read_text('utf-8'))"
    done = run_in(container, "python", "-c", reading, path)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _containers(service: str) -> list[str]:
    return sorted(_listed("{{.Names}}", f"com.docker.compose.service={service}"))


def _listed(shown: str, *labels: str) -> list[str]:
    """A line about each of the project's containers that have these labels."""
    filters = [f"--filter=label={label}" for label in (_OURS, *labels)]
    return _done(["docker", "ps", "--all", f"--format={shown}", *filters]).splitlines()


def _published(service: str) -> int | None:
    """Where a service's container is published, running or not; None without a container."""
    for name in _containers(service):
        for bindings in inspect(name)["HostConfig"]["PortBindings"].values():
            return int(bindings[0]["HostPort"])
    return None


def _done(
    command: list[str], *, environment: Mapping[str, str] | None = None, timeout: float = 60
) -> str:
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
        env=environment,
    )
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
