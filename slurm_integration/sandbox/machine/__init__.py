"""Simulated machines: a folder that stands for a node, from /sys to libnvidia-ml.so.1.

`types` says what each node type has, `describe` makes a `Machine` of it, `files_*` say which
files that machine shows, `tree` writes them, and `live` builds, breaks and heals a folder.
"""
