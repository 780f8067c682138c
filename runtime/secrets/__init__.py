"""What secrets are, by their form and by their value, and what a run keeps of them; tells the kernel so."""

from __future__ import annotations

from kernel.document.redaction import Secrets, use


def protect() -> None:
    """From now on the kernel hides the secrets of this process in all that it stores, shows or sends."""
    use(_secrets)


def _secrets() -> Secrets:
    from runtime.secrets import exact, redaction  # takes time, and a program may show nothing

    return Secrets(
        redaction.redactor,
        redaction.redact_values,
        redaction.named,
        redaction.across,
        redaction.divides,
        exact.of_run,
    )
