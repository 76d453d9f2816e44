"""What every node saw and what became of it: collected from the nodes' own logs into a database.

Rooms: export.py (what a node hands out), collect.py (the round trip), schema.py and store.py (the
database), signals.py, lemons.py and rates.py (pure judgement over it), tables.py (text).
"""
