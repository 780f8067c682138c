"""The names that `from fractal import …` offers, imported together when the first is used."""

from __future__ import annotations

from kernel.asking.responder import Ask as Ask
from kernel.asking.responder import Ladder as Ladder
from kernel.asking.responder import Reply as Reply
from kernel.asking.responder import Responder as Responder
from kernel.asking.responder import Usage as Usage
from kernel.document.model import Document as Document
from kernel.errors import ConfigurationError as ConfigurationError
from kernel.errors import DocumentError as DocumentError
from kernel.errors import Exit as Exit
from kernel.errors import ForeignEdit as ForeignEdit
from kernel.errors import FractalError as FractalError
from kernel.errors import LimitReached as LimitReached
from kernel.errors import OperationFailed as OperationFailed
from kernel.errors import ProviderError as ProviderError
from kernel.errors import RunLocked as RunLocked
from kernel.errors import StorageError as StorageError
from kernel.errors import UsageError as UsageError
from kernel.events import Event as Event
from kernel.tools.operations import Result as Result
from kernel.tools.operations import Touch as Touch
from runtime.api.fractal import Fractal as Fractal
from runtime.api.fractal import shipped_system as shipped_system
from runtime.models.replay import Replay as Replay
from runtime.models.scripted import Scripted as Scripted
from runtime.reflexes.reflex import Reflex as Reflex
from runtime.sandbox.context import OperationContext as OperationContext
from runtime.sandbox.context import operation as operation
from runtime.workspace.deciders import PROGRAM as PROGRAM
from runtime.workspace.deciders import Decider as Decider
from runtime.workspace.inbox import Person as Person
from runtime.workspace.inbox import Said as Said
from runtime.workspace.runs import RunResult as RunResult
from runtime.workspace.settings import Config as Config
