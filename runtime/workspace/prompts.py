"""`prompts/` of a run: what each call sent to a model, a file each, for people. No run reads them.

A conversation only grows, so the files of its later calls have only the messages that are new, after a line
that names the file with those before. The setting `keep_prompts` turns all of it off.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from kernel import disk
from kernel.asking.messages import Message, calls_of
from kernel.asking.prompt import Prompt
from kernel.asking.responder import Ask
from kernel.document.escaping import to_json
from runtime.secrets.redaction import redact

FOLDER = "prompts"
_FIRST_LINE = re.compile(
    r"<!-- (?P<count>\d+) messages, (?P<digest>[0-9a-f]{16})(; 1 to \d+ are in (?P<file>[\w.-]+\.md))? -->"
)


def keep_prompt(run: Path, ask: Ask) -> str:
    """Write the prompt of an ask, redacted, into the folder of its run; returns why it is not kept, or "".

    It is not synced to the disk: nothing depends on it.
    """
    path = prompt_path(run, ask.key)
    try:
        first, parts = _conversation(path, ask) if ask.messages else ("", _prompt(ask))
        text = first + redact("\n\n".join(parts))
        disk.put(path, f"{text}\n".encode("utf-8", "replace"), mode=0o600, fsync=False)
    except OSError as error:
        return f"{path.parent}: prompts are not kept: {error.strerror}"
    return ""


def kept_prompt(run: Path, key: str) -> str:
    """The whole prompt of the ask with this key, with what earlier files hold of it; "" if none is kept."""
    path, pieces, before = prompt_path(run, key), list[str](), float("inf")
    while text := _read(path):
        first, _, rest = text.partition("\n")
        line = _FIRST_LINE.fullmatch(first)
        pieces.append(rest.lstrip("\n") if line else text)
        if not line or not line["file"] or int(line["count"]) >= before:
            return "\n".join(reversed(pieces))
        path, before = path.with_name(line["file"]), int(line["count"])
    if pieces:
        pieces.append(f"<!-- the messages before are not kept: {path.name} is missing -->\n")
    return "\n".join(reversed(pieces))


def prompt_path(run: Path, key: str) -> Path:
    """The file of the prompt of the ask with this key in the log of calls."""
    return run / FOLDER / f"{key.replace('/', '_')}.md"


def shown_messages(prompt: Prompt) -> list[str]:
    """The messages of a prompt, each as a text for people."""
    two = ({"role": "system", "content": prompt.system}, {"role": "user", "content": prompt.user})
    return [_headed(number, each) for number, each in enumerate(prompt.messages or two, 1)]


def _headed(number: int, message: Message) -> str:
    """A message for people: a line that says which one it is, its content, and its calls as JSON."""
    of = f", result of {message['tool_call_id']}" if "tool_call_id" in message else ""
    calls = [f"{each}: {name} {arguments}" for each, name, arguments in calls_of(message)]
    line = f"<!-- {number} {message['role']}{of} -->"
    images = [
        f"[{each['kind']}, {len(each['data'])} bytes of base64]" for each in message.get("images") or ()
    ]
    return "\n\n".join(filter(None, [line, message.get("content"), *images, *calls]))


def _prompt(ask: Ask) -> list[str]:
    parts = {"system": ask.system, "user": ask.user, "tools": _tools(ask)}
    return [f"<!-- {name} -->\n\n{part}" for name, part in parts.items() if part]


def _conversation(path: Path, ask: Ask) -> tuple[str, list[str]]:
    """The first line, and what no earlier file of this loop has: new messages; tools in the first file."""
    digests = list(_digests(ask))
    before, file = _longest(path, ask.loop, digests)
    said = f"; 1 to {before} are in {file}" if before else ""
    tools = [f"<!-- tools -->\n\n{_tools(ask)}"] if ask.tools and not before else []
    new = [_headed(number, each) for number, each in enumerate(ask.messages, 1) if number > before]
    return f"<!-- {len(digests)} messages, {digests[-1]}{said} -->\n\n", [*tools, *new]


def _tools(ask: Ask) -> str:
    return "\n".join(map(to_json, ask.tools))


def _digests(ask: Ask) -> Iterator[str]:
    """For each message the digest of the conversation up to it, with the tools."""
    running = hashlib.sha256(_tools(ask).encode("utf-8", "surrogatepass"))
    for message in ask.messages:
        running.update(to_json(message).encode("utf-8", "surrogatepass"))
        yield running.hexdigest()[:16]


def _longest(path: Path, loop: str, digests: list[str]) -> tuple[int, str]:
    """How many of these messages, not all, another file of the loop ends with, and its name; or 0."""
    found = (0, "")
    for other in path.parent.glob(f"{loop}_*.md"):
        with suppress(OSError), disk.opened(other) as file:
            line = _FIRST_LINE.fullmatch(file.readline(300).decode("utf-8", "replace").rstrip("\n"))
            count = int(line["count"]) if line else 0
            if line and found[0] < count < len(digests) and digests[count - 1] == line["digest"]:
                found = (count, other.name)
    return found


def _read(path: Path) -> str:
    with suppress(OSError):
        return disk.read(path).decode("utf-8", "replace")
    return ""
