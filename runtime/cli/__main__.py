"""`python -m runtime.cli` is `fractal`."""

from runtime.cli import main

main()
