"""PyTorch's flight recorder: dumps → Work and Evidence.

`read_dumps` is the way in. The files are a user's: they are read without pickle, bounded, and one
that is refused hides no other.
"""

from epilog.recorder.read import RecorderResult, read_dumps

__all__ = ["RecorderResult", "read_dumps"]
