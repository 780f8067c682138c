"""The Model Context Protocol: the tools of the servers in `.mcp.json`, and Fractal as a server.

The SDK is the package `mcp`; the client imports it when it first connects to a server.
"""
