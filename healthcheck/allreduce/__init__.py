"""The all_reduce test: bandwidth and consistency of the GPUs of a node, always in a child.

The only code that touches torch lies in `worker/`, and is executed by path in a process of its
own. Everything else here plans, supervises, judges who was wrong, and remembers.
"""
