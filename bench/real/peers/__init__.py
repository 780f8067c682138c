"""One script for each agent: `python SCRIPT TASK URL MODEL SECONDS` does a task in the current folder.

Each prints one line of JSON: `answer`, `claims` (whether it says that the task is done), `calls`,
`prompt_tokens` and `completion_tokens`. All but `fractal_agent` run in an environment of their own, without
this package.
"""
