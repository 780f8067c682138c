"""Fractal for programs that speak the Model Context Protocol: `fractal mcp`."""
