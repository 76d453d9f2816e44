"""Reading a user's files with the user's rights: a bounded child, plain data back.

`Reader(errand).collect()` is the way in; `as_user` runs one small act with the user's rights.
"""
