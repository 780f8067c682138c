"""How reflexes are read from markdown, matched with a task, and turned into a plan.

From the ground up: `slots`, `values`, `names` and `exact` (kinds of slots), `phrasing`, `procedure` (the
files), `meaning` (tasks in other words), `matching` (the one function `match`), `templates`, `planning`.
"""
