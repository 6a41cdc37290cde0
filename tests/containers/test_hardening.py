"""What a container may do, seen from inside it, and what of the others it can see."""

import json
from typing import Any

import pytest
from sqlalchemy import exc, text
from sqlalchemy.ext.asyncio import create_async_engine

from support.compose import (
    SERVICES,
    ComposeProject,
    inspect,
    password_of,
    run_in,
)

pytestmark = pytest.mark.timeout(300)

PROCESSES = """
import json, os, pathlib
found = []
for place in pathlib.Path("/proc").glob("[0-9]*"):
    try:  # a health check may come and go meanwhile
        lines = place.joinpath("status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        continue
    process = dict(line.split(":", 1) for line in lines if ":" in line)
    if not process["Name"].strip().startswith("runc:"):  # the runtime's own, about to become one
        found.append(process)
names = ("Name", "Uid", "Gid", "CapEff", "CapPrm", "CapBnd", "NoNewPrivs", "Seccomp")
print(json.dumps([{n: p[n].split() for n in names} for p in found]))
"""
WRITES = """
import json, pathlib
done = []
for folder in ("/", "/etc", "/usr/bin", "/opt/minara", "/opt/minara-own", "/var/tmp", "/data/keys"):
    try:
        pathlib.Path(folder, "written").write_text("x")
    except OSError:
        continue
    done.append(folder)
print(json.dumps(done))
"""
PRIVATE_KEYS = """
import json, os
found = []
skipped = {"/proc", "/sys", "/dev", "/usr", "/opt"}  # of these, nothing is ours to fill
for folder, folders, names in os.walk("/"):
    folders[:] = [f for f in folders if os.path.join(folder, f) not in skipped]
    for name in names:
        path = os.path.join(folder, name)
        try:
            content = open(path, "rb").read(100) if os.path.isfile(path) else b""
        except OSError:
            continue
        if content.startswith(b"-----BEGIN PRIVATE KEY"):
            found.append(path)
print(json.dumps(sorted(found)))
"""
WHAT_SHIPS = """
import importlib.metadata as m, json
print(json.dumps(sorted(d.name.lower() for d in m.distributions())))
"""


def asked(container: str, program: str) -> Any:
    done = run_in(container, "python", "-c", program)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def everyone(project: ComposeProject) -> list[str]:
    return [name for service in SERVICES for name in project.containers(service)]


def test_every_process_is_an_ordinary_user_without_capabilities(project: ComposeProject) -> None:
    for container in everyone(project):
        processes = asked(container, PROCESSES)
        assert any("python" in p["Name"][0] or "minara" in p["Name"][0] for p in processes)
        for process in processes:
            assert set(process["Uid"] + process["Gid"]) == {"10001"}, (container, process)
            for kind in ("CapEff", "CapPrm", "CapBnd"):
                assert int(process[kind][0], 16) == 0, (container, process)
            assert process["NoNewPrivs"] == ["1"], (container, process)


def test_postgres_has_no_capabilities_either(project: ComposeProject) -> None:
    container = project.containers("postgres")[0]
    status = run_in(container, "cat", "/proc/1/status").stdout
    facts = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert facts["Uid"].split() == ["999"] * 4
    assert int(facts["CapEff"], 16) == 0
    assert facts["NoNewPrivs"] == "1"
    assert run_in(container, "touch", "/usr/written").returncode != 0


def test_nothing_but_data_and_scratch_can_be_written(project: ComposeProject) -> None:
    assert {container: asked(container, WRITES) for container in everyone(project)} == {
        container: [] for container in everyone(project)
    }


def test_each_service_holds_its_own_private_keys_alone(project: ComposeProject) -> None:
    for service in SERVICES:
        keys = [f"/data/keys/{service}/{service}.pem"]
        if service == "gateway":
            keys.insert(0, "/data/keys/gateway/gateway-confirmation.pem")
        for container in project.containers(service):
            assert asked(container, PRIVATE_KEYS) == keys


def test_each_service_knows_what_confirmations_are_signed_with(project: ComposeProject) -> None:
    shown = {
        run_in(container, "cat", "/data/keys/gateway/gateway-confirmation.pub").stdout
        for container in everyone(project)
    }
    assert len(shown) == 1
    assert shown.pop().startswith("-----BEGIN PUBLIC KEY-----")


def test_limits_are_set(project: ComposeProject) -> None:
    for container in (*everyone(project), *project.containers("postgres")):
        limits = inspect(container)["HostConfig"]
        assert 0 < limits["Memory"] <= 1024**3
        assert 0 < limits["PidsLimit"] <= 400


@pytest.mark.parametrize("role", ["orchestrator", "skills", "workspace"])
async def test_a_service_cannot_open_the_database_of_another(
    project: ComposeProject, role: str
) -> None:
    for other in {*SERVICES, "paper", "postgres", "template1"} - {role}:
        with pytest.raises(exc.DBAPIError, match="permission denied for database"):
            await count(project, role, password_of(role), other)


@pytest.mark.parametrize("role", ["gateway", "tools", "postgres"])
async def test_no_role_lets_another_ones_password_in(project: ComposeProject, role: str) -> None:
    with pytest.raises((exc.DBAPIError, OSError), match="password authentication failed"):
        await count(project, role, password_of("orchestrator"), role)


async def test_a_service_can_open_its_own_database(project: ComposeProject) -> None:
    for role in SERVICES:
        assert await count(project, role, password_of(role), role) == 1


async def count(project: ComposeProject, role: str, password: str, database: str) -> int:
    place = f"127.0.0.1:{project.database_port}/{database}"
    engine = create_async_engine(f"postgresql+asyncpg://{role}:{password}@{place}")
    try:
        async with engine.connect() as connection:
            return int((await connection.execute(text("SELECT 1"))).scalar_one())
    finally:
        await engine.dispose()


def test_the_image_holds_what_ships_and_nothing_for_development(project: ComposeProject) -> None:
    container = project.containers("tools")[0]
    shipped = set(asked(container, WHAT_SHIPS))
    assert {"minara-gateway", "minara-tools", "grpcio"} <= shipped
    assert not shipped & {"pytest", "ruff", "pyright", "hypothesis", "uv", "grpcio-tools"}
    found = run_in(container, "python", "-c", "import support")
    assert "ModuleNotFoundError" in found.stderr
