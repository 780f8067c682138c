"""UNDERSTAND by code: what a task names in its folder, gathered before a model is asked."""

from runtime.understanding.gathering import Gathered, Shown, gather

__all__ = ["Gathered", "Shown", "gather"]
