"""`minara goal`: the standing goal of a session."""

from typing import Annotated, Any
from urllib.parse import quote

import typer

from minara_gateway.cli_ends import JsonFlag, run, settings_or_end
from minara_gateway.cli_talk import call, tell
from minara_gateway.goals_view import describe_goal

app = typer.Typer(no_args_is_help=True, help="The standing goal of a session.")

SessionId = Annotated[str, typer.Argument(help="The session, as /sessions in the chat lists it.")]


@app.command()
def show(session: SessionId, as_json: JsonFlag = False) -> None:
    """What the session is to reach, and where that stands."""
    _ask("GET", session, "", None, as_json=as_json)


@app.command("set")
def set_goal(
    session: SessionId,
    text: Annotated[str, typer.Argument(help="What is to be reached.")],
    max_turns: Annotated[int, typer.Option(help="Turns it may use; 0 for the default.")] = 0,
    subgoal: Annotated[list[str] | None, typer.Option(help="A part of it; repeatable.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Set a goal. `/goal go` in the chat works on it."""
    body = {"text": text, "max_turns": max_turns, "subgoals": subgoal or []}
    _ask("POST", session, "", body, as_json=as_json)


@app.command()
def pause(session: SessionId, as_json: JsonFlag = False) -> None:
    """Let no turn work on it until it is resumed."""
    _ask("POST", session, ":pause", {}, as_json=as_json)


@app.command()
def resume(session: SessionId, as_json: JsonFlag = False) -> None:
    """Work on it again, with all its turns."""
    _ask("POST", session, ":resume", {}, as_json=as_json)


@app.command()
def clear(session: SessionId, as_json: JsonFlag = False) -> None:
    """Forget it."""
    _ask("POST", session, ":clear", {}, as_json=as_json)


def _ask(
    method: str, session: str, step: str, body: dict[str, Any] | None, *, as_json: bool
) -> None:
    path = f"/v1/sessions/{quote(session, safe='')}/goal{step}"
    answer = run(call(settings_or_end(), method, path, body))
    tell(answer, describe_goal(answer), as_json=as_json)
