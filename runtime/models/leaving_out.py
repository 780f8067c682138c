"""What one ask changes after its server has refused it: a part is left out, or a length is lowered.

A part that a refusal names is left out for good; pictures and tools only of this ask, unless the server says
that it takes none. After a refusal that names no part, all are left out once. Where that helps, the next ask
leaves out each part by itself, and the one that was at fault stays left out. A stream that its server breaks
off is left out, too: once, and from the second time on for the rest of the process.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING

from runtime.models.failures import Failure
from runtime.models.refusals import (
    AT_FAULT,
    FILTERED,
    KEY_REFUSED,
    NARROW,
    NO_TOOLS_HERE,
    PARTS,
    UNSUPPORTED,
    named_in,
)

if TYPE_CHECKING:
    from kernel.asking.responder import Ask
    from runtime.models.provider import Provider

LEFT_OUT: ContextVar[frozenset[str]] = ContextVar("LEFT_OUT", default=frozenset[str]())
"""Parts of a request that this ask alone leaves out: on trial, or for what it sends."""
LEARNED = 6
"""Times that lengths are learned for one ask."""
OF_ONE_ASK = frozenset({"images", "tools"})
"""Parts of which one item may be at fault, and not the form."""
REFUSALS = frozenset({400, 404, 413, 422, 500, 501})
"""The statuses with which servers refuse a request."""


class Changes:
    """The changes of one ask."""

    def __init__(self, provider: Provider, ask: Ask) -> None:
        self._provider, self._ask = provider, ask
        self._first: Failure | None = None
        self._left = LEARNED
        self._tried: frozenset[str] = frozenset()
        self._once: frozenset[str] = frozenset()
        self._trials: list[frozenset[str]] | None = None
        self._cut: Failure | None = None

    def blamed(self, error: Failure) -> Failure:
        """The error that is told: the refusal that began the trials, where they did not help."""
        return self._first if self._first and error.status in REFUSALS else error

    def worked(self) -> None:
        """Keep the part that was left out for a request that the server took; of several, one is at fault."""
        if len(self._tried) > 1 and not self._provider.one_at_fault:
            self._provider.one_at_fault = True
        elif self._cut and self._tried == {"stream"} and not self._provider.broke_off:
            self._provider.broke_off = True  # the connection may have been at fault
        else:
            self._provider.refused |= self._tried

    def undo(self) -> None:
        """Send again what was left out in vain."""
        self._tried = frozenset()
        LEFT_OUT.set(self._once)

    def after(self, error: Failure) -> bool:
        """Whether the request is changed after this error, so that it is worth to send it at once."""
        if error.by_server:
            return self._ask_in_one_piece(error)
        changed = error.status in REFUSALS and self._changed(error)
        if not changed and error.status in REFUSALS:
            self.undo()
        return changed

    def _ask_in_one_piece(self, error: Failure) -> bool:
        """Leave out the stream, once: some servers end one for an error, or for another client."""
        if self._cut:  # also the answer in one piece is a stream, which never says more
            self._provider.streams_only = True
            return False
        if "stream" not in self._provider.parts(self._ask):
            return False
        self._cut, self._tried = error, frozenset({"stream"})
        LEFT_OUT.set(self._once | self._tried)
        self._ask.notify(
            f"{self._provider.name}: the server broke its stream off; it is asked for the reply in one piece"
        )
        return True

    def _changed(self, error: Failure) -> bool:
        status, words = error.status, self._words(error)
        if self._tried == {"stream"} and PARTS["stream"].search(words):
            self._first, self._provider.streams_only = self._cut, True
            return False
        if self._left > 0 and self._provider.learn_lengths(self._ask, str(error)):
            self._left -= 1
            return True
        if error.too_long or FILTERED.search(words) or KEY_REFUSED.search(words):
            return False
        sent = self._provider.parts(self._ask)
        named = named_in(words) & set(sent)
        if status == 500:  # servers answer so to what they do not know
            tools = {"tools"} if NO_TOOLS_HERE.search(words) else set[str]()
            form = {"json_schema", "response_format", "system"} if AT_FAULT.search(words) else set[str]()
            named &= form | tools | {"images", "null"}
        if "cache_control" in named:  # a content in parts is no text either
            named.discard("null")
        if narrow := next((part for part in NARROW if part in named), ""):
            named = {narrow}
        if named:
            self.undo()
            without_tools = NO_TOOLS_HERE.search(words) and "tools" in named
            lasting = bool(without_tools or "null" in named or (status != 500 and UNSUPPORTED.search(words)))
            if lasting or not named & OF_ONE_ASK:
                self._provider.leave_out(named, self._ask, lasting=lasting)
            else:  # what it says may be about this picture, or this tool
                self._once |= named
                LEFT_OUT.set(self._once)
            return True
        return self._provider.drop_options(words, self._ask) or (
            status in (400, 422) and self._next_trial(error, sent)
        )

    def _next_trial(self, error: Failure, sent: Sequence[str]) -> bool:
        if self._trials is None:
            self._first = error
            sent = [part for part in sent if part != "json_schema"]
            single = [frozenset({part}) for part in sent] if self._provider.one_at_fault else []
            self._trials = [*single, frozenset(sent)] if sent else []
        self.undo()
        if not self._trials:
            return False
        self._tried = self._trials.pop(0) - self._provider.left_out
        LEFT_OUT.set(self._once | self._tried)
        return True

    def _words(self, error: Failure) -> str:
        # the name of a model may have such a word in it: `qwen-coder-tools` is not found
        name = re.escape(self._provider.bare_model.casefold().replace(" ", "_"))
        return re.sub(rf"(?<!\w){name}(?!\w)", "", error.words)
