"""A simulated NVML: a C library that answers the real pynvml from a text file.

`model` says what a simulated driver and its GPUs are, `state` writes that down
for the library to read, `build` compiles the library and installs it for a
node, `hgx` gives ready-made healthy machines.
"""
