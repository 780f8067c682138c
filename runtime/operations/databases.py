"""The former module of `query_sqlite`: tool files that were copied into a workspace still name it."""

from runtime.operations.database import query_sqlite

__all__ = ["query_sqlite"]
