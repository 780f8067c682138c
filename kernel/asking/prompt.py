"""What prompts are made of: the instruction files, and the names of what the runtime tells a loop.

A prompt is derived from the document and the instruction files alone, so that it is the same after a crash.
It contains no time, remaining budget or state of other loops.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kernel.asking.forms import FORMS
from kernel.asking.replies import sketch
from kernel.document.model import Document, Note
from kernel.tools.tool import Catalogue, preamble, section


def cap(weights: Sequence[int], room: int) -> int:
    """The highest cap such that the capped weights fit into the room."""
    levels = range(1, max(weights, default=0) + 1)
    return bisect_right(levels, room, key=lambda level: sum(min(weight, level) for weight in weights))


TRIED = "tried then"
"""The note of an earlier attempt with what was tried before its first step. No prompt shows it."""
FOLDER = "folder"
"""The source of the folder's listing."""
FORM = "Reply in JSON: "
"""What stands before the form of a reply."""
GUIDANCE = "instructions "
"""The source of a file of guidance such as AGENTS.md; its path follows."""
NAMED = "named file "
"""The source of a file that the task names; its path follows."""
MEMORY = "memory"
"""The source of what memory offers; a part of memory follows `: `."""
BACKGROUND = "background"
"""The note of §1 with what a child is told of its parent: the task, and the facts."""
PARENT_TASK = "parent: task"
"""The source of the task of a child's parent."""
NOT_YET = "not yet"
"""The note of §3 with the evidence of what did not hold when a plan, or the responder, was done."""


def found_by_itself(source: str) -> bool:
    """Whether a run finds the context from this source itself: the folder, its files, AGENTS.md, memory."""
    return source in (FOLDER, MEMORY) or source.startswith((f"{MEMORY}: ", GUIDANCE, NAMED))


@dataclass(frozen=True)
class Prompt:
    """The messages of an ask, and the tokens of each part."""

    system: str = ""
    user: str = ""
    parts: tuple[tuple[str, int], ...] = ()
    tools: tuple[Mapping[str, Any], ...] = ()
    """The schemas of the calls that a turn declares."""
    messages: tuple[Mapping[str, Any], ...] = ()
    """The conversation of a turn; then `user` is empty."""

    @property
    def instruction_tokens(self) -> int:
        """Tokens of base, phase, form of the reply and index of tools."""
        return sum(tokens for name, tokens in self.parts if not name.startswith("work"))


def drafted(document: Document) -> bool:
    """Whether a loop uses the drafts of its run. Only child loops do, which tests the drafts."""
    return document.meta.depth > 0


def base(document: Document, phase: str, catalogue: Catalogue) -> str:
    """The beginning of every prompt; without phase files, the beginning of pattern.md."""
    name = "base" if phase == "check" else "turn.base"
    text = catalogue.text(f"phases/{name}.md", drafted=drafted(document))
    return text or preamble(catalogue.text("pattern.md", drafted=drafted(document)))


def form(document: Document, phase: str, catalogue: Catalogue) -> str:
    """The form of the reply in words; without phase files, derived from its schema."""
    words = catalogue.text(f"phases/{phase}.reply.md", drafted=drafted(document))
    return words or sketch(FORMS[phase])


def instructions(document: Document, phase: str, catalogue: Catalogue) -> str:
    """The section of CHECK in the loop's own tool, else the phase's file, else pattern.md's section."""
    tool = catalogue.tools.get(document.meta.type)
    if phase == "check" and tool and tool.guided and (own := tool.section(phase)):
        return f"# CHECK ({tool.name})\n{own}"
    text = catalogue.text(f"phases/{phase}.md", drafted=drafted(document))
    pattern = catalogue.text("pattern.md", drafted=drafted(document))
    return text or section(pattern, phase)


def fact_line(note: Note) -> str:
    """A fact of UNDERSTAND with its source, as prompts show it."""
    return f"- {note.text}" + (f" ({note.source})" if note.source else "")
