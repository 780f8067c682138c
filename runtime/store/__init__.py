"""One shelf for every record: put, get, delete, scan, nearest by vector, search by text, in transactions."""

from __future__ import annotations

from runtime.store.opening import open_shelf
from runtime.store.record import Between, Record, Where, pack
from runtime.store.shelf import Fault, Hit, Shelf

__all__ = ["Between", "Fault", "Hit", "Record", "Shelf", "Where", "open_shelf", "pack"]
