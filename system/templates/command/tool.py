#!/usr/bin/env python3
"""Reads its arguments as a JSON object, prints {"result": …} or {"error": …}."""

import json
import sys


def main(text: str) -> str:
    """The arguments by their names; what it returns is the result."""
    return text[::-1]


if __name__ == "__main__":
    try:
        print(json.dumps({"result": main(**json.load(sys.stdin))}))
    except Exception as error:
        print(json.dumps({"error": f"{type(error).__name__}: {error}"}))
        sys.exit(1)
