"""A plain tool loop: every turn one JSON call under a grammar, with the whole history."""

import json
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

TURNS = 12
SYSTEM = """You do a task with files in the current folder. Every turn answer with one JSON object:
{"tool": "bash", "args": {"command": "..."}} runs a shell command
{"tool": "read", "args": {"path": "..."}} reads a file
{"tool": "write", "args": {"path": "...", "content": "..."}} writes a whole file
{"tool": "done", "args": {"answer": "..."}} ends with the answer to the user"""


def call(tool: str, args: dict[str, Any]) -> str:
    """Carry out one call; errors are results."""
    try:
        if tool == "read":
            return Path(args["path"]).read_text()[:6000]
        if tool == "write":
            Path(args["path"]).parent.mkdir(parents=True, exist_ok=True)
            Path(args["path"]).write_text(args["content"])
            return f"wrote {args['path']}"
        if tool == "bash":
            ran = subprocess.run(
                ["bash", "-c", args["command"]], capture_output=True, text=True, timeout=30, check=False
            )
            return f"{(ran.stdout + ran.stderr)[-3000:]}\n[exit {ran.returncode}]"
        return f"there is no tool {tool}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def main(task: str, url: str, model: str, _seconds: str) -> None:
    """Do the task; print the outcome."""
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": task}]
    used = {"calls": 0, "prompt_tokens": 0, "completion_tokens": 0}
    answer, claims = "", False
    for _ in range(TURNS):
        body = {"model": model, "messages": messages, "temperature": 0.0, "max_tokens": 1500}
        body["response_format"] = {"type": "json_object"}
        request = urllib.request.Request(
            f"{url}/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=600) as response:
            reply = json.load(response)
        used["calls"] += 1
        for key in ("prompt_tokens", "completion_tokens"):
            used[key] += reply["usage"][key]
        text = reply["choices"][0]["message"]["content"]
        messages.append({"role": "assistant", "content": text})
        try:
            asked = json.loads(text)
            tool, args = asked["tool"], asked.get("args") or {}
        except (ValueError, KeyError, TypeError) as error:
            messages.append({"role": "user", "content": f"That was no call: {error}"})
            continue
        if tool == "done":
            answer, claims = str(args.get("answer", "")), True
            break
        messages.append({"role": "user", "content": f"Result:\n{call(tool, args)}"})
    print(json.dumps({"answer": answer, "claims": claims, **used}))


if __name__ == "__main__":
    main(*sys.argv[1:])
