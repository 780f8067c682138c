"""Lets a small model take a turn: each question to it asks one thing, and code decides the rest.

A model of one or two billion parameters cannot write a plan as one JSON object. It can answer a question in
a sentence, write a file in a code block, and choose among alternatives. `micro` is the responder; `task`
reads what the task names; `plans`, `calls` and `verdicts` answer the asks turn, do and check; `checks` are
the success criteria that code derives; `remembered` is what memory offers for a question. The instructions
are in `system/phases/micro/`.
"""
