"""`fractal model`: who answers, and how fast."""

from __future__ import annotations

import asyncio
import os
from dataclasses import asdict
from typing import Any

import click

from kernel.asking.responder import Questioner, Responder
from kernel.errors import FractalError
from runtime.cli.output import Columns, emit, notify, print_table, put, wants_json
from runtime.cli.session import json_option, model_option, opened
from runtime.models.ladder import KEYS


@click.command()
@click.option("--try", "tries", is_flag=True, help="Put short questions to each model and measure its speed.")
@model_option
@json_option("Print an object.")
def model(tries: bool, **settings: Any) -> None:
    """Show who answers, in which form, with which context, at which price; with --try, how fast.

    A form is how a model is asked: micro (small questions, for small models), native (turn by turn, with
    tool calls in the provider's own form), or json (turn by turn, with calls as text).
    """
    fractal = opened(**settings)
    rows = [_row(rung) for rung in fractal.ladder]
    for rung, row in zip(fractal.ladder, rows, strict=True):
        if tries and rung.reads_prompt and not rung.patient:
            from runtime.models.speed import speed

            if not wants_json():
                notify(f"trying {rung.name} …")
            try:
                row |= asdict(asyncio.run(speed(rung)))
            except FractalError as error:
                row["error"] = str(error)
    source = fractal.sources["ladder" if fractal.config.ladder else "model"]
    key = next((key for key in KEYS if os.environ.get(key)), "") if source == "default" else ""
    source = f"{key} in the environment" if key else source
    emit({"ladder": rows, "source": source})
    names = ("rung", "tier", "form", "context", "context_by", "price")
    shown: Columns = {
        name.replace("_", " ").upper(): lambda row, name=name: _cell(row[name]) for name in names
    }
    print_table(shown, rows)
    put(f"set by: {source}")
    for row in rows:
        if "first_seconds" in row:
            put(
                f"{row['rung']}: first reply after {row['first_seconds']} s; "
                f"reads {row['prompt_per_second']} and writes {row['reply_per_second']} tokens per second; "
                f"{row['megabytes']} MB"
            )
        if "error" in row:
            put(f"{row['rung']}: {row['error']}")


def _row(rung: Responder) -> dict[str, Any]:
    form = "json" if rung.reads_prompt else "-"
    form = "native" if rung.takes_tools else form
    form = "micro" if isinstance(rung, Questioner) else form
    rung.ask_window()
    known = rung.reads_prompt
    context = {"context": rung.window if known else None, "context_by": rung.window_source if known else None}
    return {"rung": rung.name, "tier": rung.tier, "form": form, **context, "price": _price(rung)}


def _cell(value: str | int | None) -> str:
    return f"{value:,}" if isinstance(value, int) else value or "-"


def _price(rung: Responder) -> str:
    price = rung.price
    if price is None:
        return "unknown"
    amounts = [getattr(price, name, 0.0) for name in ("prompt", "completion")]
    return f"${amounts[0]:g} / ${amounts[1]:g} per million tokens" if any(amounts) else "free"
