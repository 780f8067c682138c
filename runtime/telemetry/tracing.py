"""Traces: a run as spans of OpenTelemetry, made from its documents and its log of calls once it has ended.

Nothing is collected while a run works, so no kill loses a span, and a run that several processes worked on is
one trace. Its id is in META (`trace`); the ids of its spans are hashes of what they stand for.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import logging
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernel.document.escaping import to_json
from kernel.document.model import ACCEPTED, Document, Meta, root_id
from kernel.document.redaction import redacted
from kernel.errors import ConfigurationError
from kernel.store.files import FileStore
from runtime import __version__
from runtime.secrets.redaction import redact
from runtime.telemetry import conventions as names

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

ENVIRONMENT = "env"
"""The value of the setting `otel` that leaves address and headers to the standard `OTEL_EXPORTER_OTLP_*`."""
_VARIABLES = re.compile("OTEL_(PYTHON_)?EXPORTER_OTLP_")
TIMEOUT = 3.0
"""Seconds that an export may take, retries included; the process waits so long for it when it ends."""
QUEUE = 100_000
"""Spans that wait to be sent; a run of thousands of calls hands over all of its spans at once."""
PLANS = ("plan", "fused")
"""The phases whose calls are planning."""
_TRACEPARENT = re.compile("[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})")


@dataclass(frozen=True)
class Call:
    """One call of a model, from the log: `end` is None where a killed process did not see it end."""

    loop: str
    attempt: int
    phase: str
    key: str
    rung: str
    start: str
    end: str | None = None
    model: str = ""
    text: str = ""
    why: str = ""  # it failed
    usage: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Trace:
    """The trace of a run: its id, the id of the caller's span (0: none), and whether it is sampled."""

    id: int
    parent: int
    sampled: bool

    def span(self, *what: object) -> int:
        """The id of the span that stands for something in this trace."""
        return int(_digest(f"{self.id:032x}", *what)[:16], 16)


def require() -> None:
    """Raise `ConfigurationError` if the packages for traces are not installed."""
    if find_spec("opentelemetry") is None or find_spec("opentelemetry.sdk") is None:
        raise ConfigurationError("otel: OpenTelemetry is not installed; pip install 'fractal-runtime[otel]'")


def valid_traceparent(given: str) -> str:
    """A caller's W3C `traceparent`; "" for none, or a malformed one."""
    return given if _TRACEPARENT.fullmatch(given) else ""


def own_traceparent(meta: Meta) -> str:
    """The W3C `traceparent` of a run's own span."""
    trace = Trace(int(_digest(meta.run, meta.created)[:32], 16), 0, True)
    return f"00-{trace.id:032x}-{trace.span(meta.run):016x}-01"


def send(folder: Path, otel: str, *, content: bool) -> None:
    """Send the spans of a run that has ended, in the background. Raises `FractalError`.

    `otel` is the setting: the address of a collector, or `ENVIRONMENT`. With `content`, they have texts.
    """
    for span in spans(folder, content=content):
        _processor(otel).on_end(span)  # it leaves out what the caller's trace does not sample


