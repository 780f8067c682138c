"""The one reader of a provider's answers: bytes in, one `Answer` out, for streams and whole answers.

It follows the description of chat completions, and takes what servers make of it as it is meant. Whatever
comes is an answer: nothing here raises. What an answer means for a run is decided by `provider`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Any, Literal, cast

from kernel.document.amounts import MOST_AT_ONCE, whole
from kernel.document.escaping import to_json
from runtime.models.events import Events
from runtime.models.faults import Fault, fault_in, of_page
from runtime.models.tool_calls import object_of
from runtime.received import LIMIT, Unpacker
from runtime.text import thoughts

Finish = Literal["stop", "length", "filter", "broken", "cut"]
"""How an answer ended: by itself, at the limit of tokens, by the provider's filter, by a server that broke it
off, or not at all."""
OK = 200
GZIP = b"\x1f\x8b\x08"
SHOWN = 200
"""Characters of an answer that cannot be read that an error shows."""
_LENGTH = re.compile(r"length|max.?(?:output.?|completion.?|new.?)?tokens|token.?limit")
_FILTERED = re.compile(
    r"content.?filter|safety|recitation|blocklist|prohibited|sensitive|spii|guardrail|moderation"
)
_THINKING = ("reasoning_content", "reasoning", "thinking", "reasoning_text", "reasoning_details")
_THINKING += ("thinking_blocks",)
"""What servers call a model's thinking; some send the same twice."""
_TEXTS = ("text", "content", "thinking", "reasoning", "summary", "value", "parts", "refusal", "output_text")
_ARGUMENTS = ("arguments", "parameters", "args", "input")
_CALL_PARTS = frozenset({"tool_use", "tool_call", "function_call", "toolUse", "function"})
_MARKS = tuple(f"<|{name}|>" for name in ("im_end", "eot_id", "eom_id", "end", "endoftext", "end_of_text"))
_MARKS += ("<|return|>", "<|END_RESPONSE|>", "<end_of_turn>", "<｜end▁of▁sentence｜>", "<|end_of_box|>")
"""What a model writes at the end of its text, and its server should have taken away."""
_CHANNELS = re.compile(
    r"<\|channel\|>([a-z]+)([^<]*)(?:<\|constrain\|>[^<]*)?<\|message\|>"
    r"(.*?)(?=<\|(?:end|call|return|start|channel)\|>|\Z)",
    re.DOTALL,
)
_TO = re.compile(r"\bto=([\w.:-]+)")


@dataclass(frozen=True)
class Tokens:
    """What a server says that an answer has used; 0 where it says nothing."""

    prompt: int = 0
    completion: int = 0  # with those of thinking
    cached: int = 0  # of the prompt
    thinking: int = 0
    usd: float | None = None  # the server's own bill


@dataclass(frozen=True)
class Answer:
    """What a server answered. With a `fault` it is no reply, though a part of one may have come."""

    text: str = ""
    thinking: str = ""
    calls: tuple[tuple[str, str], ...] = ()  # name, and arguments as JSON text
    finish: Finish = "stop"
    refusal: str = ""
    tokens: Tokens = field(default_factory=Tokens)
    fault: Fault | None = None

    @property
    def begun(self) -> bool:
        """Whether anything of the model has come."""
        return bool(self.text or self.thinking or self.calls or self.refusal)


def tokens_in(value: Any) -> Tokens:
    """The tokens in a usage object, by the names that servers give them, and as whatever kind of number."""
    if not isinstance(value, Mapping):
        return Tokens()
    used = cast(Mapping[str, Any], value)
    details = [used.get(name) for name in ("prompt_tokens_details", "input_tokens_details")]
    written = [used.get(name) for name in ("completion_tokens_details", "output_tokens_details")]
    read = _first(used, "cache_read_input_tokens", "prompt_cache_hit_tokens", "cached_tokens")
    cached = max([read, *(_first(each, "cached_tokens", "cache_read_tokens") for each in details)])
    prompt = _first(used, "prompt_tokens", "prompt_eval_count", "promptTokenCount")
    if not prompt:  # Anthropic counts what its cache read and wrote beside the input
        beside = ("cache_read_input_tokens", "cache_creation_input_tokens")
        prompt = _first(used, "input_tokens") + sum(_first(used, each) for each in beside)
    completion = _first(used, "completion_tokens", "output_tokens", "eval_count", "candidatesTokenCount")
    thinking = max(
        _first(each, "reasoning_tokens", "thoughtsTokenCount", "thinking_tokens") for each in (used, *written)
    )
    total = _first(used, "total_tokens", "totalTokenCount")
    completion = max(completion, total - prompt) if prompt else completion  # Gemini: the rest is thinking
    if thinking > completion:
        completion += thinking
    return Tokens(
        prompt, min(completion, MOST_AT_ONCE), min(cached, prompt), min(thinking, completion), _usd(used)
    )


