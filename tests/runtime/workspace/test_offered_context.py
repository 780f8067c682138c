"""Context that memory offers: noted in §1 by part, once per loop, and not passed to children."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from playing import ACCEPT, Played, plan

from kernel.asking.messages import prompt_text
from kernel.asking.prompt import found_by_itself
from kernel.asking.responder import Ask, Ladder
from kernel.document.model import Document
from runtime.api.fractal import Fractal
from runtime.memory.run_memory import RunMemory
from runtime.models.scripted import Scripted


class FixedMemory(RunMemory):
    """A memory that offers the same for every task."""

    times = 0

    def notes_for(self, document: Document) -> Sequence[tuple[str, str]]:
        self.times += 1
        return (
            ("facts and files", "- a.txt (run x)"),
            ("patterns", "- ask AKIAIOSFODNN7EXAMPLE (patterns/p.md)"),
        )


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("folder", True),
        ("instructions ../AGENTS.md", True),
        ("memory", True),
        ("memory: facts and files", True),
        ("memory.txt", False),
        ("run abc", False),
        ("", False),
    ],
)
def test_sources_found_by_the_run_are_recognized(source: str, found: bool) -> None:
    assert found_by_itself(source) is found


def with_retry(folder: Any, prompts: list[str]) -> Fractal:
    """A run whose first attempt is rejected; `prompts` collects what the model sees."""

    def answer(ask: Ask) -> Any:
        prompts.append(prompt_text(ask))
        if ask.phase == "check" and ask.attempt == 1:
            return {**ACCEPT, "decision": "RETRY", "validation": "fail", "learned": "look again"}
        return ACCEPT if ask.phase == "check" else plan({"tool": "list", "args": {}})

    return Fractal(folder, settings={"sandbox": "off"}, ladder=Ladder((Scripted(answer),)))


async def test_memory_is_queried_once_per_loop_and_noted_by_part(
    tmp_path: Any,
) -> None:
    prompts: list[str] = []

    fractal = with_retry(tmp_path, prompts)
    memory = FixedMemory(fractal.workspace, fractal.config, fractal.systems, fractal._files)
    fractal.__dict__["memory"] = memory
    result = await fractal.run("look")
    notes = [n for n in fractal.root_document(result.run).section(1).notes if n.origin == "tool:memory"]
    assert [(note.key, note.source) for note in notes] == [
        ("context", "memory: facts and files"),
        ("context", "memory: patterns"),
    ]
    assert memory.times == 1
    assert "## From memory: facts and files\n```\n- a.txt (run x)\n```" in prompts[0]
    assert "AKIAIOSFODNN7EXAMPLE" not in "".join(prompts)
    again = [prompt for prompt in prompts if "## Attempt 1" in prompt and "You judge" not in prompt]
    assert again
    assert all("From memory: patterns" in prompt for prompt in again)


def test_memory_of_the_parent_is_not_passed_to_a_child(play: Callable[..., Played]) -> None:
    def answer(ask: Ask) -> Any:
        if ask.phase == "check":
            return ACCEPT
        if ask.document.meta.parent:
            return plan({"tool": "list", "args": {}})
        return plan({"subtask": "list the folder"})

    kept = {"remember": True, "recall": True}
    for _ in range(2):  # the second run is offered what the first one did
        played = play(answer, "list the folder by a subtask", settings=kept)
    assert [note for note in played.root.section(1).notes if "memory" in note.source]
    child = next(each for each in played.documents.values() if each.meta.parent and each.meta.type == "task")
    handed = [note for note in child.section(1).notes if note.source.startswith("parent")]
    assert handed and not [note for note in handed if "memory" in note.source]


async def test_memory_changes_during_a_loop_do_not_reach_its_prompts(tmp_path: Any) -> None:
    prompts: list[str] = []

    class LateMemory(FixedMemory):
        def notes_for(self, document: Document) -> Sequence[tuple[str, str]]:
            self.times += 1
            return [("way", "solve first: think")] if self.times > 1 else []

    fractal = with_retry(tmp_path, prompts)
    fractal.__dict__["memory"] = LateMemory(
        fractal.workspace, fractal.config, fractal.systems, fractal._files
    )
    await fractal.run("look")
    assert len(prompts) > 2 and "solve first" not in "".join(prompts)