@cache
def _processor(otel: str) -> BatchSpanProcessor:
    """What sends spans to a collector, until the process ends."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult

    class Exporter(OTLPSpanExporter):
        failed = 0

        def export(self, spans: Any) -> SpanExportResult:
            result = super().export(spans)
            self.failed += 0 if result is SpanExportResult.SUCCESS else len(spans)
            return result

    address = None
    others: dict[str, str] = {}
    if otel != ENVIRONMENT:  # then headers and keys of the environment are meant for somebody else
        address = otel if otel.endswith("/v1/traces") else f"{otel.rstrip('/')}/v1/traces"
        others = {name: os.environ.pop(name) for name in [*os.environ] if _VARIABLES.match(name)}
    try:
        exporter = Exporter(endpoint=address, timeout=TIMEOUT)
    finally:
        os.environ.update(others)
    logging.getLogger("opentelemetry").addHandler(logging.NullHandler())  # else retries are shown
    processor = BatchSpanProcessor(exporter, max_queue_size=QUEUE)

    def finish() -> None:
        processor.shutdown()
        if exporter.failed:
            where = address or "the collector of OTEL_EXPORTER_OTLP_ENDPOINT"
            text = f"warning: {exporter.failed} spans were not sent: {where} does not take them"
            print(redact(text), file=sys.stderr)

    _finish.append(finish)
    return processor


_finish: list[Callable[[], None]] = []


@atexit.register
def finish() -> None:
    """Send what is left, before the process ends; a program that leaves by `os._exit` calls it itself."""
    while _finish:
        _finish.pop()()


def spans(folder: Path, *, content: bool) -> list[ReadableSpan]:
    """The spans of the run in `folder`: of the run, its loops, their plans, calls and operations."""
    store = FileStore(folder)
    documents = {loop: store.peek(loop) for loop in store.list()}
    return list(_Spans(documents, list(calls(folder / "calls.jsonl")), content).all())


def calls(path: Path) -> Iterator[Call]:
    """The calls in a log. Lines that cannot be read are left out: a run that resumes reports them."""
    begun: dict[str, Call] = {}
    for line in path.read_bytes().splitlines() if path.is_file() else ():
        try:
            record = json.loads(line)
            kind, key, ts = record["kind"], str(record["key"]), record["ts"]
            if kind == "asked":
                if key in begun:
                    yield begun.pop(key)  # in flight when the process was killed
                loop, attempt, phase, *_ = key.split("/")
                begun[key] = Call(loop, int(attempt), phase, key, record["rung"], ts)
            elif kind in ("replied", "failed") and key in begun:
                told = {
                    "text": record.get("text", ""),
                    "why": record.get("why", ""),
                    "usage": record["usage"],
                }
                call = begun.pop(key)
                if not told["why"].startswith("waits for "):  # a person has not answered yet
                    yield Call(**{**vars(call), **told, "end": ts, "model": record.get("model", "")})
        except (ValueError, KeyError, TypeError, AttributeError):
            continue
    yield from begun.values()


class _Spans:
    """Makes the spans of one run."""

    def __init__(self, documents: Mapping[str, Document], calls: list[Call], content: bool) -> None:
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope

        self.documents, self.calls, self.content = documents, calls, content
        self.root = next(each for each in documents.values() if each.meta.id == root_id(each.meta.run))
        self.run = self.root.meta.run
        self.trace = _trace(self.root.meta)
        self._resource = Resource.create({"service.name": "fractal", "service.version": __version__})
        url = f"https://github.com/open-telemetry/semantic-conventions-genai/tree/{names.COMMIT}"
        self._scope = InstrumentationScope("fractal", __version__, attributes={"fractal.conventions": url})

    def all(self) -> Iterator[ReadableSpan]:
        """Every span, parents before children."""
        yield self._of_run()
        for document in self.documents.values():
            yield self._of_operation(document) if document.meta.operation else self._of_loop(document)
        yield from self._of_plans()
        yield from map(self._of_call, self.calls)

    def _of_run(self) -> ReadableSpan:
        meta = self.root.meta
        found = {**self._amounts(meta), "fractal.agent": meta.extra.get("agent", "default")}
        return self._of_meta(names.INVOKE_WORKFLOW, "", (self.run,), None, meta, found)

    def _of_loop(self, document: Document) -> ReadableSpan:
        meta = document.meta
        parent = (meta.parent,) if meta.parent in self.documents else (self.run,)
        found = {names.AGENT_NAME: meta.type, names.AGENT_ID: meta.id, "fractal.depth": meta.depth}
        found |= self._amounts(meta)
        if self.content:
            found[names.INPUT_MESSAGES] = _message("user", document.text(1, "task"))
            found[names.OUTPUT_MESSAGES] = _message("assistant", document.text(5, "result"))
        return self._of_meta(names.INVOKE_AGENT, meta.type, (meta.id,), parent, meta, found)

    def _of_operation(self, document: Document) -> ReadableSpan:
        meta = document.meta
        found: dict[str, Any] = {names.TOOL_NAME: meta.type}
        if self.content:
            found[names.TOOL_ARGUMENTS] = document.text(1, "task").removeprefix(f"{meta.type} ")
            found[names.TOOL_RESULT] = document.text(5, "result") or document.text(5, "error")
        return self._of_meta(names.EXECUTE_TOOL, meta.type, (meta.id,), (meta.parent,), meta, found)

    def _of_meta(
        self,
        operation: str,
        of: str,
        what: tuple[object, ...],
        parent: tuple[object, ...] | None,
        meta: Meta,
        found: Mapping[str, Any],
    ) -> ReadableSpan:
        failure = "" if meta.status in ACCEPTED else meta.status
        return self._span(operation, of, what, parent, (meta.created, meta.updated), found, failure)

    def _of_plans(self) -> Iterator[ReadableSpan]:
        planned: dict[tuple[str, int], list[Call]] = {}
        for call in self.calls:
            if call.phase in PLANS:
                planned.setdefault((call.loop, call.attempt), []).append(call)
        for (loop, attempt), made in planned.items():
            times = (min(each.start for each in made), max(each.end or each.start for each in made))
            found, failure = {"fractal.attempt": attempt}, made[-1].why and "failed"
            what = (loop, "plan", attempt)
            yield self._span(names.PLAN, "", what, self._loop(loop), times, found, failure)

    def _of_call(self, call: Call) -> ReadableSpan:
        model = call.model or call.rung
        usage = call.usage or {}
        found: dict[str, Any] = {
            names.PROVIDER: names.provider(call.rung),
            names.REQUEST_MODEL: model,
            names.RESPONSE_MODEL: call.model or None,
            names.INPUT_TOKENS: usage.get("prompt_tokens"),
            names.CACHED_TOKENS: usage.get("cached_tokens"),
            names.OUTPUT_TOKENS: usage.get("completion_tokens"),
            "fractal.rung": call.rung,
            "fractal.phase": call.phase,
            "fractal.attempt": call.attempt,
            "fractal.usd": usage.get("usd"),
            "fractal.lifeforce": usage.get("lifeforce"),
        }
        if self.content and call.text:
            found[names.OUTPUT_MESSAGES] = _message("assistant", call.text)
        failure = "interrupted" if call.end is None else "failed" if call.why else ""
        parent = (call.loop, "plan", call.attempt) if call.phase in PLANS else self._loop(call.loop)
        what, times = (call.key, call.start), (call.start, call.end or call.start)
        return self._span(names.CHAT, model, what, parent, times, found, failure, client=True)

    def _loop(self, loop: str) -> tuple[object, ...]:
        """What stands for a loop; what oversight is asked belongs to the run."""
        return (loop,) if loop in self.documents else (self.run,)

    def _amounts(self, meta: Meta) -> dict[str, Any]:
        """Status, cost and budget of a loop."""
        spent, budget = meta.spent, meta.budget
        return {
            names.INPUT_TOKENS: spent.get("prompt_tokens"),
            names.CACHED_TOKENS: spent.get("cached_tokens"),
            names.OUTPUT_TOKENS: spent.get("completion_tokens"),
            "fractal.status": meta.word,
            **{f"fractal.{key}": spent.get(key) for key in ("calls", "usd", "seconds", "lifeforce")},
            **{
                f"fractal.budget.{key}": budget.get(key)
                for key in ("calls", "tokens", "usd", "seconds", "lifeforce")
            },
        }

    def _span(
        self,
        operation: str,
        of: str,
        what: tuple[object, ...],
        parent: tuple[object, ...] | None,
        times: tuple[str, str],
        found: Mapping[str, Any],
        failure: str,
        *,
        client: bool = False,
    ) -> ReadableSpan:
        from opentelemetry.sdk.trace import ReadableSpan  # a tracer would give random ids
        from opentelemetry.trace import SpanKind, Status, StatusCode

        start, end = map(_nanoseconds, times)
        above = self.trace.parent if parent is None else self.trace.span(*parent)
        attributes = {names.OPERATION: operation, names.CONVERSATION: self.run, **found}
        attributes |= {names.ERROR_TYPE: failure} if failure else {}
        return ReadableSpan(
            redact(f"{operation} {of}".rstrip()),
            self._context(self.trace.span(*what)),
            self._context(above, remote=parent is None) if above else None,
            self._resource,
            redacted({key: value for key, value in attributes.items() if value is not None}, redact),
            kind=SpanKind.CLIENT if client else SpanKind.INTERNAL,
            status=Status(StatusCode.ERROR if failure else StatusCode.UNSET),
            start_time=start,
            end_time=max(start, end),
            instrumentation_scope=self._scope,
        )

    def _context(self, span: int, *, remote: bool = False) -> Any:
        from opentelemetry.trace import SpanContext, TraceFlags

        return SpanContext(self.trace.id, span, remote, TraceFlags(int(self.trace.sampled)))


def _trace(meta: Meta) -> Trace:
    """The trace of the run with this META: one that was started without traces has an id of its own, too."""
    kept = valid_traceparent(str(meta.extra.get("trace", "")))
    parts = _TRACEPARENT.fullmatch(kept or own_traceparent(meta))
    assert parts
    id, span, flags = (int(each, 16) for each in parts.groups())
    trace = Trace(id, span, bool(flags & 1))
    own = trace.span(meta.run) == span
    return Trace(id, 0 if own else span, trace.sampled)


def _message(role: str, text: str) -> str:
    return to_json([{"role": role, "parts": [{"type": "text", "content": text}]}])


def _nanoseconds(text: str) -> int:
    """A time of a document in nanoseconds since 1970; 0 if it is none."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return 0
    since = time.replace(tzinfo=time.tzinfo or UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    return since // timedelta(microseconds=1) * 1000


def _digest(*what: object) -> str:
    return hashlib.sha256("\0".join(map(str, what)).encode("utf-8", "surrogatepass")).hexdigest()
