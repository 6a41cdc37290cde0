"""What the compose file says before anything runs."""

import json

import pytest

from support.compose import COMPOSE_FILE, ComposeProject
from support.source import ROOT

REQUIRED = (
    "MINARA_HTTP_TOKEN",
    "POSTGRES_PASSWORD",
    "TOOLS_DATABASE_PASSWORD",
    "GATEWAY_DATABASE_PASSWORD",
)
WATCHING = {"collector", "jaeger", "prometheus", "grafana"}


@pytest.mark.parametrize("name", REQUIRED)
def test_a_required_variable_that_is_unset_is_named(name: str) -> None:
    project = ComposeProject.here(environment={name: ""})
    with pytest.raises(AssertionError, match=f"required variable {name} is missing"):
        project.compose("config", "--quiet")


def test_no_service_gets_the_secret_of_another() -> None:
    project = ComposeProject.here()
    services = json.loads(project.compose("config", "--format", "json", files=[COMPOSE_FILE]))
    for name, service in services["services"].items():
        if name == "postgres":
            continue
        said = json.dumps(service.get("environment") or {})
        for secret, owner in project.secrets().items():
            assert (secret in said) is (owner == name), (name, owner)


def test_watching_is_asked_for_and_its_files_are_there() -> None:
    project = ComposeProject.here(environment={"COMPOSE_PROFILES": "observability"})
    services = json.loads(project.compose("config", "--format", "json"))["services"]
    assert services.keys() >= WATCHING
    mounted = [v for name in WATCHING for v in services[name].get("volumes", [])]
    sources = [v["source"] for v in mounted if v["type"] == "bind"]
    assert len(sources) == 5
    assert all((ROOT / source).is_file() for source in sources)
    plain = json.loads(ComposeProject.here().compose("config", "--format", "json"))["services"]
    assert not plain.keys() & WATCHING
