"""The loop: one control structure, on markdown documents, for every level of a run.

These are the kernel's public names. Each is imported on first use, so that `import kernel` is cheap.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernel.asking.responder import Ask as Ask
    from kernel.asking.responder import Ladder as Ladder
    from kernel.asking.responder import Reply as Reply
    from kernel.asking.responder import Responder as Responder
    from kernel.asking.responder import Usage as Usage
    from kernel.asking.responder import Waits as Waits
    from kernel.document.markdown import render as render
    from kernel.document.model import Document as Document
    from kernel.document.model import Meta as Meta
    from kernel.document.model import Note as Note
    from kernel.document.model import Section as Section
    from kernel.document.model import Step as Step
    from kernel.document.parser import parse as parse
    from kernel.errors import Exit as Exit
    from kernel.errors import FractalError as FractalError
    from kernel.events import Event as Event
    from kernel.loop.advance import Outcome as Outcome
    from kernel.loop.budget import Bounds as Bounds
    from kernel.loop.budget import Waiting as Waiting
    from kernel.loop.clock import Clock as Clock
    from kernel.loop.criteria import shown_checks as shown_checks
    from kernel.loop.engine import Engine as Engine
    from kernel.loop.hooks import Hooks as Hooks
    from kernel.loop.hooks import Inbox as Inbox
    from kernel.loop.run_context import Policy as Policy
    from kernel.loop.run_context import RunContext as RunContext
    from kernel.store.call_log import ReplyLog as ReplyLog
    from kernel.store.files import FileStore as FileStore
    from kernel.tools.operations import Image as Image
    from kernel.tools.operations import Result as Result
    from kernel.tools.tool import Tool as Tool

_PUBLIC = {
    "asking.responder": ("Ask", "Ladder", "Reply", "Responder", "Usage", "Waits"),
    "document.markdown": ("render",),
    "document.model": ("Document", "Meta", "Note", "Section", "Step"),
    "document.parser": ("parse",),
    "errors": ("Exit", "FractalError"),
    "events": ("Event",),
    "loop.advance": ("Outcome",),
    "loop.budget": ("Bounds", "Waiting"),
    "loop.criteria": ("shown_checks",),
    "loop.clock": ("Clock",),
    "loop.engine": ("Engine",),
    "loop.hooks": ("Hooks", "Inbox"),
    "loop.run_context": ("Policy", "RunContext"),
    "store.call_log": ("ReplyLog",),
    "store.files": ("FileStore",),
    "tools.operations": ("Image", "Result"),
    "tools.tool": ("Tool",),
}
_MODULES = {name: module for module, names in _PUBLIC.items() for name in names}
__all__ = sorted(_MODULES)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
