"""A tool with states: a till that is opened, paid into and closed. It logs to log.txt if that exists."""

from __future__ import annotations

from pathlib import Path
from typing import Any

TILL = """---
name: till
description: "a till: action open (who), pay (amount), close"
args:
  action: {type: string, enum: [open, pay, close]}
  who: {type: string}
  amount: {type: integer}
required: [action]
run: "command: ./till.py"
effects: [%s]
idempotent: %s
timeout: 20
states:
  by: action
  start: closed
  moves:
    closed: {open: opened}
    opened: {pay: opened, close: closed}
sample: {task: open the till, args: {action: open}, shows: "^open by nobody"}
status: active
origin: designed
---
One after the other.
"""
PROGRAM = """import json, os, signal, sys, time
call = json.load(sys.stdin)
kept = call["kept"]
fatal = os.path.exists("die-" + call["action"])
if call.get("amount", 0) < 0:
    print(json.dumps({"error": "nothing can be taken out"}))
    sys.exit(0)
time.sleep(call.get("amount", 0) / 1000 if call["action"] == "pay" else 0)
if os.path.exists("log.txt"):  # not in its sample
    with open("log.txt", "a") as log:
        log.write(call["action"] + " " + str(call.get("amount", "")) + "\\n")
if fatal:
    os.unlink("die-" + call["action"])
    os.kill(os.getppid(), signal.SIGKILL)
reply = {"result": call["action"] + " by " + kept.get("who", "nobody") + ", sum " + str(kept.get("sum", 0))}
if call["action"] == "open":
    reply["keep"] = {"who": call.get("who", "nobody"), "sum": 0}
elif call["action"] == "pay":
    reply["keep"] = {**kept, "sum": kept["sum"] + call["amount"]}
print(json.dumps(reply))
"""


def till(workspace: Path, effects: str = "write", *, idempotent: bool = False) -> None:
    """Put the till into a workspace; its log is `log.txt` in the folder."""
    folder = workspace / "system" / "tools" / "till"
    folder.mkdir(parents=True, exist_ok=True)
    (workspace / "fractal.yaml").touch()
    (workspace / "log.txt").touch()
    (folder / "pattern.md").write_text(TILL % (effects, str(idempotent).lower()), "utf-8")
    (folder / "till.py").write_text(PROGRAM, "utf-8")


def call(action: str, needs: list[int] | None = None, **args: Any) -> dict[str, Any]:
    """A step that calls the till."""
    step: dict[str, Any] = {"tool": "till", "args": {"action": action, **args}}
    return step if needs is None else {**step, "needs": needs}


def logged(workspace: Path) -> list[str]:
    """The calls that the till has executed."""
    path = workspace / "log.txt"
    return [line.strip() for line in path.read_text("utf-8").splitlines()] if path.exists() else []
