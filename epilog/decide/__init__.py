"""From an attribution to what is done: drain, suspect, requeue, tell. Pure, but for the store.

`decision.decide` is the one question; `suspicions` remembers what text said about nodes until
their own facts or a second, unrelated job confirm it; `requeue` says whether a job may run again.
"""

from epilog.decide.decision import Decision, Policy, decide
from epilog.decide.requeue import RequeuePolicy, may_requeue
from epilog.decide.suspicions import Suspicion, confirmed

__all__ = [
    "Decision",
    "Policy",
    "RequeuePolicy",
    "Suspicion",
    "confirmed",
    "decide",
    "may_requeue",
]
