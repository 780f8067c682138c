"""The last rung: a person. It asks one question and waits; the answer is written to the document."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence

from kernel.asking.prompt import found_by_itself
from kernel.asking.responder import FREE, Ask, Reply, Responder, Tier, Usage, Waits
from kernel.document.model import Document
from kernel.loop.run_context import overseen

SHOWN = 1_000
"""Characters of a result that the question of CHECK shows."""
_YES = re.compile(r"(?i)\s*(?:y|yes|ok|okay|accept|accepted|good|fine|right|correct|that is right)\W*")


class Human(Responder):
    """Turns each ask that no other rung accepts into a question."""

    name = "person"
    tier: Tier = "human"
    reads_prompt = False

    def __init__(self, suggest: Sequence[Callable[[str], str]] = ()) -> None:
        """`suggest` say what helps with a task that nobody can do: a near one, or what memory lacks."""
        self._suggest = suggest

    def offers(self, task: str, document: Document) -> float | None:
        """Accept any attempt, with the lowest confidence."""
        return 0.0

    def estimate(self, ask: Ask) -> Usage:
        """Free: no model is called."""
        return FREE

    async def answer(self, ask: Ask) -> Reply | Waits:
        """Wait with a question; in CHECK and DO the person's answer becomes the reply."""
        if ask.part not in ("check", "do"):
            return Waits("person", _ask_for_help(ask.document, self._suggest))
        question = _ask_to_check(ask) if ask.phase == "check" else _ask_for_call(ask)
        text = _answer_to(ask.document, question)
        if not text:
            return Waits("person", question)
        reply = _verdict(ask.document, text) if ask.phase == "check" else _call(text)
        return Reply(json.dumps(reply, ensure_ascii=False), self.name)


def _verdict(document: Document, text: str) -> dict[str, object]:
    """A person's answer to the question of CHECK as a reply."""
    if _YES.fullmatch(text):
        return {"validation": "pass", "decision": "ACCEPT", "output": _last_result(document)}
    learned = f"a person said: {text}"
    return {"validation": "fail", "issues": [text], "decision": "RETRY", "learned": learned}


def _call(text: str) -> dict[str, object]:
    """A person's answer to the question for a call as a reply: the call, or why there is none."""
    try:
        call = json.loads(text)
    except ValueError:
        call = None
    return call if isinstance(call, dict) else {"blocked": text}


def _ask_for_help(document: Document, suggest: Sequence[Callable[[str], str]]) -> str:
    """The question for a task that no rung accepts: why, and what the person can do."""
    task, run = document.task[:300], document.meta.run
    if overseen(document):
        return _ask_in_place_of_oversight(document)
    notes = [note for fold in document.section(2).folds for note in fold.notes]
    learned = [note.text for note in notes if note.key == "learned"]
    undone = [note.text for note in notes if note.key == "undone then"]
    gave_up = [rung for rung in document.meta.rungs if rung.get("passed")]
    passed = [rung for rung in gave_up if rung.get("rung") != "reflex"]
    if passed:
        why = f"No model could do this: “{task}”.\n{passed[-1]['rung']}: {str(passed[-1]['passed'])[:300]}"
    elif learned:
        why = f"This could not be done: “{task}”."
    elif gave_up:
        reason = str(gave_up[-1]["passed"]).removeprefix("no usable reply: ")
        reason = reason.partition("; there are ")[0]  # the tools that there are
        why = f"A reflex covers this task and could not do it: “{task}”.\n{reason[:300]}"
    else:
        why = f"No reflex covers this task, and there is no model to ask: “{task}”."
        why = "\n".join([why, *filter(None, (each(document.task) for each in suggest))])
    tried = f"\n{learned[-1][:400]}" if learned and learned[-1] not in why else ""
    if undone:
        tried += f"\nUndone: {undone[-1][:400]}"
    return (
        f'{why}{tried}\nSay it in other words: fractal answer {run} "…" --resume\n'
        f"or go on with {'another' if passed else 'a'} model: fractal resume {run} --model ollama/llama3.2 "
        "(llama:PATH.gguf is a local file, without a key; FRACTAL_MODEL or `ladder:` in fractal.yaml set "
        "one for good)"
    )


def _ask_in_place_of_oversight(document: Document) -> str:
    """The question of an escalation that no model of oversight can take: for somebody who knows only this."""
    passed = [rung for rung in document.meta.rungs if rung.get("passed")]
    why = f"{passed[-1]['rung']} could not: {str(passed[-1]['passed'])[:300]}" if passed else ""
    about = [
        f"{note.source}: {note.text[:600]}"
        for note in document.section(1).notes
        if note.key == "context" and not found_by_itself(note.source)
    ]
    return "\n".join(
        [
            f"A worker asks for help: “{document.text(1, 'task')[:600]}”.",
            *about,
            *filter(None, [why]),
            f'Answer with the solution: fractal answer {document.meta.run} "…" --resume',
            "Lines such as `teaching: …` and `grant: TOOL` in it are for the worker, too.",
        ]
    )


def _ask_to_check(ask: Ask) -> str:
    """The question of CHECK: the result, the failed checks, and how to answer."""
    document = ask.document
    failed = [f"step {number} failed" for number in ask.evidence.get("failed_steps", ())]
    failed += [
        f"{json.dumps(each['criterion'], ensure_ascii=False)} does not hold"
        for each in ask.evidence.get("criteria", ())
        if each.get("after") is False
    ]
    against = f"\nAgainst it: {'; '.join(failed)}." if failed else ""
    result = _last_shown(document)
    return (
        f"Is this right for “{document.task[:300]}” (attempt {document.meta.attempt})?\n{result}{against}\n"
        f'Answer yes, or say what is wrong: fractal answer {document.meta.run} "…" --resume'
    )


def _ask_for_call(ask: Ask) -> str:
    step = ask.document.planned.get(ask.step)
    what = f"step {ask.step}, {step.tool}: {step.what}" if step else ask.document.task
    return (
        f"No model could say which call this needs: “{what[:300]}”.\nAnswer with one, such as "
        f'{{"tool": "read", "args": {{"path": "a.txt"}}}}, or say why it cannot be done: '
        f'fractal answer {ask.document.meta.run} "…" --resume'
    )


def _answer_to(document: Document, question: str) -> str:
    """The person's answer to exactly this question, or ""."""
    is_answer = False
    answer = ""
    for note in document.section(1).notes:
        if note.key == "question":
            is_answer, answer = note.text == question, ""
        elif note.key == "answer" and is_answer:
            answer = note.text
    return answer


def _last_result(document: Document) -> str:
    """A reference to the result of the last step that succeeded."""
    done = [number for number, step in document.steps.items() if step.state == "done"]
    return f"{{{{ steps[{max(done)}].result }}}}" if done else ""


def _last_shown(document: Document) -> str:
    done = [step for _, step in sorted(document.steps.items()) if step.state == "done"]
    text = (done[-1].result or "") if done else ""
    return f"{text[:SHOWN]}…" if len(text) > SHOWN else text or "(there is no result)"
