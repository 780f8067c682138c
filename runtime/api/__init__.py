"""A workspace's memory in use: by its runs (`runs`), by people and tools (the other modules)."""