def _usd(used: Mapping[str, Any]) -> float | None:
    """The cost that a server states itself, in USD."""
    for name in ("cost", "total_cost", "estimated_cost"):
        said = used.get(name)
        said = cast(Mapping[str, Any], said).get("total_cost") if isinstance(said, Mapping) else said
        value = _number(said)
        if value is not None and said not in (None, ""):
            return value + _upstream(used) if used.get("is_byok") or not value else value
    return None


def _upstream(used: Mapping[str, Any]) -> float:
    """What the provider behind a router charges by itself, to a key of the user's own."""
    details = used.get("cost_details")
    said = cast(Mapping[str, Any], details) if isinstance(details, Mapping) else {}
    return _number(said.get("upstream_inference_cost")) or 0.0


def _first(value: Any, *names: str) -> int:
    """The first of these members that is a number above 0."""
    if not isinstance(value, Mapping):
        return 0
    found = (_number(cast(Mapping[str, Any], value).get(name)) for name in names)
    return next((whole(each, 0) for each in found if each), 0)


def _number(value: Any) -> float | None:
    """A number, also as text; None for what is none, or below 0."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return min(number, float(MOST_AT_ONCE)) if isfinite(number) and number >= 0 else None


def _merged(before: Tokens, now: Tokens) -> Tokens:
    """The later of two accounts, with what only the earlier one says."""
    said = {
        name: value for name, value in vars(now).items() if value or (name == "usd" and value is not None)
    }
    return replace(before, **said)


def whole_answer(value: Any) -> Answer:
    """The answer in an object that a client's library has read."""
    reader = Reader()
    reader.see(value)
    return reader.end()


LONGEST_EMPTY = 16
"""Characters of arguments that may say that there are none."""


