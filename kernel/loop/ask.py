"""One ask of the ladder: the lowest suitable rung answers; its reply is logged, charged, parsed and checked.

An invalid reply is requested again, with the refused reply and the reason, at most `Bounds.repairs` times. A
rung that declines, fails or is unsure hands over to the next one.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

from kernel.asking.conversation import Sources, conversation, judgement
from kernel.asking.messages import fenced
from kernel.asking.prompt import Prompt, drafted, form
from kernel.asking.replies import Parse, schema
from kernel.asking.responder import DO, FREE, Ask, Question, Questioner, Reply, Responder, Usage, Waits
from kernel.asking.turn import TURN, TurnReply, typed
from kernel.document.amounts import clamped
from kernel.document.model import Step, root_id
from kernel.document.texts import Pieces, cut
from kernel.errors import (
    ConfigurationError,
    Declined,
    DocumentError,
    FractalError,
    LimitReached,
    ProviderError,
    ReplyError,
    explained,
    raised_as,
)
from kernel.events import Kind
from kernel.loop.budget import (
    ROUNDING,
    Amount,
    LifeforceNeeded,
    expected_reply,
    reserve_for_checks,
    shortage,
    with_lifeforce,
)
from kernel.loop.run_context import Session, overseen

TURN_TOKENS = 16_000
"""Maximum tokens of the reply of one turn, which may write files; at most an eighth of the window."""
REFUSED_CHARS = 1_500
"""Maximum characters of a refused reply that are shown."""
REASON_CHARS = 1_000
"""Maximum characters of the reason why a reply was refused."""
_OBJECT = re.compile(r"(?:```\w*\s*)?\{.*\}(?:\s*```)?", re.DOTALL)
Gate = Callable[[Any], Awaitable[None]]
"""Raises `ReplyError` for a typed reply that cannot be used."""
Begin = Callable[[Session, Responder], Awaitable[int]]
"""Makes the document ready for a responder, who may have taken over; returns the step that is asked for."""


@dataclass(frozen=True)
class Answer:
    """A reply of the type that the ask demands, and its origin."""

    reply: Any
    origin: str
    read: str = ""  # the phase whose instructions the responder read; "" for code


class NobodyLeft(Declined):
    """Every suitable rung has declined or failed."""


class PersonNeeded(Exception):
    """The responder asks a person, and the loop has to wait. The message is the question."""


async def ask(
    session: Session,
    phase: str,
    *,
    step: int = 0,
    gate: Gate | None = None,
    evidence: Mapping[str, Any] | None = None,
    begin: Begin | None = None,
) -> Answer:
    """Ask the rung of this attempt, and the higher ones if it hands over; each one begins with `begin`.

    Raises `PersonNeeded`, and `LifeforceNeeded` where no model is affordable: time helps, and not a person.
    """
    rung = current_rung(session)
    why = "no rung offers"
    unaffordable: LifeforceNeeded | None = None
    while rung is not None:
        responder = session.run.ladder.rungs[rung]
        if not answers_phase(responder, phase):  # a higher rung answers this phase; META keeps the taker
            rung = higher_rung(session, rung, phase=phase)
            continue
        step = await begin(session, responder) if begin else step
        session.emit("ask_started", phase=phase, step=step, rung=responder.name)
        try:
            answer = await _ask_rung(session, responder, phase, step, gate, evidence or {})
            higher = higher_rung(session, rung, human=False, phase=phase)
            unsure = phase != DO and _unsure(answer.reply)  # one call of a plan says nothing about the plan
            if higher is None or not unsure or _goes_up(session, higher, answer.reply):
                return answer
            why = "unsure: it gave its plan a low confidence"
        except LifeforceNeeded as error:  # META keeps the taker, who goes on when there is lifeforce again
            unaffordable = unaffordable or error
            rung = higher_rung(session, rung, human=False, phase=phase)
            if rung is not None:
                session.answered(phase, responder.name, passed=str(error))
                session.emit("warning", message=f"{responder.name} is skipped: {error}")
            continue
        except (ProviderError, ConfigurationError) as error:
            higher = higher_rung(session, rung, human=False, phase=phase)
            if higher is None:
                raise
            why = str(error)
        except (Declined, ReplyError) as error:
            higher = higher_rung(session, rung, phase=phase)
            why = str(error)
        hand_over(session, phase, rung, higher, why)
        rung = higher
    if unaffordable:
        raise unaffordable
    raise NobodyLeft(f"no configured responder could answer: {why}")


def current_rung(session: Session) -> int | None:
    """The rung of this attempt: the taker in META, else the lowest one that accepts the task."""
    ladder = session.run.ladder
    name = session.doc.meta.taker
    for index, responder in enumerate(ladder):
        if responder.name == name:
            return index
    return lowest_rung(session)


def lowest_rung(session: Session) -> int | None:
    """The lowest rung that accepts the task."""
    return session.run.ladder.taker(session.doc, suits=partial(_suits_tier, session))


def _suits_tier(session: Session, responder: Responder) -> bool:
    """Whether this rung may answer at all: a loop of oversight is not left to the worker."""
    if not overseen(session.doc):
        return True
    return responder.tier == "human" or responder in session.run.ladder.oversight


def coded(responder: Responder | None) -> bool:
    """Whether this rung's plans are made by code: it states their criteria, and no model does."""
    if responder is None or responder.tier == "human":
        return False
    return not responder.reads_prompt or isinstance(responder, Questioner)


