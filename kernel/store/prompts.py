"""`prompts/` of a run: what each call sent to a model, a file each, for people. No run reads them.

The setting `keep_prompts` turns it off.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from kernel import disk
from kernel.asking.responder import Ask
from kernel.document.escaping import to_json
from kernel.document.redaction import redact

FOLDER = "prompts"


def keep_prompt(run: Path, ask: Ask) -> str:
    """Write the prompt of an ask, redacted, into the folder of its run; returns why it is not kept, or "".

    It is not synced to the disk: nothing depends on it.
    """
    parts = {"system": ask.system, "user": ask.user, "tools": "\n".join(map(to_json, ask.tools))}
    text = "\n\n".join(f"<!-- {name} -->\n\n{part}" for name, part in parts.items() if part)
    path = prompt_path(run, ask.key)
    try:
        disk.put(path, f"{redact(text)}\n".encode("utf-8", "replace"), mode=0o600, fsync=False)
    except OSError as error:
        return f"{path.parent}: prompts are not kept: {error.strerror}"
    return ""


def kept_prompt(run: Path, key: str) -> str:
    """The prompt of the ask with this key; "" if none is kept."""
    with suppress(OSError):
        return disk.read(prompt_path(run, key)).decode("utf-8", "replace")
    return ""


def prompt_path(run: Path, key: str) -> Path:
    """The file of the prompt of the ask with this key in the log of calls."""
    return run / FOLDER / f"{key.replace('/', '_')}.md"
