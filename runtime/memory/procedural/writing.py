"""A method as markdown, in the format of the shipped reflexes: for the matcher, and for people to correct."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from runtime.memory.procedural.likeness import Common, Wording

EXAMPLES = 8
"""Exemplars that are shown in a file."""
NOT_THESE = 5
FINISHED = {"step": 1, "has": "."}
"""What shows success where the exemplars have no criterion in common that code can decide: some result."""
STATUS: Mapping[str, str] = {"steps": "active", "template": "template", "exemplar": "example"}
"""Only `active` files are matched; the others are for who reads them, and for a model's context."""
_STATUS = re.compile(r"(?m)^status:.*$")
_END = re.compile(r"(?ms)\A(---[ \t]*\n.*?)(^---[ \t]*$)")


class Wordings(Protocol):
    """How a task is written as a phrasing."""

    def wording(self, task: str, start: int, end: int, holes: Sequence[tuple[int, int, str]]) -> str | None:
        """None where the format has no way to write it."""
        ...


def phrasing(found: Wording, common: Common, wordings: Wordings, *, whole: bool = False) -> str | None:
    """The phrasing of one exemplar, with its courtesies or without.

    The kind of a slot stands there where it is another than elsewhere.
    """
    declared = {slot.name: slot.kind for slot in common.slots}
    holes = [
        (h.start, h.end, f"{{{h.slot}}}" if declared[h.slot] == h.kind else f"{{{h.slot}:{h.kind}}}")
        for h in found.holes
    ]
    task = found.exemplar.task
    return wordings.wording(task, 0 if whole else found.start, len(task) if whole else found.end, holes)


def markdown(
    name: str,
    common: Common,
    phrasings: Sequence[str],
    shown: Sequence[Wording],
    others: Sequence[str],
    status: str = "",
) -> str:
    """The file of a method; `shown` are its exemplars, `others` tasks that look like them and are none."""
    last = len(common.steps)
    head: dict[str, Any] = {"name": name, "description": description(phrasings[0])}
    head["phrasings"] = "".join(f"{each}\n" for each in phrasings)
    if common.slots:
        head["slots"] = {slot.name: slot.kind for slot in common.slots}
    head["steps"] = [
        {"tool": step["tool"], **({"args": step["args"]} if step.get("args") else {})}
        for step in common.steps
    ]
    head["success"] = list(common.success) or [{**FINISHED, "step": last}]
    if common.output:
        head["output"] = common.output
    head["status"] = status or STATUS[common.kind]
    head["origin"] = "learned"
    return f"---\n{_yaml(head)}---\n{_body(common, shown, others)}"


def description(phrase: str) -> str:
    """What a method does, in one line: its first phrasing with its slots left open."""
    text = re.sub(r"\s+([,.;:?!])", r"\1", re.sub(r"\{[^{}]*\}", "…", phrase))
    return text if len(text) <= 100 else f"{text[:99].rstrip()}…"


def switched(text: str, status: str) -> str:
    """A file with another status; everything else stands as it was."""
    if not (head := _END.match(text)):
        return text
    front = head[1]
    line = f"status: {status}"
    front = _STATUS.sub(lambda _: line, front, count=1) if _STATUS.search(front) else f"{front}{line}\n"
    return front + text[head.end(1) :]


def _body(common: Common, shown: Sequence[Wording], others: Sequence[str]) -> str:
    lines = [f"# {_title(shown[0], common)}", "", _told(common, len(shown)), "", "## Examples", ""]
    lines += ["| you say | it reads |", "| --- | --- |"]
    for each in shown[:EXAMPLES]:
        reads = ", ".join(dict.fromkeys(f"{h.slot} = {_value(each, h.start, h.end)}" for h in each.holes))
        lines.append(f"| {_cell(each.exemplar.task)} | {_cell(reads)} |")
    if others:
        lines += ["", "## Not these", "", *(f"- {_line(other)}" for other in others[:NOT_THESE])]
    return "\n".join(lines) + "\n"


def _told(common: Common, runs: int) -> str:
    if common.kind == "steps":
        return (
            f"Learned from {runs} solved tasks. Correct this file as you like: once it is changed, it is "
            "not written again. `status: off` switches it off; when you delete it, it does not come back."
        )
    steps = "; ".join(
        f"{n}. {step['tool']} {_args(step.get('args') or {})}" for n, step in enumerate(common.steps, 1)
    )
    if common.kind == "template":
        return f"Tasks like these were solved in these steps, where … was worked out each time: {steps}"
    return f"Tasks like these were solved with the same tools; the best of them like this: {steps}"


def _args(args: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} = {_line(str(value))[:200]}" for key, value in args.items())


def _title(first: Wording, common: Common) -> str:
    text = first.exemplar.task[first.start : first.end]
    for hole in reversed(first.holes):
        begin, end = hole.start - first.start, hole.end - first.start
        text = f"{text[:begin]}…{text[end:]}"
    text = _line(text)
    return f"{text[:1].upper()}{text[1:80]}"


def _value(wording: Wording, start: int, end: int) -> str:
    return wording.exemplar.task[start:end].strip("\"“”`'").removesuffix("'s")


def _line(text: str) -> str:
    return " ".join(text.split())


def _cell(text: str) -> str:
    return _line(text).replace("|", "\\|")


def _yaml(head: Mapping[str, Any]) -> str:
    """Frontmatter as people write it: phrasings in a block, arguments each in one line."""
    import yaml

    class Dumper(yaml.SafeDumper):
        def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
            super().increase_indent(flow, False)

    class Block(str):
        pass

    class Flow(dict[str, Any]):
        pass

    Dumper.add_representer(
        str,
        lambda dumper, data: dumper.represent_scalar(
            "tag:yaml.org,2002:str", data, style='"' if "\n" in data else None
        ),
    )
    Dumper.add_representer(
        Block, lambda dumper, data: dumper.represent_scalar("tag:yaml.org,2002:str", str(data), style="|")
    )
    Dumper.add_representer(
        Flow,
        lambda dumper, data: dumper.represent_mapping("tag:yaml.org,2002:map", dict(data), flow_style=True),
    )
    made = dict(head)
    made["phrasings"] = Block(made["phrasings"])
    made["steps"] = [
        {key: Flow(value) if isinstance(value, dict) else value for key, value in step.items()}
        for step in made["steps"]
    ]
    made["success"] = [Flow(each) for each in made["success"]]
    if "slots" in made:
        made["slots"] = Flow(made["slots"])
    return yaml.dump(made, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=10**6)