def decider(session: Session) -> Responder | None:
    """The rung that took the last turn of this attempt, else the one that takes the first."""
    taker = current_rung(session)
    current = None if taker is None else session.run.ladder.rungs[taker]
    return planner(session, session.doc.meta.attempt) or current


def reader(session: Session) -> Responder | None:
    """The rung that decides in this attempt, if it does so turn by turn."""
    responder = decider(session)
    return responder if converses(responder) else None


def higher_rung(session: Session, rung: int, *, human: bool = True, phase: str = TURN) -> int | None:
    """The next rung that accepts the task and may answer the phase; `human=False` excludes people."""

    def suits(responder: Responder) -> bool:
        allowed = (human or responder.tier != "human") and answers_phase(responder, phase)
        return allowed and _suits_tier(session, responder)

    return session.run.ladder.taker(session.doc, rung, suits)


def answers_phase(responder: Responder, phase: str) -> bool:
    """Whether this rung may answer the phase. Only some rungs are limited to certain phases."""
    return not responder.phases or phase in responder.phases


def planner(session: Session, attempt: int) -> Responder | None:
    """The rung that planned an attempt."""
    planned = [
        each["rung"]
        for each in session.doc.meta.rungs
        if each["attempt"] == attempt and each["phase"] in ("plan", TURN) and not each.get("passed")
    ]
    return next((rung for rung in session.run.ladder if rung.name in planned[-1:]), None)


def hand_over(session: Session, phase: str, rung: int, higher: int | None, why: str) -> None:
    """Record in META that a rung passed and which one takes over, and emit a warning."""
    ladder = session.run.ladder
    name = ladder.rungs[rung].name
    session.answered(phase, name, passed=why[:300])
    if higher is not None:
        session.meta(taker=ladder.rungs[higher].name)
    session.emit("warning", message=f"{name} gave up in {session.doc.meta.phase.upper()}: {why[:300]}")


def _goes_up(session: Session, higher: int, turn: TurnReply) -> bool:
    """Whether oversight, the next rung, reviews an uncertain plan instead of making another one."""
    reviews = session.run.ladder.rungs[higher].tier == "oversight" and not turn.ends
    return reviews and bool(session.run.hooks.review(session, turn.confidence))


def _unsure(reply: Any) -> bool:
    return isinstance(reply, TurnReply) and reply.confidence == "low" and not reply.question


async def _ask_rung(
    session: Session,
    responder: Responder,
    phase: str,
    step: int,
    gate: Gate | None,
    evidence: Mapping[str, Any],
) -> Answer:
    if isinstance(responder, Questioner):
        return await _interview(session, responder, phase, step, gate, evidence)
    refused: list[tuple[str, str]] = []

    def prompted() -> tuple[Prompt, Ask]:
        prompt, turn = Prompt(), len(refused)
        if responder.reads_prompt:
            prompt = prompt_of(session, responder, phase, step)
            prompt = with_refused(prompt, refused, _example(session, phase))
        request = _request(session, responder, phase, step, evidence)
        texts = {"system": prompt.system, "user": prompt.user, "tools": prompt.tools}
        return prompt, replace(request, turn=turn, sample=turn, messages=prompt.messages, **texts)

    for _ in range(1 + session.run.bounds.repairs):
        prompt, request = prompted()
        window = responder.window
        try:
            reply, reused = await _reply(session, responder, request)
        except ProviderError:
            if responder.window >= window:
                raise
            prompt, request = prompted()  # its server says that it takes less: the prompt is made for that
            reply, reused = await _reply(session, responder, request)
        if isinstance(reply, Waits):
            raise PersonNeeded(reply.question)
        _record(session, request, responder, reply, prompt.instruction_tokens, reused)
        try:
            if reply.truncated:
                raise ReplyError(f"it was cut off at {request.max_tokens} tokens; answer in fewer words")
            value = await parsed_reply(session.run.hooks.parse, request.phase, reply.text, gate)
            return Answer(value, _origin(responder, reply), phase if responder.reads_prompt else "")
        except ReplyError as error:
            why = cut(str(error), REASON_CHARS, "")
            session.emit("ask_refused", phase=phase, step=step, rung=responder.name, why=why)
            refused.append((reply.text, why))
            if not responder.reads_prompt:
                break  # code would give the same reply again
    raise ReplyError(f"no usable reply: {refused[-1][1].removeprefix('reply: ')}")


