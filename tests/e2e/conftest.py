"""The suite runs once on each deployment that `--deployments` names.

A test asks for `minara`, a person in the deployment, or for `minara_factory` when that person needs
more. `@pytest.mark.only("embedded", reason=…)` keeps a test where it can run at all.
"""

import base64
from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from minara_core.taxonomy import Origin
from minara_runtime.keys import KeyPair, generate
from minara_runtime.settings import TrustedIssuer
from support.deployments import COMPOSE, EMBEDDED, KNOWN, Deployments, MinaraFactory, persons_of
from support.minara import Minara
from support.nursery import Nursery

TOOL_SETS = ("read", "trade")
"""What the partner may use."""


def chosen(config: pytest.Config) -> list[str]:
    """The deployments of this run."""
    return str(config.getoption("--deployments")).split(",")


def pytest_configure(config: pytest.Config) -> None:
    unknown = set(chosen(config)) - set(KNOWN)
    if unknown:
        raise pytest.UsageError(f"--deployments knows {', '.join(KNOWN)}, not {unknown}")
    if COMPOSE in chosen(config) and hasattr(config, "workerinput"):
        raise pytest.UsageError("there is one compose project: run it in one process, without -n")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "deployment" not in metafunc.fixturenames:
        return
    only = metafunc.definition.get_closest_marker("only")
    names = [name for name in chosen(metafunc.config) if only is None or name in only.args]
    if not names:
        assert only is not None
        why = pytest.mark.skip(reason=f"only {', '.join(only.args)}: {only.kwargs['reason']}")
        metafunc.parametrize(
            "deployment", [pytest.param(only.args[0], marks=why)], indirect=True, scope="module"
        )
        return
    metafunc.parametrize("deployment", names, indirect=True, scope="module")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What starts a Minara of its own runs once, and not when only others are asked for."""
    if EMBEDDED in chosen(config):
        return
    own = Path(__file__).parent
    for item in items:
        is_ours = item.path.is_relative_to(own)
        if is_ours and "deployment" not in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.skip(reason="it starts processes of its own"))


@pytest.fixture(scope="module")
def deployment(request: pytest.FixtureRequest) -> str:
    """The name of the deployment that this run of the test is about."""
    return request.param


@pytest.fixture(scope="session")
def partner() -> KeyPair:
    """The key of an internal gRPC client that every installation trusts."""
    return generate("partner")


@pytest.fixture(scope="session")
def deployments(
    tmp_path_factory: pytest.TempPathFactory, nursery: Nursery, worker_id: str, partner: KeyPair
) -> Generator[Deployments]:
    own = tmp_path_factory.getbasetemp()
    der = partner.public_key.public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    issuer = TrustedIssuer(
        kid=partner.kid,
        public_key=base64.b64encode(der).decode("ascii"),
        origins=(Origin.HTTP,),
        tool_sets=TOOL_SETS,
        ceiling=3,
    )
    shelf = Deployments(
        tmp_path_factory.mktemp("deployments"),
        nursery,
        own if worker_id == "master" else own.parent,
        issuer,
    )
    yield shelf
    shelf.close()


@pytest.fixture
async def minara_factory(
    deployment: str, deployments: Deployments, tmp_path: Path
) -> AsyncGenerator[MinaraFactory]:
    async with persons_of(deployment, deployments, tmp_path) as factory:
        yield factory


@pytest.fixture
async def minara(minara_factory: MinaraFactory) -> Minara:
    return await minara_factory()
