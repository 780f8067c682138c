"""The responder, and the ladder of responders from the cheapest to a person.

The responders themselves (models, memory, people) are in the runtime.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import ceil
from pathlib import Path
from typing import Any, Literal

from kernel.asking.messages import prompt_tokens
from kernel.document.escaping import to_json
from kernel.document.model import Document
from kernel.errors import ConfigurationError

Tier = Literal["reflex", "worker", "oversight", "human"]


@dataclass(frozen=True)
class Usage:
    """The cost of a call: prompt and completion tokens, USD (None: the price is unknown), and lifeforce.

    `cached_tokens` are those of the prompt that the provider had in its cache.
    """

    prompt_tokens: int = 0
    completion_tokens: int = 0
    usd: float | None = 0.0
    calls: int = 1
    lifeforce: float = 0.0
    cached_tokens: int = 0

    def as_dict(self) -> dict[str, Any]:
        """The form in the log; with lifeforce and cached tokens only where there are any."""
        rare = ("lifeforce", "cached_tokens")
        return {name: each for name, each in asdict(self).items() if each or name not in rare}


FREE = Usage(calls=0)
DO = "do"
"""The name of a turn that decides the call of one step of a plan."""


def unheard(text: str) -> None:
    """Ignore a piece of a reply, or a notice."""


@dataclass(frozen=True)
class ReplyForm:
    """The form of a reply: a JSON object of the ask's schema, free text, one code block, or one of `options`.

    `begins` is text that a local model is made to begin with, such as the language of a code block.
    """

    kind: Literal["json", "text", "block", "choice"] = "json"
    options: tuple[str, ...] = ()
    begins: str = ""

    def chosen(self, text: str) -> str:
        """The option that a reply names, also in a sentence; the first one if it names none."""
        named = (each for each in self.options if re.search(rf"(?<!\w){re.escape(each)}(?!\w)", text))
        return text if text in self.options else next(named, self.options[0])


@dataclass(frozen=True)
class Ask:
    """One question to a responder: the prompt, the form of the reply, and its place in the run."""

    run: str
    loop: str
    attempt: int
    phase: str  # turn or check, or what memory and oversight ask
    step: int  # the number of the turn, or of the step that it is bound to; else 0
    turn: int  # the number of invalid replies, or of questions of this phase, before
    system: str  # the stable part first, so that a provider can cache it
    user: str
    schema: Mapping[str, Any]  # JSON Schema of the reply
    words: str  # the same form in words; already part of `system`
    max_tokens: int
    document: Document
    bound: str = ""  # the tool of the planned step whose call this turn decides; "": it decides freely
    evidence: Mapping[str, Any] = field(default_factory=dict[str, Any])
    rung: str = ""  # the responder's name
    form: ReplyForm = field(default_factory=ReplyForm)
    sample: int = 0  # 0: the most likely reply; other numbers: other replies of the same model
    tools: Sequence[Mapping[str, Any]] = ()  # schemas, for a responder whose calls are native
    messages: Sequence[Mapping[str, Any]] = ()
    """The whole conversation of a turn in the form of OpenAI's chat messages; then `user` is empty.

    The first one is `system`. An assistant's message has `tool_calls`; a message `tool` answers each.
    A user's message has `images` where the responder sees.
    """
    on_text: Callable[[str], None] = field(default=unheard, compare=False, repr=False)
    """Is called with each piece of the reply while it is being written, in the run's own thread."""
    on_thinking: Callable[[str], None] = field(default=unheard, compare=False, repr=False)
    """The same for the model's thinking, which is shown and kept nowhere."""
    notify: Callable[[str], None] = field(default=unheard, compare=False, repr=False)
    """Is called with what a person may want to know while the call takes long, such as a retry."""

    @property
    def part(self) -> str:
        """The name in the log, in META and in a rung's `phases`: `do` for a bound turn, else the phase."""
        return DO if self.bound else self.phase

    @property
    def wants_turn(self) -> bool:
        """Whether the reply is a turn: calls and text. One to a small question of an interview is none."""
        return self.phase == "turn" and self.form.kind == "json"

    @property
    def key(self) -> str:
        """The key in the log. The same ask of the same rung has the same key, also after a crash."""
        place = f"{self.loop}/{self.attempt}/{self.part}/{self.step}/{self.turn}"
        said = (to_json(list(self.messages)),) if self.messages else ()
        return f"{place}/{_digest(self.system, self.user, *said)[:16]}.{_digest(self.rung)[:6]}"


