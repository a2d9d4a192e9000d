"""``hatevolution serve``: start a model's server as a run would, or compare it with transformers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from hatevolution.adapters.serving.check import Compared
    from hatevolution.cli._serving import Session

__all__ = ["command"]


@click.command(name="serve")
@click.argument("model")
@click.option("--check", is_flag=True, help="Compare its answers with transformers called directly, then stop it.")
@click.option("--logs", default="hatevolution.servers", metavar="DIR", show_default=True, help="Where the log goes.")
@click.option("--json", "as_json", is_flag=True, help="With --check: print one JSON document on standard output.")
@click.pass_context
def command(ctx: click.Context, model: str, check: bool, logs: str, as_json: bool) -> None:
    """Start a model's server as `run` would, and keep it until Ctrl-C.

    MODEL is the name of a shipped configuration, or the path of a TOML file; its [server] table says how the server is
    started. Where one runs at the model's addresses already, it is used as it is.

    --check sends a few sentences through the whole path (prompt, request, server) and compares them with transformers
    called directly in the same environment: token by token, or probability by probability.

    Exit codes: 0 all is equal, but for ties within the number format; 1 something differs, or the server failed;
    2 wrong usage or configuration; 130 interrupted.
    """
    from hatevolution.cli._serving import Session

    if as_json and not check:
        raise click.UsageError("--json goes with --check.")
    session = Session(model, logs)
    if not check:
        ctx.exit(session.serve())
    compared = session.check()
    if compared is None:
        ctx.exit(1)
    _show(session, compared, as_json=as_json)
    ctx.exit(1 if any(one.verdict == "differs" for one in compared) else 0)


def _show(session: Session, compared: list[Compared], *, as_json: bool) -> None:
    import json
    from collections import Counter

    from hatevolution.inert import one_line

    counts = Counter(one.verdict for one in compared)
    if as_json:
        document = {
            "model": session.model.name,
            "compared": [one._asdict() for one in compared],
            "verdicts": {word: counts[word] for word in ("equal", "tie", "differs", "rejected")},
        }
        click.echo(json.dumps(document, indent=2))
        return
    for one in compared:
        click.echo(f"{one.verdict:8}  {one_line(one.sentence, 50)!r}: {one_line(one.detail)}")
        if one.verdict in ("tie", "differs"):
            click.echo(f"          server:       {one_line(one.server, 200)}")
            click.echo(f"          transformers: {one_line(one.reference, 200)}")
    click.echo(f"{session.model.name}: " + ", ".join(f"{counts[word]} {word}" for word in counts))
