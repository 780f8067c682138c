"""One ask of the ladder: the lowest suitable rung answers; its reply is logged, charged, parsed and checked.

An invalid reply is requested again, with the refused reply and the reason, at most `Bounds.repairs` times. A
rung that declines, fails or is unsure hands over to the next one.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from typing import Any

from kernel.asking.conversation import Sources, conversation, judgement
from kernel.asking.forms import FORMS
from kernel.asking.messages import fenced
from kernel.asking.prompt import Prompt, drafted, form
from kernel.asking.replies import Parse
from kernel.asking.responder import DO, FREE, Ask, Interview, Questioner, Reply, Responder, Usage, Waits
from kernel.asking.turn import TURN, TurnReply, typed
from kernel.document.amounts import clamped, whole
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
REFUSED = "Your reply was refused."
REPEATED = 20
"""Characters from which an answer that stands in such a reason is no answer of its own."""
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


class PersonNeeded(FractalError):
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
    responder = current_rung(session)
    why = "no rung offers"
    unaffordable: LifeforceNeeded | None = None
    while responder is not None:
        if not answers_phase(responder, phase):  # a higher rung answers this phase; META keeps the taker
            responder = higher_rung(session, responder, phase=phase)
            continue
        step = await begin(session, responder) if begin else step
        session.emit("ask_started", phase=phase, step=step, rung=responder.name)
        try:
            answer = await _ask_rung(session, responder, phase, step, gate, evidence or {})
            higher = higher_rung(session, responder, human=False, phase=phase)
            unsure = phase != DO and _unsure(answer.reply)  # one call of a plan says nothing about the plan
            if higher is None or not unsure or _goes_up(session, higher, answer.reply):
                return answer
            why = "unsure: it gave its plan a low confidence"
        except LifeforceNeeded as error:  # META keeps the taker, who goes on when there is lifeforce again
            unaffordable = unaffordable or error
            higher = higher_rung(session, responder, human=False, phase=phase)
            if higher is not None:
                session.answered(phase, responder.name, passed=str(error))
                session.emit("warning", message=f"{responder.name} is skipped: {error}")
            responder = higher
            continue
        except (ProviderError, ConfigurationError) as error:
            higher = higher_rung(session, responder, human=False, phase=phase)
            if higher is None:
                raise
            why = str(error)
        except (Declined, ReplyError) as error:
            higher = higher_rung(session, responder, phase=phase)
            why = str(error)
        hand_over(session, phase, responder, higher, why)
        responder = higher
    if unaffordable:
        raise unaffordable
    raise NobodyLeft(f"no configured responder could answer: {why}")


def current_rung(session: Session) -> Responder | None:
    """The rung of this attempt: the taker in META, else the lowest one that accepts the task."""
    taker = session.doc.meta.taker
    return next((rung for rung in session.run.ladder if rung.name == taker), None) or lowest_rung(session)


def lowest_rung(session: Session) -> Responder | None:
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
    return planner(session, session.doc.meta.attempt) or current_rung(session)


def reader(session: Session) -> Responder | None:
    """The rung that decides in this attempt, if it does so turn by turn."""
    responder = decider(session)
    return responder if converses(responder) else None


def higher_rung(
    session: Session, rung: Responder, *, human: bool = True, phase: str = TURN
) -> Responder | None:
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


def hand_over(session: Session, phase: str, rung: Responder, higher: Responder | None, why: str) -> None:
    """Record in META that a rung passed and which one takes over, and emit a warning."""
    session.answered(phase, rung.name, passed=why[:300])
    if higher is not None:
        session.meta(taker=higher.name)
    session.emit("warning", message=f"{rung.name} gave up in {session.doc.meta.phase.upper()}: {why[:300]}")


def _goes_up(session: Session, higher: Responder, turn: TurnReply) -> bool:
    """Whether oversight, the next rung, reviews an uncertain plan instead of making another one."""
    return (
        higher.tier == "oversight"
        and not turn.ends
        and bool(session.run.hooks.review(session, turn.confidence))
    )


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
        _record(session, request, responder, reply, prompt.instruction_tokens, reused)
        try:
            if reply.truncated:
                written = reply.usage.completion_tokens or request.max_tokens
                raise ReplyError(f"it was cut off after {written} tokens; answer in fewer words")
            value = await parsed_reply(session.run.hooks.parse, request.phase, reply.text, gate)
            if _repeats(value, refused):
                raise ReplyError("it repeats what you were told of your reply; answer the task itself")
            return Answer(value, _origin(responder, reply), phase if responder.reads_prompt else "")
        except ReplyError as error:
            why = cut(str(error), REASON_CHARS, "")
            session.emit("ask_refused", phase=phase, step=step, rung=responder.name, why=why)
            refused.append((reply.text, why))
            if not responder.reads_prompt:
                break  # code would give the same reply again
    raise ReplyError(f"no usable reply: {refused[-1][1].removeprefix('reply: ')}")


def _repeats(value: Any, refused: Sequence[tuple[str, str]]) -> bool:
    """Whether an answer is what was said of a refused reply, as small models give it back."""
    answer = value.done.answer.strip() if isinstance(value, TurnReply) and value.done else ""
    if not refused:
        return False
    return answer.startswith(REFUSED) or (
        len(answer) >= REPEATED and any(answer in why for _, why in refused)
    )


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

    def picture(path: str) -> bytes | None:
        with suppress(DocumentError):
            return session.run.store.unshelve_bytes(path)
        return None

    sources = Sources(
        session.catalogue,
        responder.count,
        whole=whole,
        shelved=shelved,
        place=lambda path: session.run.shown(session.run.artifacts.parent / path),
        window=responder.window,
        may_split=not session.atomic,
        enclosed=_enclosed(session),
        sees=responder.sees,
        picture=picture,
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
        said = f"{REFUSED} {how}\n{fenced(why)}{shown}"  # the reason quotes the reply
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
        schema=FORMS["teach" if phase == "check" and session.teaches else kind],
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

    async def asked(request: Ask, instructions: str) -> Reply:
        reply, reused = await _reply(session, responder, request)
        _record(session, request, responder, reply, responder.count(instructions), reused)
        return reply

    interview = _interview_of(session, _request(session, responder, phase, step, evidence), asked)
    try:
        value = typed(interview.ask.phase, await responder.fill(interview))
    except FractalError:
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
    open_: list[Ask] = []

    async def asked(request: Ask, instructions: str) -> Reply:
        if reply := session.run.log.reply(request.key):
            return reply
        open_.append(request)
        raise Declined("only looked at")

    filling = responder.fill(_interview_of(session, _request(session, responder, phase, step, {}), asked))
    with suppress(StopIteration, FractalError):
        filling.send(None)  # nothing in it waits: it runs to its end
    filling.close()
    return open_[0] if open_ else None


def _interview_of(session: Session, request: Ask, asked: Callable[[Ask, str], Awaitable[Reply]]) -> Interview:
    """The interview of a phase."""

    def instructions(name: str) -> str:
        return session.catalogue.text(f"phases/micro/{name}.md", drafted=drafted(session.doc))

    def result(step: int) -> str:
        found = session.doc.steps.get(step)
        return session.whole(found) if found and found.result is not None else ""

    hidden = {*session.run.protected, *session.run.private}
    return Interview(request, session.run.folder, hidden, instructions, result, asked)


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


async def _reply(session: Session, responder: Responder, request: Ask) -> tuple[Reply, bool]:
    """The logged reply, or a new one; and whether it was logged. Raises `PersonNeeded`.

    A call is reserved and logged before it is made, and charged before its reply is parsed.
    """
    if not responder.reads_prompt:
        with raised_as(Declined):
            reply = await responder.answer(request)
        if isinstance(reply, Waits):
            raise PersonNeeded(reply.question)
        return reply, False
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
        raise PersonNeeded(reply.question)
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

    names = ("prompt_tokens", "completion_tokens", "usd", "calls")
    valid = Usage(*(sound(name) for name in names))
    return replace(valid, cached_tokens=whole(usage.cached_tokens, 0, valid.prompt_tokens))


def _record(
    session: Session, request: Ask, responder: Responder, reply: Reply, instructions: int, reused: bool
) -> None:
    usage = reply.usage
    instructions = min(instructions, usage.prompt_tokens)  # they are estimated, prompt tokens are exact
    figures: dict[str, Any] = {
        "calls": usage.calls,
        "prompt": usage.prompt_tokens,
        "cached": usage.cached_tokens,
        "instr": instructions,
        "out": usage.completion_tokens,
        "usd": usage.usd,
    }
    counted = {key: value for key, value in figures.items() if value or value is None}
    session.answered(
        request.part, responder.name, model=reply.model, **(counted if responder.reads_prompt else {})
    )
    session.emit(
        "ask_finished",
        phase=request.part,
        step=request.step,
        rung=responder.name,
        reused=reused,
        prompt_tokens=usage.prompt_tokens,
        cached_tokens=usage.cached_tokens,
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