def _digest(*texts: str) -> str:
    return hashlib.sha256("\x1f".join(texts).encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True)
class Reply:
    """A reply: a text that should contain one JSON object, the model, and the cost."""

    text: str
    model: str
    usage: Usage = FREE
    truncated: bool = False
    scores: Mapping[str, float] = field(default_factory=dict[str, float])
    """The probability of each option of a choice, where the model states it."""


@dataclass(frozen=True)
class Question:
    """One small question of a phase: what it is about (task, files), then what to do with it."""

    parts: Sequence[str]
    instructions: str
    form: ReplyForm = field(default_factory=lambda: ReplyForm("text"))
    max_tokens: int = 200
    sample: int = 0

    @property
    def text(self) -> str:
        """The whole prompt. The instructions come last: questions about the same files begin the same way."""
        return "\n\n".join(filter(None, [*self.parts, self.instructions]))


@dataclass(frozen=True)
class Waits:
    """The responder cannot answer now; the loop waits for a person. Nothing is kept in memory."""

    reason: str  # person, approval
    question: str


WINDOW = 128_000
"""The window of a responder that states none, in tokens."""
LIFEFORCE = 1.0
"""Lifeforce of a call of a responder that names none."""


def estimate_tokens(text: str) -> int:
    """Tokens of a text without a tokenizer: its UTF-8 bytes divided by three, rounded up.

    This is conservative: English prose has about four bytes per token, code about three.
    """
    return ceil(len(text.encode("utf-8", "surrogatepass")) / 3)


class Responder:
    """One rung of the ladder: all that the loop asks of it. A subclass has a name, and answers.

    Every other member has a default: that of a model that reads the prompt and takes any task.
    """

    name: str
    """The name in documents and logs, such as `reflex` or `openai/gpt-5`."""
    tier: Tier = "worker"
    """The kind of rung."""
    reads_prompt: bool = True
    """Whether it answers from the prompt (a model, a mailbox) or from the document alone (a reflex)."""
    patient: bool = False
    """Whether a person answers: the clock of the run waits meanwhile."""
    phases: frozenset[str] = frozenset()
    """The phases that it answers; the next rung gets the others. Empty: all."""
    lifeforce: float = LIFEFORCE
    """Lifeforce of one call, if the run counts it."""
    undoes: Literal["", "attempts", "series"] = ""
    """Which failed attempts are undone before the next one: none, all, or those of several steps."""
    price: Any = "free"
    """The price of its calls; None if it is unknown."""
    context: int | None = None
    """The window that was set, in tokens."""
    form: str = ""
    """How it is to be asked, if it says so itself: `micro` or `json`."""

    @property
    def window(self) -> int:
        """Tokens that a conversation and its reply may have together."""
        return self.context or WINDOW

    @property
    def window_source(self) -> str:
        """Where that number comes from."""
        return "the settings" if self.context else "usual"

    @property
    def sees(self) -> bool:
        """Whether it is shown pictures."""
        return False

    @property
    def takes_tools(self) -> bool:
        """Whether the calls of a turn have the provider's own form."""
        return False

    def offers(self, task: str, document: Document) -> float | None:
        """The confidence (0 to 1) that it can take this attempt; None if it does not accept the task."""
        return 0.5

    def estimate(self, ask: Ask) -> Usage:
        """The maximum cost of this ask, which is reserved before the call."""
        return Usage(prompt_tokens(ask, self.count), ask.max_tokens)

    async def answer(self, ask: Ask) -> Reply | Waits:
        """Answer or wait. Raises `Declined` to pass, and `ProviderError` or `ConfigurationError`."""
        raise NotImplementedError(f"{type(self).__name__} does not answer")

    def count(self, text: str) -> int:
        """Tokens of a text, by its tokenizer or the conservative estimate."""
        return estimate_tokens(text)

    def warm(self) -> None:
        """Prepare for the first ask, such as by loading the model. It does not wait."""

    def ask_window(self) -> None:
        """Ask the server for the window, if it has not said it."""


