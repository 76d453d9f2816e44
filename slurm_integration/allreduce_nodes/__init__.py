"""The all_reduce test across nodes: an agent on each, one of which coordinates and concludes.

Rooms: step (environment → Step) ; wire (JSON lines) ; agent (runs what it is told here) ;
coordinator (who is there, one test after the other) ; schedule and conclude (pure: which nodes to
test together next, what the figures mean) ; report (what people get) ; admin (from outside).
"""
