"""What is remembered: how things are done, what is known, what happened."""

RUNG = "memory"
"""What documents call the rung that answers from memory."""
DIRECT = "reflex"
"""The rung that memory's methods are read by, as what ships is."""
DREAM = "dream"
"""The type of a dream's document, and the tool that its steps call: memory's own work, which teaches it nothing."""
