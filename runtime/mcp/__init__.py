"""MCP servers that a person has named in `.mcp.json`: their tools, as tools of the catalogue.

The SDK is a package of nearly the same name, `mcp`; it is imported when a server is spoken to, not before.
"""
