"""How reflexes are read from markdown, matched with a task, and turned into a plan.

From the ground up: `tokens`, `slots`, `values` and `names` (kinds of slots), `kinds`, `phrasing`,
`templates`, `procedure` (the files), `walking` and `meaning` (tasks in other words),
`matching` (the one function `match`), `planning`.
"""
