"""Everything around the kernel's loop: models, operations, memory, the command line."""

__version__ = "0.1.0"
