"""What came of the times that a procedure was used, and when it was rejected too often."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

QUARANTINE_USES = 2
QUARANTINE_REJECTED = 0.6
"""A tree that is rejected more often than this, after so many uses, is not recalled. Source: memory.md."""


class Ledger(BaseModel):
    """What came of the times that a procedure was used; a use counts as much as its judge is trusted."""

    model_config = ConfigDict(frozen=True)

    uses: int = 0
    correct: int | float = 0
    incorrect: int | float = 0
    forgiven: tuple[int, int | float, int | float] = (0, 0, 0)  # uses, correct, incorrect up to a release

    @property
    def confidence(self) -> float:
        """How sure it is that the next use goes well: the mean of a Beta with one of each beforehand."""
        return (self.correct + 1) / (self.correct + self.incorrect + 2)

    @property
    def quarantined(self) -> bool:
        """Whether it failed too often since its last release to be used again before somebody has looked."""
        uses, correct, incorrect = self.forgiven
        right, wrong = max(self.correct - correct, 0), max(self.incorrect - incorrect, 0)
        return self.uses - uses >= QUARANTINE_USES and rejected(right, wrong)

    def after(self, good: bool, trust: float = 1.0, uses: int = 1) -> Ledger:
        """The ledger with one more use, or with one taken back where `uses` is -1."""
        return self.model_copy(
            update={
                "uses": max(self.uses + uses, 0),
                "correct": more(self.correct, uses * trust * good),
                "incorrect": more(self.incorrect, uses * trust * (not good)),
            }
        )

    def released(self) -> Ledger:
        """The ledger out of quarantine: what came before no longer keeps the procedure in it."""
        return self.model_copy(update={"forgiven": (self.uses, self.correct, self.incorrect)})


def rejected(right: float, wrong: float) -> bool:
    """Whether too large a share went wrong."""
    return right + wrong > 0 and wrong / (right + wrong) > QUARANTINE_REJECTED


def more(count: float, by: float) -> int | float:
    """A count with more or less in it: never below nothing, and whole where it is whole.

    Rounded, so that what is taken back later leaves nothing behind.
    """
    made = round(float(max(count + by, 0)), 6)
    return int(made) if made.is_integer() else made