def prompt_of(
    session: Session,
    responder: Responder,
    phase: str,
    step: int = 0,
    kept: Mapping[str, str] | None = None,
) -> Prompt:
    """The conversation of a loop up to its next turn or verdict, for this responder.

    In `DO` the turn is bound to the call of `step`. `kept` are texts of no file yet.
    """

    def shelved(path: str) -> str:
        try:
            return (kept or {}).get(path) or session.run.store.unshelve(path)
        except DocumentError:  # somebody has removed it
            return "(What was shown here is gone. Read the files that you need.)"

    def whole(result: Step) -> str:
        try:
            return session.whole(result)
        except DocumentError:
            return result.result or ""  # the beginning; a step that needs the whole says what is missing

    sources = Sources(
        session.catalogue,
        responder.count,
        whole=whole,
        shelved=shelved,
        place=lambda path: session.run.shown(session.run.artifacts.parent / path),
        window=responder.window,
        may_split=not session.atomic,
        enclosed=_enclosed(session),
    )
    if phase == "check":
        return judgement(session.doc, sources)
    return conversation(session.doc, sources, step if phase == DO else 0)


def _enclosed(session: Session) -> str:
    """What a command lacks in the sandbox; "" without one."""
    if session.run.sandbox.mode == "off":
        return ""
    return "/tmp starts empty" if session.run.policy.network else "no network, /tmp starts empty"


def converses(responder: Responder | None) -> bool:
    """Whether a responder takes a growing conversation with calls, and so decides turn by turn.

    Every model does, but for a small one, which answers questions.
    """
    return responder is not None and responder.reads_prompt and not isinstance(responder, Questioner)


def _example(session: Session, phase: str) -> str:
    name = "check" if phase == "check" else "turn"
    return session.catalogue.text(f"phases/{name}.example.md", drafted=drafted(session.doc)).strip()


def with_refused(prompt: Prompt, refused: Sequence[tuple[str, str]], example: str) -> Prompt:
    """The conversation with replies that were refused, each with the reason, and once an example of one."""
    shown = f"\nThe same as JSON, for another task: {example}" if example else ""
    more: list[dict[str, Any]] = []
    for text, why in refused:
        more.append({"role": "assistant", "content": cut(text, REFUSED_CHARS, "") or "(nothing)"})
        how = "Call a tool, or done." if prompt.tools else ""
        said = f"Your reply was refused. {how}\n{fenced(why)}{shown}"  # the reason quotes the reply
        more.append({"role": "user", "content": said})
        shown = ""
    return replace(prompt, messages=(*prompt.messages, *more))


def _request(
    session: Session, responder: Responder, phase: str, step: int, evidence: Mapping[str, Any]
) -> Ask:
    """The ask of a phase, without a prompt. `DO` is a turn that is bound to the call of a planned step."""

    def shown(kind: Kind) -> Pieces:
        return Pieces(lambda text: session.emit(kind, phase=phase, step=step, rung=responder.name, text=text))

    kind = TURN if phase == DO else phase
    return Ask(
        run=session.doc.meta.run,
        loop=session.id,
        attempt=session.doc.meta.attempt,
        phase=kind,
        step=step,
        turn=0,
        system="",
        user="",
        schema=schema("teach" if phase == "check" and session.teaches else kind),
        words=form(session.doc, kind, session.catalogue),
        max_tokens=_longest(session, responder, phase),
        document=session.doc,
        bound=session.doc.planned[step].tool if phase == DO else "",
        evidence=evidence,
        rung=responder.name,
        on_text=shown("reply_delta"),
        on_thinking=shown("thinking_delta"),
        notify=lambda text: session.emit("warning", message=text),
    )


