"""Everything around the kernel's loop: models, operations, memory, the command line."""

__version__ = "0.1.0"

from runtime.own import stand_guard

stand_guard()  # every way into Fractal comes by here, before it imports anything that is not its own

from runtime.secrets import protect  # noqa: E402 (behind the guard)

protect()  # so no part of Fractal stores or shows a text with its secrets
