"""The OR gate: human and oversight may both reply, and neither blocks the other."""

from __future__ import annotations

from collections.abc import Iterable

from runtime.nervous.messages import DECISIONS, REPLIES, Message

_SEVERITY = {type: place for place, type in enumerate(DECISIONS)}


def resolve(replies: Iterable[Message]) -> Message | None:
    """The reply that holds, in whatever order they arrived; None: wait.

    A human's reply comes before one of oversight. Within a tier the strictest decision holds: veto, reject,
    nudge, approve; of answers, the first one.
    """
    said = [each for each in replies if each.type in REPLIES and each.tier != "worker"]
    return min(said, key=_place, default=None)


def _place(reply: Message) -> tuple[bool, int, str, str]:
    return reply.tier != "human", -_SEVERITY.get(reply.type, -1), reply.at, reply.id
