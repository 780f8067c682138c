"""`fractal brain substrates`: the problem types that were learned."""

from __future__ import annotations

import json

import click

from runtime.cli.brain_report import shelf_or_none
from runtime.cli.session import json_option, put, tell
from runtime.cli.words import elide, safe, table


@click.command("substrates")
@click.option("--all", "archived", is_flag=True, help="The archived ones too.")
@json_option("Print a list of objects: id, label, origin, members, uses, scope, temperature, used.")
def substrates(archived: bool, as_json: bool) -> None:
    """List the problem types: kinds of task that were learned, the most used first."""
    from runtime.memory.procedural.recognition import ProblemType

    with shelf_or_none() as shelf:
        every = list(shelf.scan(ProblemType)) if shelf else []
    found = [each for each in every if archived or each.origin != "archived"]
    found.sort(key=lambda each: (-each.uses, -each.members, each.id))
    if as_json:
        told = [
            {
                "id": each.id,
                "label": each.label,
                "origin": each.origin,
                "members": each.members,
                "uses": each.uses,
                "scope": round(each.scope, 4),
                "temperature": round(each.temperature, 4),
                "created": each.created,
                "updated": each.updated,
                "used": each.used,
            }
            for each in found
        ]
        put(json.dumps(told, indent=2, ensure_ascii=False))
        return
    if not found:
        tell("no problem type was learned here yet")
        return
    rows = [
        [
            safe(each.id),
            safe(elide(each.label, 40)),
            each.origin,
            str(each.members),
            str(each.uses),
            f"{each.scope:.2f}",
            f"{each.temperature:.2f}",
            safe(each.used or "never"),
        ]
        for each in found
    ]
    heads = ["ID", "LABEL", "ORIGIN", "MEMBERS", "USES", "SCOPE", "TEMPERATURE", "LAST USE"]
    lines = table([heads, *rows])
    click.echo(click.style(lines[0], dim=True))
    for line in lines[1:]:
        click.echo(line)


COMMANDS = (substrates,)
