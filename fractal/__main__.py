"""The command line: `fractal` and `python -m fractal`."""

from runtime.cli import main

__all__ = ["main"]

if __name__ == "__main__":
    main()
