"""The same job with other agent frameworks: CPU and memory of whole processes, with a model behind HTTP."""
