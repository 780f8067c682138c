"""One ask of the ladder: the lowest rung that can answers; its reply is logged, charged, read and gated.

A reply of the wrong form is asked for again, with the refused reply and the reason, at most twice. A rung
that declines, fails or is unsure hands over to the next one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from math import inf
from typing import Any

from kernel.budget import Amount, expected_reply, kept_for_checks, refuse_beyond
from kernel.errors import ConfigurationError, Declined, ProviderError, ReplyError, raised_as
from kernel.offering import offer_context
from kernel.phases import Plan, Typed, schema, typed
from kernel.prompt import assemble, form
from kernel.replies import read_reply
from kernel.responder import FREE, Ask, Reply, Responder, Usage, Waits
from kernel.screening import cut
from kernel.workspace import root_id
from kernel.world import Held

REASON_CHARS = 1_000
"""Of why a reply was refused, what the next turn, the document and whoever watches are told."""
Gate = Callable[[Typed], Awaitable[None]]


@dataclass(frozen=True)
class Answer:
    """A typed reply, and who gave it as documents name them."""

    reply: Typed
    origin: str
    read: str = ""  # the instructions that were read for it: none by code


class NobodyLeft(Declined):
    """Every rung that offered has declined or failed."""


async def ask(
    held: Held,
    phase: str,
    *,
    step: int = 0,
    gate: Gate | None = None,
    evidence: Mapping[str, Any] | None = None,
) -> Answer | Waits:
    """Ask the rung that took this attempt, and the ones above it when it hands over."""
    rung = current(held)
    why = "no rung offers"
    while rung is not None:
        responder = held.world.ladder.rungs[rung]
        if not _fills(responder, phase):  # another rung's phase: this one keeps the attempt
            rung = above(held, rung, phase=phase)
            continue
        held.emit("ask_started", phase=phase, step=step, rung=responder.name)
        try:
            answer = await _ask_rung(held, responder, phase, step, gate, evidence or {})
            higher = above(held, rung, human=False, phase=phase)
            if higher is None or isinstance(answer, Waits) or not _unsure(answer):
                return answer
            why = "unsure: it gave its plan a low confidence"
        except (ProviderError, ConfigurationError) as error:
            higher = above(held, rung, human=False, phase=phase)
            if higher is None:
                raise
            why = str(error)
        except (Declined, ReplyError) as error:
            higher = above(held, rung, phase=phase)
            why = str(error)
        hand_over(held, phase, rung, higher, why)
        rung = higher
    raise NobodyLeft(f"no rung of the ladder could answer: {why}")


def current(held: Held) -> int | None:
    """The rung of this attempt: the one that META names, else the lowest that offers."""
    ladder = held.world.ladder
    name = held.doc.meta.taker
    for index, responder in enumerate(ladder):
        if responder.name == name:
            return index
    return ladder.taker(held.doc.task, held.doc)


def above(held: Held, rung: int, *, human: bool = True, phase: str = "plan") -> int | None:
    """The next rung that offers and may fill the phase; without `human` a person is not counted."""
    ladder = held.world.ladder
    for index in range(rung + 1, len(ladder)):
        responder = ladder.rungs[index]
        counts = (human or responder.tier != "human") and _fills(responder, phase)
        if counts and responder.offers(held.doc.task, held.doc) is not None:
            return index
    return None


def _fills(responder: Responder, phase: str) -> bool:
    """Whether the settings let this rung fill the phase; most rungs fill all."""
    return phase in getattr(responder, "phases", (phase,))


def hand_over(held: Held, phase: str, rung: int, higher: int | None, why: str) -> None:
    """Say in META and to the watchers that a rung passed, and who takes over."""
    ladder = held.world.ladder
    name = ladder.rungs[rung].name
    held.answered(phase, name, passed=why[:300])
    if higher is not None:
        held.meta(taker=ladder.rungs[higher].name)
        if ladder.rungs[higher].reads_prompt and phase in ("understand", "plan", "fused"):
            offer_context(held)  # code needed no listing of the folder, and offered none
    held.emit("warning", message=f"{name} gave up in {held.doc.meta.phase.upper()}: {why[:300]}")


def _unsure(answer: Answer) -> bool:
    reply = answer.reply
    return isinstance(reply, Plan) and reply.confidence == "low" and not reply.question


async def _ask_rung(
    held: Held, responder: Responder, phase: str, step: int, gate: Gate | None, evidence: Mapping[str, Any]
) -> Answer | Waits:
    refused: list[tuple[str, str]] = []
    for turn in range(1 + held.world.bounds.repairs):
        request, instructions = _request(held, responder, phase, step, turn, refused, evidence)
        reply, reused = await _reply(held, responder, request)
        if isinstance(reply, Waits):
            return reply
        _record(held, request, responder, reply, instructions, reused)
        try:
            if reply.truncated:
                raise ReplyError(f"it was cut off at {request.max_tokens} tokens; answer in fewer words")
            value = await taken(phase, reply.text, gate)
            return Answer(value, _origin(responder, reply), phase if responder.reads_prompt else "")
        except ReplyError as error:
            why = cut(str(error), REASON_CHARS, "")  # it may quote the reply
            held.emit("ask_refused", phase=phase, step=step, rung=responder.name, why=why)
            refused.append((reply.text, why))
            if not responder.reads_prompt:
                break  # code gives the same answer again
    raise ReplyError(f"no usable reply: {refused[-1][1].removeprefix('reply: ')}")


async def taken(phase: str, text: str, gate: Gate | None) -> Typed:
    """The typed reply that a text is, past its gate; raises `ReplyError` for whatever is wrong with it."""
    with raised_as(ReplyError):
        value = typed(phase, read_reply(text))
        if gate:
            await gate(value)
        return value


def _request(
    held: Held,
    responder: Responder,
    phase: str,
    step: int,
    turn: int,
    refused: list[tuple[str, str]],
    evidence: Mapping[str, Any],
) -> tuple[Ask, int]:
    system = user = ""
    instructions = 0
    if responder.reads_prompt:
        prompt = assemble(
            held.doc,
            phase,
            held.world.catalogue,
            responder.count,
            step=step,
            refused=refused,
            may_split=held.may_split,
        )
        system, user, instructions = prompt.system, prompt.user, prompt.instruction_tokens
    return (
        Ask(
            run=held.doc.meta.run,
            loop=held.id,
            attempt=held.doc.meta.attempt,
            phase=phase,
            step=step,
            turn=turn,
            system=system,
            user=user,
            schema=schema(phase),
            words=form(held.doc, phase, held.world.catalogue),
            max_tokens=held.world.bounds.reply_tokens,
            document=held.doc,
            evidence=evidence,
            rung=responder.name,
        ),
        instructions,
    )


async def _reply(held: Held, responder: Responder, request: Ask) -> tuple[Reply | Waits, bool]:
    """The reply from the log, or a new one: reserved and logged before the call, charged before reading."""
    if not responder.reads_prompt:
        with raised_as(Declined):
            return await responder.answer(request), False
    log = held.world.log
    key = request.key
    if earlier := log.reply(key):
        return earlier, True
    most = _reserve(held, responder, request)
    log.asked(key, responder.name, most)
    try:
        patient = getattr(responder, "patient", False)  # a person answers: the clock of the run stands
        with held.world.patient() if patient else nullcontext(), raised_as(ProviderError):
            reply = await responder.answer(request)
    except asyncio.CancelledError:
        raise  # the call may have cost something: its line stands without an answer and is charged whole
    except Exception as error:
        told = error.usage if isinstance(error, ProviderError) else None
        cost = _sound(told, most) if told else replace(FREE, calls=most.calls)
        log.failed(key, held.world.redact(str(error)), cost)
        held.ledger.charge(most.calls, cost.calls)
        raise
    if isinstance(reply, Waits):
        log.failed(key, f"waits for {reply.reason}")
        held.ledger.charge(most.calls, 0)
        return reply, False
    reply = replace(reply, text=held.world.redact_values(reply.text), usage=_sound(reply.usage, most))
    log.replied(key, reply)
    held.ledger.charge(most.calls, reply.usage.calls)
    return reply, False


def _reserve(held: Held, responder: Responder, request: Ask) -> Usage:
    """Set aside what a call may cost, and raise `LimitReached` where the run has not that much left.

    That is the longest reply, where the run has room for it, else the longest that is to be expected. What a
    reply takes beyond that is recorded as overrun. What is set aside is in the log from the next line on, so
    that no other loop of the tree counts on it.
    """
    limit = held.world.limit
    most = responder.estimate(request)
    if most.usd is None and limit.usd < inf:
        raise ConfigurationError(unpriced(responder.name, limit.usd))
    last = request.phase in ("check", "atomic")  # an atomic loop has no CHECK to keep a call for
    spent = held.below(root_id(held.world.run))
    free = limit - spent - kept_for_checks(spent, held.doc.meta.depth + (not last))
    if not free.covers(amount(most)):
        longest = expected_reply(held.world.log.sizes(request.key), request.max_tokens)
        most = responder.estimate(replace(request, max_tokens=longest))
        refuse_beyond(free, amount(most))
    held.ledger.reserve(most.calls, last=last)
    return most


def unpriced(name: str, usd: float) -> str:
    """What is wrong with a model of unknown price where money has a limit, and what to do."""
    return (
        f"no price is known for {name}, so the limit of USD {usd:g} cannot be kept and it is not called; "
        "give `price: {input: …, output: …}` (USD for a million tokens) in fractal.yaml, or lift the limit: "
        "`usd: null`"
    )


def _sound(usage: Usage, most: Usage) -> Usage:
    """What a provider says that a call cost; what can be no cost counts as reserved."""

    def sound(name: str) -> Any:
        value = getattr(usage, name)
        return value if value is None or 0 <= value < inf else getattr(most, name)

    return Usage(*(sound(name) for name in ("prompt_tokens", "completion_tokens", "usd", "calls")))


def amount(usage: Usage) -> Amount:
    """A usage as the ledger counts it."""
    return Amount(usage.calls, usage.prompt_tokens + usage.completion_tokens, usage.usd or 0.0)


def _record(
    held: Held, request: Ask, responder: Responder, reply: Reply, instructions: int, reused: bool
) -> None:
    usage = reply.usage
    instructions = min(instructions, usage.prompt_tokens)  # ours are estimated, the prompt's are the model's
    figures: dict[str, Any] = {"model": reply.model}
    if responder.reads_prompt:
        figures |= {
            "calls": usage.calls,
            "prompt": usage.prompt_tokens,
            "instr": instructions,
            "out": usage.completion_tokens,
            "usd": usage.usd,
        }
    if request.step:
        figures["step"] = request.step if request.phase != "do" else 0
    held.answered(request.phase, responder.name, **{k: v for k, v in figures.items() if v or k == "model"})
    held.emit(
        "ask_finished",
        phase=request.phase,
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
    named = ":" in reply.model and not responder.reads_prompt  # code says which file or record it went by
    return reply.model if named else f"model:{reply.model}"
