"""`/metrics` as Prometheus reads it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

import httpx

_SAMPLE = re.compile(r"([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True)
class Scrape:
    """What `/metrics` said: every sample by its name, its labels and its value."""

    samples: tuple[tuple[str, Mapping[str, str], float], ...]

    def of(self, name: str, **labels: str) -> float:
        """The sum of the samples of a name with these labels; fails when there is none."""
        found = [
            value
            for sample, has, value in self.samples
            if sample == name and labels.items() <= has.items()
        ]
        assert found, f"{name} {labels} not among {sorted({name for name, _, _ in self.samples})}"
        return sum(found)

    def labels(self) -> set[str]:
        return {value for _, has, _ in self.samples for value in has.values()}


async def fetch(port: int, path: str = "/metrics") -> httpx.Response:
    async with httpx.AsyncClient(trust_env=False) as http:
        return await http.get(f"http://127.0.0.1:{port}{path}")


def parsed(text: str) -> Scrape:
    samples: list[tuple[str, Mapping[str, str], float]] = []
    for line in text.splitlines():
        if not line.startswith("#"):
            match = _SAMPLE.fullmatch(line)
            assert match, line
            samples.append((match[1], dict(_LABEL.findall(match[2] or "")), float(match[3])))
    return Scrape(tuple(samples))


async def scrape(port: int) -> Scrape:
    """What the process that answers at `port` says now."""
    return parsed((await fetch(port)).text)
