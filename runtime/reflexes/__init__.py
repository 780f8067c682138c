"""How reflexes are read from markdown, matched with a task, and turned into a plan.

From the ground up: `slots`, `surroundings` (what the folder shows), `values`, `names`, `columns` and `exact`
(kinds of slots), `phrasing`, `ellipsis` (what a part leaves out) and `intents`, `procedure` (the files),
`matching` (the one function `match`), `suggestions`, `templates`, `planning`.
"""
