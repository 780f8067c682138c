"""A plain tool loop: one tool, bash, and a conversation that only grows. It needs no package.

`python plain.py TASK URL MODEL` does a task in the current folder, and prints one line of JSON: `answer`,
`status` and `claims` (whether it says that the task is done).
"""

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from typing import Any

TURNS = 80
LONGEST = 12_000
"""Characters of a result; of a longer one the middle is left out."""
SYSTEM = (
    "You do one task in the current folder with the tool bash. Look before you change anything, and test "
    "what you changed. When the task is done, reply without a tool call: this is the answer to the user."
)
BASH = {
    "type": "function",
    "function": {
        "name": "bash",
        "description": "Run a command with bash in the folder, for at most 120 seconds.",
        "parameters": {
            "type": "object",
            "properties": {"command": {"type": "string"}},
            "required": ["command"],
        },
    },
}


def bash(command: str) -> str:
    """What a command prints, and its exit code."""
    try:
        ran = subprocess.run(
            ["bash", "-c", command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=120,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "stopped after 120 seconds"
    return f"{shortened(ran.stdout)}\n[exit code {ran.returncode}]"


def shortened(text: str) -> str:
    """The text, or its two ends if it is too long."""
    if len(text) <= LONGEST:
        return text
    half = LONGEST // 2
    return f"{text[:half]}\n[{len(text) - 2 * half} characters left out]\n{text[-half:]}"


def carried_out(call: dict[str, Any]) -> dict[str, str]:
    """The message with the result of a call; a call of another form is a result, too."""
    function = call["function"]
    try:
        command = json.loads(function["arguments"])["command"]
        result = bash(command) if function["name"] == "bash" else f"there is no tool {function['name']}"
    except (ValueError, KeyError, TypeError) as error:
        result = f"that is no call of bash: {type(error).__name__}: {error}"
    return {"role": "tool", "tool_call_id": call["id"], "content": result}


def asked(url: str, body: dict[str, Any]) -> dict[str, Any]:
    """The message that the model replies with. A server that is busy is asked again, three times."""
    headers = {
        "Content-Type": "application/json",
        "Authorization": f"Bearer {os.environ.get('OPENAI_API_KEY', '')}",
    }
    request = urllib.request.Request(f"{url}/chat/completions", json.dumps(body).encode(), headers)
    for pause in (2, 10, 30, 0):
        try:
            with urllib.request.urlopen(request, timeout=1800) as response:
                return json.load(response)["choices"][0]["message"]
        except urllib.error.HTTPError as error:
            if error.code not in (429, 503) or not pause:
                raise RuntimeError(f"{error.code}: {error.read().decode(errors='replace')[:500]}") from None
            time.sleep(pause)
    raise AssertionError("the last try returns or raises")


def main(task: str, url: str, model: str) -> None:
    """Do the task, and print the outcome."""
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": task},
    ]
    answer, status = "", "turn limit"
    for _ in range(TURNS):
        try:
            reply = asked(url, {"model": model, "messages": messages, "tools": [BASH]})
        except RuntimeError as error:
            answer, status = str(error), "error"
            break
        calls = reply.get("tool_calls") or []
        message = {"role": "assistant", "content": reply.get("content") or ""}
        messages.append({**message, "tool_calls": calls} if calls else message)
        if not calls:
            answer, status = message["content"], "answered"
            break
        messages += [carried_out(call) for call in calls]
    print(json.dumps({"answer": answer, "status": status, "claims": status == "answered"}))


if __name__ == "__main__":
    main(*sys.argv[1:])