class Reader:
    """Takes the bytes of one answer; `on_text` is called with each piece of its text, or of its calls."""

    def __init__(
        self,
        on_text: Callable[[str], None] = lambda text: None,
        on_thinking: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._on_text, self._on_thinking = on_text, on_thinking
        self._events = Events()
        self._text, self._thinking, self._refusal = list[str](), list[str](), list[str]()
        self._half = ""  # the first half of a character, whose second one has not come yet
        self._calls: list[_Call] = []
        self._last: dict[Any, _Call] = {}  # of each place
        self._choice: Any = None
        self._finish = ""
        self._says_none = False  # whether pieces have said that this is not the end
        self._tokens = Tokens()
        self._fault: Fault | None = None
        self._accounted = False  # whether what was used has come by itself, as it does at the end
        self._strange: Any = None
        self._first, self._packed = True, cast(Unpacker | None, None)

    @property
    def begun(self) -> bool:
        """Whether a piece of the reply, or of the model's thinking, has come."""
        return bool(self._text or self._thinking or self._calls or self._refusal)

    @property
    def complete(self) -> bool:
        """Whether the server has said that the reply ends here."""
        return bool(self._finish) or self._events.done

    @property
    def done(self) -> bool:
        """Whether nothing more is to come."""
        return self._events.done

    def take(self, piece: bytes) -> None:
        """Take the next bytes. Raises `TooLarge` for what is packed and too long."""
        if piece and self._first:
            self._first = False
            # its server forgot to say that it is packed
            self._packed = Unpacker("gzip", LIMIT.get()) if piece.startswith(GZIP) else None
        for part in self._packed.take(piece) if self._packed else (piece,):
            for value in self._events.take(part):
                self.see(value)

    def end(self, status: int = OK) -> Answer:
        """The answer, when no more bytes come. With a status of an error it is one, whatever it says."""
        for value in self._events.end():
            self.see(value)
        self._say("", last=True)
        text, thinking = encodable("".join(self._text)), encodable("".join(self._thinking))
        calls = tuple((each.name, encodable(each.arguments)) for each in self._calls)
        text, thinking, more = _parted(text, thinking)
        answer = Answer(
            text, thinking, (*calls, *more), self._ended(), "".join(self._refusal), self._tokens, self._fault
        )
        fault = self._fault or self._unread(answer, status == OK)
        if not OK <= status < 300:
            fault = (fault or Fault(answer.text[:SHOWN])).with_status(status)
        return replace(answer, fault=fault) if fault else answer

    def _ended(self) -> Finish:
        finish = self._finish.lower()
        if _LENGTH.search(finish):
            return "length"
        if _FILTERED.search(finish) and "malformed" not in finish:
            return "filter"
        if self._finish or self._accounted:
            return "stop"
        if self._events.done:  # llama-cpp-python ends a stream so when another client asks for something
            return "broken" if self._says_none else "stop"
        came = self._choice is not None or self._strange is not None
        in_one = self._events.kind == "json" or (not self._events.kind and came)
        return "stop" if in_one and not self._events.cut else "cut"

    def _unread(self, answer: Answer, ok: bool) -> Fault | None:
        """The fault of an answer that is no reply, and says of no error either."""
        events = self._events
        if events.damaged and not events.cut:
            return Fault(f"a part of the answer is no JSON: {_beginning(events.damaged)}", unread=True)
        if answer.begun or (self._choice is not None and answer.finish != "cut"):
            return None  # an empty reply is one
        if self._choice is not None or events.cut:
            return None  # the connection broke
        if events.plain:
            return of_page(events.plain, ok)
        if self._strange is not None:
            return Fault(f"the answer has no reply: {_beginning(to_json(self._strange))}", unread=True)
        return None

    def see(self, value: Any) -> None:
        """Take the next value."""
        if isinstance(value, list):
            for each in cast(list[Any], value):
                if isinstance(each, dict):
                    self.see(each)
                elif self._strange is None:
                    self._strange = each
            if not value and self._strange is None:
                self._strange = []
            return
        if not isinstance(value, Mapping):
            self._strange = value if self._strange is None else self._strange
            return
        event = cast(Mapping[str, Any], value)
        if not self._finish and (fault := fault_in(event)):
            self._fault = self._fault or fault
        groq = event.get("x_groq")
        for used in (event.get("usage"), groq.get("usage") if isinstance(groq, Mapping) else None):
            self._tokens = _merged(self._tokens, tokens_in(used))
        if isinstance(event.get("eval_count"), int):  # Ollama's own form
            self._tokens = _merged(self._tokens, tokens_in(event))
        choice = self._ours(event)
        if choice is not None:
            self._take_choice(choice, event)
            return
        self._accounted = self._accounted or (self.begun and self._tokens.completion > 0)
        self._strange = value if self._strange is None else self._strange

    def _ours(self, event: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """The choice of an event that is read: of several always the same one."""
        given: Any = event.get("choices")
        if isinstance(given, Mapping):
            given = [given] if {"delta", "message", "text"} & given.keys() else list(given.values())
        choices = [each for each in given if isinstance(each, Mapping)] if isinstance(given, list) else []
        if not choices and not given and (event.get("role") == "assistant" or "message" in event):
            inner = event.get("message")
            bare = isinstance(inner, Mapping) or event.get("role") == "assistant"
            choices = [{"message": inner if isinstance(inner, Mapping) else event, **event}] if bare else []
        for each in cast(list[Mapping[str, Any]], choices):
            index = each.get("index")
            index = index if isinstance(index, int) else 0
            if self._choice is None:
                self._choice = index
            if index == self._choice:
                return each
        return None

    def _take_choice(self, choice: Mapping[str, Any], event: Mapping[str, Any]) -> None:
        self._tokens = _merged(self._tokens, tokens_in(choice.get("usage")))
        delta, message = choice.get("delta"), choice.get("message")
        if isinstance(delta, str):
            self._say(delta)
        piece: Mapping[str, Any] = cast(Mapping[str, Any], delta) if isinstance(delta, Mapping) else {}
        if piece:
            self._take_message(piece, whole=False)
        if isinstance(message, Mapping) and not self._repeats(cast(Mapping[str, Any], message)):
            self._take_message(cast(Mapping[str, Any], message), whole=True)
        elif isinstance(message, str) and not piece:
            self._say(message)
        if isinstance(text := choice.get("text"), str) and not piece and not message:
            self._say(text)
        self._says_none = self._says_none or choice.get("finish_reason", "") is None
        for place in (choice, piece, event):
            for name in ("finish_reason", "finishReason", "stop_reason", "done_reason"):
                if isinstance(said := place.get(name), str) and said:
                    self._finish = said
        if event.get("done") is True:
            self._finish = self._finish or "stop"
        if self._finish.lower() == "error" and self._fault is None:
            self._fault = Fault("the server ended the reply with an error and does not say which", 502)

    def _repeats(self, message: Mapping[str, Any]) -> bool:
        """Whether a message, which a server sends at the end of its pieces, says them once more."""
        so_far = "".join(self._text)
        text, _ = _content(message.get("content"))
        if so_far and text == so_far:
            return True
        if so_far and len(text) > len(so_far) and text.startswith(so_far):
            self._text = []
            return False
        made = [(_function(each)[0], _function(each)[1]) for each in _listed(message.get("tool_calls"))]
        return bool(made) and not text and made == [(each.name, each.arguments) for each in self._calls]

    def _take_message(self, message: Mapping[str, Any], whole: bool) -> None:
        thought = next(filter(None, (_content(message.get(name))[0] for name in _THINKING)), "")
        text, parts = _content(message.get("content"))
        inner = "".join(each for kind, each in parts if kind == "thinking")
        if thought or inner:
            self._thinking.append(thought or inner)
            self._on_thinking(thought or inner)
        if text:
            self._say(text)
        if refusal := _content(message.get("refusal"))[0]:
            self._refusal.append(refusal)
        called = _listed(message.get("tool_calls"))
        if legacy := message.get("function_call"):
            called = [*called, {"function": legacy, "index": "legacy"}]
        called = [*called, *(each for kind, each in parts if kind == "call")]
        in_this: set[Any] = set()
        for each in called:
            place = each.get("index") if isinstance(each, Mapping) else None
            self._take_call(each, another=whole or place in in_this)
            in_this.add(place)

    def _say(self, text: str, last: bool = False) -> None:
        if text and not self._text:
            text = text.removeprefix("\ufeff")
        self._text += [text] if text else []
        shown, self._half = self._half + text, ""
        if shown and not last and "\ud800" <= shown[-1] <= "\udbff":
            shown, self._half = shown[:-1], shown[-1]
        if shown:
            self._on_text(encodable(shown))

    def _take_call(self, piece: Any, another: bool) -> None:
        """Take a piece of a call: of a new one, or more of one that has begun.

        Some servers number all calls 0 or none, and some repeat the name, or all of it, in each piece.
        """
        name, given, place, id = _function(piece)
        latest = self._calls[-1] if self._calls else None
        call = self._last.get(place) if place is not None else latest
        if call is None and not name and not id:  # more of one that has begun, whatever number it bears
            call = latest
        if call is None or (name and (another or call.ends_before(name, id))):
            call = _Call(id)
            self._calls.append(call)
            self._last[place] = call
        call.id = call.id or id
        if name.startswith(call.name):
            call.name = name
        elif name:
            call.name += name
        if call.written < LONGEST_EMPTY and call.arguments.strip() in ("{}", "null"):  # what some begin with
            call.empty()
        if not (name and call.written == len(given) and given == call.arguments):
            call.add(given)
        self._on_text(encodable(f"{name} {given}" if name else given))


@dataclass
class _Call:
    """What has come of a call so far."""

    id: str
    name: str = ""
    written: int = 0
    """The length of the arguments so far."""
    _pieces: list[str] = field(default_factory=list[str])

    @property
    def arguments(self) -> str:
        """The arguments as text so far."""
        self._pieces[:] = ["".join(self._pieces)]
        return self._pieces[0]

    def add(self, given: str) -> None:
        """Take more of the arguments; the pieces of a long text are joined once."""
        self._pieces.append(given)
        self.written += len(given)

    def empty(self) -> None:
        """Forget the arguments."""
        self._pieces.clear()
        self.written = 0

    def ends_before(self, name: str, id: str) -> bool:
        """Whether a piece with a name and this id begins another call."""
        if id and self.id:
            return id != self.id
        if not self.written or name != self.name:
            return bool(self.written)
        return self._pieces[-1].rstrip().endswith("}") and object_of(self.arguments) is not None


def _function(piece: Any) -> tuple[str, str, Any, str]:
    """Name, arguments as text, place and id of a call or a piece of one, in whatever form."""
    if not isinstance(piece, Mapping):
        return "", piece if isinstance(piece, str) else "", None, ""
    outer = cast(Mapping[str, Any], piece)
    inner = outer.get("function")
    function = cast(Mapping[str, Any], inner) if isinstance(inner, Mapping) else outer
    name = function.get("name") or (inner if isinstance(inner, str) else "") or outer.get("name")
    given: Any = next((function[key] for key in _ARGUMENTS if function.get(key) is not None), "")
    place, id = outer.get("index"), outer.get("id")
    return (
        name.strip() if isinstance(name, str) else "",
        given if isinstance(given, str) else to_json(given),
        place if isinstance(place, int | str) else None,
        id if isinstance(id, str) else "" if id is None else str(id),
    )


def _listed(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        return [value]
    return [each for each in cast(list[Any], value) if each] if isinstance(value, list) else []


def _content(value: Any, depth: int = 0) -> tuple[str, list[tuple[str, Any]]]:
    """The text of a content, and its other parts: `thinking` with its text, `call` with what is called."""
    if isinstance(value, str):
        return value, []
    if isinstance(value, bool) or value is None or depth > 4:
        return "", []
    if isinstance(value, int | float):
        return str(value), []
    if isinstance(value, Sequence):
        texts, parts = list[str](), list[tuple[str, Any]]()
        for each in cast(Sequence[Any], value):
            text, more = _content(each, depth + 1)
            texts.append(text)
            parts += more
        return "".join(texts), parts
    part = cast(Mapping[str, Any], value) if isinstance(value, Mapping) else {}
    kind = str(part.get("type") or "")
    if kind in _CALL_PARTS:
        return "", [("call", part)]
    inner = next((part[name] for name in _TEXTS if part.get(name) is not None), None)
    text, parts = _content(inner, depth + 1)
    if part.get("thought") is True or (depth and any(word in kind for word in ("think", "reason"))):
        # the texts of thinking itself are asked for without a depth
        return "", [("thinking", text), *parts] if text else parts
    if inner is None and part and not kind:  # an object that the server has read already
        return to_json(dict(part)), []
    return text, parts


def _parted(text: str, thinking: str) -> tuple[str, str, list[tuple[str, str]]]:
    """The text without the thinking in it, and without the model's marks; the thinking; calls of channels."""
    if "<|message|>" in text and (found := list(_channels(text))):
        thinking += "".join(said for kind, said, _ in found if kind == "thinking")
        calls = [(name, said) for kind, said, name in found if kind == "call"]
        return "".join(said for kind, said, _ in found if kind == "text"), thinking, calls
    said, text = thoughts.parted(text)
    return _unmarked(text), thinking + said, []


def _unmarked(text: str) -> str:
    """A text without the marks at its end."""
    marks = _MARKS if "<s>" in text else (*_MARKS, "</s>")
    while (bare := text.rstrip()).endswith(marks):
        text = next(bare.removesuffix(mark) for mark in marks if bare.endswith(mark))
    return text


def _channels(text: str) -> Iterator[tuple[str, str, str]]:
    """The messages of a reply in OpenAI's harmony form, which its server left as it was."""
    for channel, head, said in _CHANNELS.findall(text):
        to = _TO.search(head)
        if to:
            yield "call", said, to[1]
        else:
            yield ("thinking" if channel == "analysis" else "text"), said, ""


def _beginning(text: str) -> str:
    short = " ".join(text[: 2 * SHOWN].split())
    return encodable(short if len(short) <= SHOWN else f"{short[:SHOWN]}…")


def encodable(text: str) -> str:
    """A text whose halves of surrogate pairs are joined; a half alone, which cannot be sent, is replaced."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