def _longest(session: Session, responder: Responder, phase: str) -> int:
    """The most tokens of a reply."""
    usual = session.run.bounds.reply_tokens
    return max(usual, min(TURN_TOKENS, responder.window // 8)) if phase == TURN else usual


async def _interview(
    session: Session,
    responder: Questioner,
    phase: str,
    step: int,
    gate: Gate | None,
    evidence: Mapping[str, Any],
) -> Answer:
    """Let a responder answer by questions. Each one is logged, charged and recorded."""

    async def put(request: Ask, instructions: str) -> Reply:
        reply, reused = await _reply(session, responder, request)
        if isinstance(reply, Waits):
            raise PersonNeeded(reply.question)
        _record(session, request, responder, reply, responder.count(instructions), reused)
        return reply

    interview = Questions(session, _request(session, responder, phase, step, evidence), put)
    try:
        value = typed(interview.ask.phase, await responder.fill(interview))
    except (FractalError, PersonNeeded, LifeforceNeeded):
        raise
    except Exception as error:
        raise Declined(explained(error)) from error
    if gate:
        await gate(value)
    if not interview.count:
        session.answered(phase, responder.name)
    return Answer(value, f"model:{responder.name}")


def next_question(session: Session, responder: Questioner, phase: str, step: int) -> Ask | None:
    """The next question of a responder that answers by questions; None if it asks none any more."""
    asked: list[Ask] = []

    async def put(request: Ask, instructions: str) -> Reply:
        if reply := session.run.log.reply(request.key):
            return reply
        asked.append(request)
        raise Declined("only looked at")

    filling = responder.fill(Questions(session, _request(session, responder, phase, step, {}), put))
    with suppress(StopIteration, FractalError):
        filling.send(None)  # nothing in it waits: it runs to its end
    filling.close()
    return asked[0] if asked else None


class Questions:
    """The interview of a phase, over its session."""

    def __init__(self, session: Session, ask: Ask, put: Callable[[Ask, str], Awaitable[Reply]]) -> None:
        self.ask = ask
        self.count = 0  # questions so far
        self._session, self._put = session, put

    @property
    def folder(self) -> Path:
        """The folder of the run."""
        return self._session.run.folder

    @property
    def hidden(self) -> Collection[Path]:
        """Files and folders inside it that are not shown: the system and the records of runs."""
        return {*self._session.run.protected, *self._session.run.private}

    def instructions(self, name: str) -> str:
        """The text of `phases/micro/NAME.md`."""
        return self._session.catalogue.text(f"phases/micro/{name}.md", drafted=drafted(self.ask.document))

    def result(self, step: int) -> str:
        """The whole result of a step; "" if it has none."""
        found = self._session.doc.steps.get(step)
        return self._session.whole(found) if found and found.result is not None else ""

    async def put(self, question: Question) -> Reply:
        """Put a question: an ask with the phase's place and the question's number."""
        request = replace(
            self.ask,
            turn=self.count,
            user=question.text,
            form=question.form,
            sample=question.sample,
            max_tokens=question.max_tokens,
        )
        self.count += 1
        reply = await self._put(request, question.instructions)
        if question.form.kind == "choice":
            return replace(reply, text=question.form.chosen(reply.text))
        return reply


async def parsed_reply(parse: Parse, phase: str, text: str, gate: Gate | None) -> Any:
    """Parse a reply and check it with its gate. Raises `ReplyError`."""
    with raised_as(ReplyError):
        data = parse(text)
        value = typed(phase, _said_in_text(parse, data) if phase == TURN else data)
        if gate:
            await gate(value)
        return value


def _said_in_text(parse: Parse, data: Mapping[str, Any]) -> Mapping[str, Any]:
    """A turn. Text that is a whole plan, or no call in JSON, and nothing else, is one, too."""
    said = data.get("text")
    if not data.get("calls") and isinstance(said, str) and _OBJECT.fullmatch(said.strip()):
        with suppress(ReplyError):
            inner = parse(said)
            no_call = set(inner) == {"calls"} and not inner["calls"]
            return inner if no_call or inner.keys() >= {"approach", "steps"} else data
    return data


async def _reply(session: Session, responder: Responder, request: Ask) -> tuple[Reply | Waits, bool]:
    """The logged reply, or a new one; and whether it was logged.

    A call is reserved and logged before it is made, and charged before its reply is parsed.
    """
    if not responder.reads_prompt:
        with raised_as(Declined):
            return await responder.answer(request), False
    log = session.run.log
    key = request.key
    if earlier := log.reply(key):
        return earlier, True
    most = _reserve(session, responder, request)
    log.asked(key, responder.name, most, request.form.kind)
    if problem := session.run.hooks.keep_prompt(session.run, request):
        session.emit("warning", message=problem)
    try:
        with session.run.clock.patient() if responder.patient else nullcontext(), raised_as(ProviderError):
            reply = await responder.answer(request)
        for pieces in (request.on_thinking, request.on_text):
            if isinstance(pieces, Pieces):
                pieces.end()
    except asyncio.CancelledError:
        raise  # the call may have cost something: without a log record of its end, it is charged in full
    except Exception as error:
        usage = getattr(error, "usage", None)
        cost = _valid_usage(usage, most) if isinstance(usage, Usage) else replace(FREE, calls=most.calls)
        log.failed(key, str(error), with_lifeforce(responder, cost, session.run.limit))
        raise
    if isinstance(reply, Waits):
        log.failed(key, f"waits for {reply.reason}")
        return reply, False
    usage = with_lifeforce(responder, _valid_usage(reply.usage, most), session.run.limit)
    reply = replace(reply, usage=usage)
    log.replied(key, reply)
    return reply, False


def _reserve(session: Session, responder: Responder, request: Ask) -> Usage:
    """Reserve the cost of a call; raises `LimitReached` or `LifeforceNeeded` if the budget cannot cover it.

    The reservation covers the longest possible reply if the budget allows, else the longest expected one. A
    higher cost is recorded as overrun. The caller logs the reservation next, so that other loops see it.
    """
    limit = session.run.limit
    most = with_lifeforce(responder, responder.estimate(request), limit)
    if most.usd is None and limit.usd < inf and not session.run.log.spent(root_id(session.run.id)).unpriced:
        session.emit("warning", message=unpriced(responder.name, limit.usd))
    turn = request.part == TURN and converses(responder)
    alone = turn and session.run.policy.check == "auto" and not session.teaches
    last = request.phase == "check" or alone  # code judges what turns have done
    spent = session.spent_by(root_id(session.run.id))
    free = limit - spent - reserve_for_checks(spent, session.doc.meta.depth + (not last))
    if most.lifeforce > free.lifeforce + ROUNDING:
        raise LifeforceNeeded(f"a call of {responder.name}", most.lifeforce, free.lifeforce)
    if not free.covers(Amount.of(most)):
        longest = expected_reply(session.run.log.sizes(request.key), request.max_tokens)
        shorter = responder.estimate(replace(request, max_tokens=longest))
        most = with_lifeforce(responder, shorter, limit)
        if not free.covers(needed := Amount.of(most)):
            raise LimitReached(shortage(free, needed))
    calls = Amount(most.calls + (not last))  # one call is kept for CHECK
    if (left := Amount(session.free_calls())).calls < calls.calls:
        raise LimitReached(shortage(left, calls))
    return most


def unpriced(name: str, usd: float) -> str:
    """The warning about a model without a known price in a run with a limit in USD."""
    return (
        f"no price is known for {name}: its calls count towards the limits of calls and tokens, and not "
        f"towards that of USD {usd:g}; give `price: {{input: …, output: …}}` (USD for a million tokens) in "
        "fractal.yaml"
    )


def _valid_usage(usage: Usage, most: Usage) -> Usage:
    """The usage that a provider reports, with invalid values replaced by the reserved ones."""

    def sound(name: str) -> Any:
        value = getattr(usage, name)
        return None if name == "usd" and value is None else clamped(value, getattr(most, name))

    return Usage(*(sound(name) for name in ("prompt_tokens", "completion_tokens", "usd", "calls")))


def _record(
    session: Session, request: Ask, responder: Responder, reply: Reply, instructions: int, reused: bool
) -> None:
    usage = reply.usage
    instructions = min(
        instructions, usage.prompt_tokens
    )  # instructions are estimated, prompt tokens are exact
    figures: dict[str, Any] = {"model": reply.model}
    if responder.reads_prompt:
        figures |= {
            "calls": usage.calls,
            "prompt": usage.prompt_tokens,
            "instr": instructions,
            "out": usage.completion_tokens,
            "usd": usage.usd,
        }
    unpriced = responder.reads_prompt and usage.usd is None
    figures = {key: value for key, value in figures.items() if value or key == "model"}
    session.answered(request.part, responder.name, **figures, **({"usd": None} if unpriced else {}))
    session.emit(
        "ask_finished",
        phase=request.part,
        step=request.step,
        rung=responder.name,
        reused=reused,
        prompt_tokens=usage.prompt_tokens,
        instruction_tokens=instructions,
        completion_tokens=usage.completion_tokens,
        usd=usage.usd,
        model=reply.model,
    )


def _origin(responder: Responder, reply: Reply) -> str:
    if responder.tier == "human":
        return "person"
    named = ":" in reply.model and not responder.reads_prompt  # code names the file or record that it used
    return reply.model if named else f"model:{reply.model}"
