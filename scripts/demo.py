"""Drive the chat in a pseudo-terminal, without any key: price, purchase, portfolio, trace.

Everything runs in a throwaway data folder, on simulated prices and the paper venue. Exits 0 only if
each step showed what it must.
"""

import os
import re
import sys
import tempfile
from pathlib import Path

import pexpect

MINARA = Path(sys.executable).parent / "minara"
PROMPT = "you> "
STEP_SECONDS = 30
KEYS = ("ANTHROPIC_API_KEY", "OPENROUTER_API_KEY", "OPENAI_API_KEY", "XAI_API_KEY")


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="minara-demo-", ignore_cleanup_errors=True) as folder:
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("MINARA_") and name not in KEYS
        }
        environment |= {"MINARA_DATA_DIR": folder, "TERM": "dumb", "HOME": folder}
        terminal: pexpect.spawn[str] = pexpect.spawn(
            str(MINARA),
            ["chat"],
            env=environment,
            cwd=folder,
            encoding="utf-8",
            timeout=STEP_SECONDS,
            dimensions=(50, 160),
        )
        terminal.logfile_read = sys.stdout
        try:
            talk(terminal)
        except (pexpect.TIMEOUT, pexpect.EOF) as error:
            sys.exit(f"\nthe demo did not show what it must: {type(error).__name__}")
        finally:
            terminal.close(force=True)
        print("\nthe demo showed all it must")


def talk(terminal: "pexpect.spawn[str]") -> None:
    """The conversation, and what each line must bring."""
    say(terminal, None, expect=["offline", "simulated", "paper"])
    say(terminal, "price of BTC", expect=["get_price", r"BTC[^\n]*\d", "simulated"])
    say(terminal, "buy $50 of ETH", expect=["PAPER", "nothing was executed", "50 USDC"])
    say(terminal, "yes", expect=["PAPER", "executed", r"bought 0\.\d+ ETH"])
    say(terminal, "my portfolio", expect=["get_portfolio", "ETH"])
    say(terminal, "/trace", expect=["trace [0-9a-f]{32}", "RunTurn", "ExecuteTools"])
    terminal.sendline("/quit")
    terminal.expect(pexpect.EOF)


def say(terminal: "pexpect.spawn[str]", line: str | None, *, expect: list[str]) -> None:
    """Send a line, wait for the next prompt, and look for each pattern in what came between."""
    if line is not None:
        terminal.sendline(line)
        terminal.expect_exact(line)
    terminal.expect_exact(PROMPT)
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", str(terminal.before or ""))
    for pattern in expect:
        if re.search(pattern, shown) is None:
            sys.exit(f"\nafter {line!r} the demo must show {pattern!r}")


if __name__ == "__main__":
    main()
