"""The operations beside the kernel's read, write and bash; each is described in `system/operations/`."""
