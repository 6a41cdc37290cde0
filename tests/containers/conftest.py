"""The compose project that these suites share, and a client of its gateway.

They need a container engine and the images: `make test-containers` sees to both.
"""

from collections.abc import AsyncGenerator, Generator

import pytest

from minara_gateway.client import GatewayClient
from support.compose import ComposeProject


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--keep-project", action="store_true", help="leave the compose project running"
    )


@pytest.fixture(scope="session")
def one_project(pytestconfig: pytest.Config) -> Generator[ComposeProject]:
    project = ComposeProject.here()
    yield project
    if not pytestconfig.getoption("--keep-project"):
        project.down()


@pytest.fixture
def project(one_project: ComposeProject) -> ComposeProject:
    """The project, up and healthy whatever the test before did to it."""
    if not one_project.is_up():
        one_project.up()
    return one_project


@pytest.fixture
async def client(project: ComposeProject) -> AsyncGenerator[GatewayClient]:
    """The owner's."""
    client = GatewayClient.over_url(project.gateway_url, project.token)
    yield client
    await client.aclose()
