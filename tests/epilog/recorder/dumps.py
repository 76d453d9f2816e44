"""NCCL dumps as torch writes them, built by hand: no GPU is needed to have one."""

import io
import pickle

from epilog.recorder import read_dumps

RANKS = 4


def entry(seq, op="nccl:all_reduce", size=10, dtype="Float", done=True, group="0", **more):
    return {
        "frames": [
            {"name": "all_reduce", "filename": "/opt/x/torch/distributed/c10d.py", "line": 1},
            {"name": "step", "filename": "/home/u/train.py", "line": 40 + seq},
        ],
        "record_id": seq,
        "pg_id": 0,
        "process_group": (group, "default_pg"),
        "collective_seq_id": seq,
        "p2p_seq_id": 0,
        "op_id": seq,
        "profiling_name": op,
        "time_created_ns": 1_796_000_000_000_000_000 + seq,
        "input_sizes": [[size]],
        "output_sizes": [[size]],
        "input_dtypes": [dtype],
        "output_dtypes": [dtype],
        "state": "completed" if done else "started",
        "time_discovered_started_ns": 1,
        "time_discovered_completed_ns": 1_796_000_000_000_000_009 if done else None,
        "retired": done,
        "timeout_ms": 600_000,
        "is_p2p": False,
        **more,
    }


def dump(entries, *, ranks=range(RANKS), version="2.10", config=None, **more):
    enqueued = max((e["collective_seq_id"] for e in entries), default=0)
    completed = max(
        (e["collective_seq_id"] for e in entries if e["state"] == "completed"), default=0
    )
    return {
        "version": version,
        "pg_config": config
        if config is not None
        else {"0": {"name": "0", "desc": "default_pg", "ranks": str(list(ranks))}},
        "pg_status": {
            "0": {
                "last_enqueued_collective": enqueued,
                "last_started_collective": enqueued,
                "last_completed_collective": completed,
            }
        },
        "entries": entries,
        **more,
    }


def read(by_rank, encode=lambda d: pickle.dumps(d, 2), name="nccl_trace_rank_{}", deadline=None):
    files = [(name.format(rank), io.BytesIO(encode(d))) for rank, d in by_rank.items()]
    return read_dumps(files, deadline)
