"""The drill: every fault at every stage, and a rehearsal on a real node that changes nothing."""
