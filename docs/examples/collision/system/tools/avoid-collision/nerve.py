#!/usr/bin/env python3
"""A nerve: what it senses is kept from one state to the next."""

import json
import sys
from pathlib import Path

SECONDS = 2.0  # to a collision, from which on the robot evades


def sense(call):
    """Read the simulated sensors."""
    seen = json.loads(Path(call["path"]).read_text())
    text = f"front {seen['front']} cm, left {seen['left']} cm, right {seen['right']} cm, {seen['speed']} cm/s"
    return text, seen


def evaluate(seen):
    """Decide whether to evade, and to which side."""
    seconds = seen["front"] / seen["speed"] if seen["speed"] else float("inf")
    if seconds > SECONDS:
        return f"no collision within {SECONDS:g} s: ignore", {**seen, "turn": ""}
    turn = "left" if seen["left"] > seen["right"] else "right"
    return f"collision in {seconds:.1f} s: evade to the {turn}", {**seen, "turn": turn}


def evade(seen):
    """Turn to the side that was decided."""
    if not seen["turn"]:
        raise ValueError("nothing to evade")
    return f"turned {seen['turn']}: front {seen[seen['turn']]} cm", {**seen, "front": seen[seen["turn"]]}


call = json.load(sys.stdin)
kept = call["kept"]
try:
    if call["action"] == "sense":
        result, kept = sense(call)
    elif call["action"] == "evaluate":
        result, kept = evaluate(kept)
    elif call["action"] == "evade":
        result, kept = evade(kept)
    else:
        result = f"goes on at {kept['speed']} cm/s, front {kept['front']} cm"
    print(json.dumps({"result": result, "keep": kept}))
except (OSError, ValueError, KeyError) as error:
    print(json.dumps({"error": f"{type(error).__name__}: {error}"}))
