"""Fractal itself, as a person calls it: TASK REPLY SETTINGS APPROVE.

SETTINGS are variables of its environment, as JSON. APPROVE is an option for what asks to be approved: `--yes`
or nothing.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

FRACTAL = [sys.executable, "-P", "-m", "fractal"]
"""Not `-m` alone: the folder may have packages with the names of Fractal's own."""


def run(*args: str) -> dict[str, Any]:
    """The last event of a `fractal` command."""
    command = [*FRACTAL, *args, "--json"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = [line for line in ran.stdout.splitlines() if line.startswith("{")]
    if not lines:
        raise SystemExit(ran.stderr[-2000:])
    return json.loads(lines[-1])["data"]


def main(task: str, reply: str, settings: str, approve: str = "--yes") -> None:
    """Do the task; answer the first question with the person's reply."""
    os.environ.update(json.loads(settings))
    options = [approve] if approve else []
    data = run("run", *options, task)
    if data.get("question") and reply:
        subprocess.run(
            [*FRACTAL, "answer", data["path"].split("/")[-2], reply],
            capture_output=True,
            check=False,
        )
        data = run("resume", *options)
    if "spent" not in data:  # the run ended with an error
        raise SystemExit(str(data.get("error") or data)[-2000:])
    spent = data["spent"]
    used = {key: spent.get(key, 0) for key in ("calls", "prompt_tokens", "completion_tokens")}
    answer = data["output"] or data["question"] or data["reason"]
    status = data["status"]
    attempt = re.search(r"(?m)^attempt: (\d+)", Path(data["path"]).read_text("utf-8"))
    used["attempt"] = int(attempt[1]) if attempt else 1
    told = {"answer": answer, "status": status, "claims": status == "complete", "path": data["path"]}
    print(json.dumps({**told, **used}))


if __name__ == "__main__":
    main(*sys.argv[1:])
