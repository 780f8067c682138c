"""The Agent Client Protocol: Fractal as an agent of editors."""
