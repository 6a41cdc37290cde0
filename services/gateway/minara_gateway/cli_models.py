"""`minara model`: which models answer, and which one is to answer you."""

from typing import Annotated

import typer

from minara_gateway.cli_ends import JsonFlag, run, settings_or_end
from minara_gateway.cli_talk import call, tell
from minara_gateway.models_view import describe_choice, describe_models

app = typer.Typer(help="Which models answer.")


@app.callback(invoke_without_command=True)
def models_command(context: typer.Context, as_json: JsonFlag = False) -> None:
    """Without a command: show them."""
    if context.invoked_subcommand is None:
        list_models(as_json=as_json)


@app.command("list")
def list_models(
    provider: Annotated[str, typer.Argument(help="Ask this provider for all it has.")] = "",
    as_json: JsonFlag = False,
) -> None:
    """The models of each role and those you may choose, or all that a provider lists."""
    if provider:
        answer = run(call(settings_or_end(), "GET", f"/v1/models/{provider}"))
        tell(answer, answer["names"], as_json=as_json)
    else:
        answer = run(call(settings_or_end(), "GET", "/v1/models"))
        tell(answer, list(describe_models(answer)), as_json=as_json)


@app.command()
def use(
    model: Annotated[str, typer.Argument(help="Such as openai or ollama:qwen3:8b.")],
    as_json: JsonFlag = False,
) -> None:
    """Choose who answers you from the next turn on, after it has answered one word."""
    answer = run(call(settings_or_end(), "PUT", "/v1/models/chosen", {"model": model}))
    tell(answer, [describe_choice(answer)], as_json=as_json)


@app.command()
def forget(as_json: JsonFlag = False) -> None:
    """Go back to the configured order."""
    answer = run(call(settings_or_end(), "PUT", "/v1/models/chosen", {"model": ""}))
    tell(answer, [describe_choice(answer)], as_json=as_json)
