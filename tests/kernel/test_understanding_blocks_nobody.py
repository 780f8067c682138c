"""A large folder is read beside the event loop: other runs of the process go on meanwhile."""

from __future__ import annotations

import asyncio
from pathlib import Path
from threading import Event

from kernel.asking.responder import Ladder
from kernel.document.model import Document, Meta
from kernel.loop.hooks import Hooks
from kernel.loop.run_context import RunContext, Session
from kernel.loop.turn import begin
from kernel.store.call_log import ReplyLog
from kernel.store.files import FileStore
from runtime.api.fractal import shipped_system
from runtime.catalogue.catalogue import Catalogue
from runtime.models.scripted import Scripted
from runtime.sandbox.sandbox import Sandbox


class LargeFolder(Hooks):
    """Its folder is read when somebody else has gone on."""

    def __init__(self) -> None:
        self.others = Event()
        self.read = False

    def understand(self, session: Session, characters: int) -> tuple[str, str]:
        self.read = self.others.wait(20)
        return "a.py", "## a.py"


async def test_others_go_on_while_a_folder_is_read(folder: Path) -> None:
    (folder / "artifacts").mkdir()
    large, model = LargeFolder(), Scripted([])
    context = RunContext(
        "abc123",
        folder,
        FileStore(folder),
        ReplyLog(folder / "calls.jsonl"),
        Catalogue([shipped_system()]),
        Ladder((model,)),
        Sandbox("off"),
        folder / "artifacts",
        hooks=large,
    )
    session = Session(context, Document(Meta("system-abc123", "abc123")))
    begun = asyncio.create_task(begin(session, model))
    await asyncio.sleep(0)
    large.others.set()
    assert await begun == 1
    assert large.read
    assert session.doc.text(1, "shown") == "a.py"