@dataclass
class Interview:
    """What a responder uses that answers an ask by small questions to a model."""

    ask: Ask
    """What is asked for, with the document and the evidence. It has no prompt of its own."""
    folder: Path
    """The folder of the run."""
    hidden: Collection[Path]
    """Files and folders inside it that are not shown: the system and the records of runs."""
    instructions: Callable[[str], str]
    """The text of `phases/micro/NAME.md`."""
    result: Callable[[int], str]
    """The whole result of a step; "" if it has none."""
    asked: Callable[[Ask, str], Awaitable[Reply]]
    """Asks with these instructions; the ask is logged and charged."""
    count: int = 0
    """The questions so far."""

    async def put(self, question: Question) -> Reply:
        """Put a question to the model: an ask of its own, in the place of the phase."""
        form = question.form
        limits = {"sample": question.sample, "max_tokens": question.max_tokens}
        request = replace(self.ask, turn=self.count, user=question.text, form=form, **limits)
        self.count += 1
        reply = await self.asked(request, question.instructions)
        return replace(reply, text=form.chosen(reply.text)) if form.kind == "choice" else reply


class Questioner(Responder):
    """A responder that answers an ask by questions instead of one reply."""

    attempts: int = 1
    """Attempts at a task before it hands over. A failed one is undone, and is not counted as a retry."""
    undoes: Literal["", "attempts", "series"] = "attempts"

    async def fill(self, interview: Interview) -> Mapping[str, Any]:
        """The reply as an object; waits for nothing but questions. Raises `Declined` to pass."""
        raise NotImplementedError(f"{type(self).__name__} asks no questions")


@dataclass(frozen=True)
class Ladder:
    """The rungs, cheapest first."""

    rungs: tuple[Responder, ...]
    oversees_itself: bool = True  # whether the highest model is oversight where no rung is

    def __post_init__(self) -> None:
        for rung in self.rungs:
            if not isinstance(rung, Responder):  # pyright: ignore[reportUnnecessaryIsInstance]
                what = type(rung).__name__
                raise ConfigurationError(f"ladder: {what} is no responder; derive it from fractal.Responder")
        names = [rung.name for rung in self.rungs]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ConfigurationError(f"ladder: {', '.join(twice)} occurs twice; each name must be unique")

    def __iter__(self) -> Iterator[Responder]:
        return iter(self.rungs)

    def __len__(self) -> int:
        return len(self.rungs)

    @property
    def oversight(self) -> tuple[Responder, ...]:
        """The rungs of oversight: those of that tier, else the highest model, which may be both.

        A `Questioner`, a small model, is none: in a trial it approved no plan and rejected right ones.
        """
        models = [rung for rung in self.rungs if rung.reads_prompt and rung.tier in ("worker", "oversight")]
        able = [rung for rung in models if not isinstance(rung, Questioner)]
        overseers = tuple(rung for rung in able if rung.tier == "oversight")
        return overseers or (tuple(able[-1:]) if self.oversees_itself else ())

    def taker(
        self,
        document: Document,
        above: Responder | None = None,
        suits: Callable[[Responder], bool] = lambda responder: True,
    ) -> Responder | None:
        """The lowest suitable rung above this one that accepts the document's task."""
        rungs = self.rungs[self.rungs.index(above) + 1 :] if above else self.rungs
        accept = (rung for rung in rungs if suits(rung) and rung.offers(document.task, document) is not None)
        return next(accept, None)
