"""Telling people: a program of the site's for each event, and a structured line in the journal.

Never in the path of a prolog: events wait in the node's own log, and the health program, or
`flightcheck notify` from a timer, hands them over.
"""
