"""The algorithm step by step, on evidence made by hand."""

import msgspec
import pytest

from epilog.attribute import attribute
from epilog.attribute.case import numbers, told
from epilog.classes import Act, classes
from epilog.model import Drain, Evidence, JobFacts, RankPlace, Role, TaskExit, Work
from epilog.signatures import load

NOBODY = JobFacts()


def seen(klass: str, role: Role = Role.ROOT, line: int = 1, **more: object) -> Evidence:
    return Evidence("job.log", line, role, klass, f"words of {klass}", **more)  # type: ignore[arg-type]


def stood(
    rank: int, enqueued: int, completed: int, group: str = "0(default_pg)", **more: object
) -> Work:
    return Work(rank, group, enqueued, completed, timeout_ms=600_000, at=1000.0, **more)  # type: ignore[arg-type]


# --- step 0


def test_what_stands_before_the_last_restart_is_left_out() -> None:
    evidence = [
        seen("user/cuda-oom", line=5, rank=1),
        seen("user/python-exception", line=50, rank=2),
    ]
    found = attribute(NOBODY, evidence, restarts={"job.log": 20})
    assert (found.klass, found.root.ranks) == ("user/python-exception", (2,))
    assert "1 lines of earlier attempts" in found.steps[0]


def test_facts_outside_of_the_jobs_time_are_left_out() -> None:
    facts = JobFacts(started_at=10_000.0, ended_at=20_000.0)
    old = Evidence("k", 1, Role.ROOT, "hardware/gpu-ecc", "", host="n1", at=5000.0, fact=True)
    late = Evidence("k", 2, Role.ROOT, "hardware/gpu-ecc", "", host="n1", at=90_000.0, fact=True)
    now = Evidence("k", 3, Role.ROOT, "hardware/gpu-hang", "", host="n2", at=15_000.0, fact=True)
    found = attribute(facts, [old, late, now])
    assert (found.klass, found.root.nodes, found.drain) == ("hardware/gpu-hang", ("n2",), Drain.YES)


# --- step 1


@pytest.mark.parametrize(
    ("first", "then", "klass"),
    [
        ("scheduler/time-limit", "user/python-exception", "scheduler/time-limit"),
        ("user/cuda-oom", "scheduler/time-limit", "user/cuda-oom"),
        ("scheduler/cancelled", "scheduler/preempted", "scheduler/preempted"),
        ("user/segfault", "scheduler/cancelled", "user/segfault"),
    ],
)
def test_a_reason_of_the_scheduler_counts_if_it_came_first(
    first: str, then: str, klass: str
) -> None:
    assert attribute(NOBODY, [seen(first, line=1), seen(then, line=2)]).klass == klass


def test_a_cancelled_step_after_a_time_out_is_the_teardown() -> None:
    evidence = [
        seen("unknown/nccl-timeout", Role.SYMPTOM, 1, rank=1),
        seen("scheduler/cancelled", Role.ROOT, 2),
    ]
    assert attribute(NOBODY, evidence).klass == "unknown/nccl-timeout"


def test_a_time_out_long_before_the_time_limit_is_the_cause() -> None:
    waited = seen("unknown/nccl-timeout", Role.SYMPTOM, 1, rank=0)
    limit = seen("scheduler/time-limit", line=9)
    works = [stood(r, 5, 3, op="ALLREDUCE") for r in (0, 1, 2)] + [stood(3, 3, 3)]
    found = attribute(NOBODY, [waited, limit], works)
    assert (found.klass, found.root.ranks) == ("user/desync", (3,))
    assert attribute(NOBODY, [msgspec.structs.replace(waited, line=20), limit], works).klass == (
        "scheduler/time-limit"
    )


def test_the_clock_tells_a_time_limit_that_no_line_names() -> None:
    facts = JobFacts(started_at=0.0, ended_at=3605.0, time_limit_at=3600.0)
    assert attribute(facts, []).klass == "scheduler/time-limit"
    assert attribute(facts, [seen("user/cuda-oom", rank=1)]).klass == "user/cuda-oom"


def test_a_state_told_by_slurm_does_not_hide_a_cause() -> None:
    state = Evidence(
        "scontrol show job", 0, Role.ROOT, "scheduler/time-limit", "", at=5000.0, fact=True
    )
    raised = seen("user/python-exception", rank=1, at=100.0)
    assert attribute(NOBODY, [state, raised]).klass == "scheduler/time-limit"
    assert attribute(NOBODY, [state, seen("user/cuda-oom", rank=1)]).klass == "user/cuda-oom"
    line = seen("scheduler/time-limit", line=9)
    assert attribute(NOBODY, [state, raised, line]).klass == "scheduler/time-limit"
    ended = seen("user/python-exception", Role.SYMPTOM, 5, fields={"exitcode": "1"})
    assert attribute(NOBODY, [state, raised, ended, line]).klass == "user/python-exception"
    lost = Evidence("state", 0, Role.ROOT, "scheduler/node-failure", "", fact=True)
    assert attribute(NOBODY, [lost]).drain is Drain.REVIEW


# --- step 2


def test_a_fact_beats_whatever_the_log_says() -> None:
    fact = Evidence("k", 1, Role.ROOT, "hardware/gpu-ecc", "Xid 48", host="n3", fact=True)
    found = attribute(NOBODY, [seen("user/python-exception", rank=1), fact])
    assert (found.klass, found.root.nodes, found.drain) == ("hardware/gpu-ecc", ("n3",), Drain.YES)
    assert found.confidence > 0.9


def test_the_gpu_names_the_rank_where_there_is_a_map() -> None:
    facts = JobFacts(
        ranks=(RankPlace(4, "n1", 0, "0000:1b:00.0"), RankPlace(5, "n1", 1, "0000:43:00.0"))
    )
    fact = Evidence(
        "k",
        1,
        Role.ROOT,
        "hardware/gpu-ecc",
        "",
        host="n1",
        fields={"gpu": "0000:43:00.0"},
        fact=True,
    )
    found = attribute(facts, [fact])
    assert (found.root.ranks, found.root.gpus) == ((5,), ("0000:43:00.0",))


def test_a_lesser_fact_counts_only_where_no_text_tells_a_cause() -> None:
    fact = Evidence("k", 1, Role.SYMPTOM, "hardware/gpu-pcie", "", host="n1", fact=True)
    assert attribute(NOBODY, [fact, seen("user/cuda-oom", rank=1)]).klass == "user/cuda-oom"
    alone = attribute(NOBODY, [fact])
    assert (alone.klass, alone.drain) == ("hardware/gpu-pcie", Drain.REVIEW)


# --- step 3


def test_a_local_nan_comes_before_every_other_cause() -> None:
    evidence = [seen("user/segfault", line=1, rank=1), seen("user/nan", line=9, rank=6)]
    assert attribute(NOBODY, evidence).root.ranks == (6,)


def test_of_many_with_nan_the_earliest_is_the_root() -> None:
    evidence = [
        seen("user/nan", line=r, rank=r, host="n1", at=100.0 + abs(r - 5)) for r in range(8)
    ]
    assert attribute(NOBODY, evidence).root.ranks == (5,)


def test_what_all_ranks_raise_is_not_what_one_raised_first() -> None:
    evidence = [
        Evidence("l", r, Role.ROOT, "user/python-exception", "RuntimeError: peer 9 gone", rank=r)
        for r in (0, 1, 3)
    ]
    evidence.append(Evidence("l", 9, Role.ROOT, "user/python-exception", "KeyError: 'x'", rank=2))
    assert attribute(NOBODY, evidence).root.ranks == (2,)


def test_a_crash_clearly_later_than_anothers_exception_is_not_the_root() -> None:
    evidence = [
        seen("user/segfault", line=9, rank=3, at=130.0),
        seen("user/python-exception", line=1, rank=1, at=100.0),
    ]
    assert attribute(NOBODY, evidence).root.ranks == (1,)


def test_signal_9_after_a_time_out_is_the_teardown() -> None:
    evidence = [
        seen("unknown/nccl-timeout", Role.SYMPTOM, 1, rank=0),
        seen("unknown/sigkill", Role.ROOT, 5, rank=3, signature="slurm-task-killed"),
    ]
    assert attribute(NOBODY, evidence).klass == "unknown/nccl-timeout"


def test_signal_9_needs_proof_to_be_the_memory() -> None:
    killed = seen("unknown/sigkill", rank=2, host="n1", signature="torchrun-failure-exitcode")
    assert attribute(NOBODY, [killed]).klass == "unknown/sigkill"
    proof = seen("user/host-oom", line=2)
    found = attribute(NOBODY, [killed, proof])
    assert (found.klass, found.root.ranks, found.root.nodes) == ("user/host-oom", (2,), ("n1",))


def test_the_exit_record_names_who_died_first() -> None:
    exits = [TaskExit(r, "n1", None, 9, 100.0 + 30 * (r != 2), True) for r in range(4)]
    works = [stood(r, 5, 3, op="ALLREDUCE") for r in (0, 1, 3)]
    found = attribute(JobFacts(world_size=4, exits=tuple(exits)), [], works)
    assert (found.klass, found.root.ranks, found.root.nodes) == ("unknown/sigkill", (2,), ("n1",))


# --- step 4


def test_groups_are_never_mixed() -> None:
    works = [stood(r, 100, 98) for r in range(4)] + [stood(r, 7, 7, "3(tensor)") for r in range(4)]
    found = attribute(NOBODY, [], works)
    assert (found.klass, found.root.ranks) == ("unknown/nccl-timeout", ())


def test_one_group_has_one_name_in_every_release() -> None:
    works = [
        stood(0, 10, 8, "0 (default_pg)"),
        stood(1, 10, 8, "PG 0"),
        stood(2, 8, 8, "default_pg"),
    ]
    works.append(stood(3, 10, 8, "PG ID 0 PG GUID 0(default_pg)"))
    assert attribute(NOBODY, [], works).root.ranks == (2,)


def test_numbers_of_groups_that_are_not_named_are_not_compared() -> None:
    works = [stood(0, 10, 8, "unknown"), stood(1, 99, 97, "unknown"), stood(2, 99, 97, "unknown")]
    assert attribute(NOBODY, [], works).klass == "unknown/nccl-timeout"


def test_waits_are_followed_through_groups() -> None:
    works = [stood(r, 20, 18) for r in (0, 1, 4, 5, 6, 7)]
    works += [stood(2, 18, 18), stood(3, 18, 18)]
    works += [stood(2, 6, 4, "2(pipe)"), stood(3, 6, 4, "2(pipe)"), stood(9, 4, 4, "2(pipe)")]
    found = attribute(NOBODY, [], works)
    assert found.root.ranks == (9,)
    assert any("0 → 2" in step for step in found.steps)


def test_two_groups_that_wait_for_each_other_are_a_deadlock() -> None:
    works = [
        stood(0, 5, 3, "1(a)"),
        stood(1, 3, 3, "1(a)"),
        stood(1, 9, 7, "2(b)"),
        stood(0, 7, 7, "2(b)"),
    ]
    found = attribute(NOBODY, [], works)
    assert found.klass == "user/desync"
    assert any("deadlock" in step for step in found.steps)


def test_waits_for_messages_are_followed_to_their_end() -> None:
    works = [stood(r, 20, 18) for r in (0, 1, 2, 3)] + [stood(4, 18, 18)]
    waits = [
        seen("unknown/hang", Role.SYMPTOM, r, rank=r, fields={"peer_rank": str(peer)})
        for r, peer in ((4, 5), (5, 6))
    ]
    found = attribute(NOBODY, waits, works)
    assert (found.klass, found.root.ranks) == ("unknown/hang", (6,))
    circle = [*waits, seen("unknown/hang", Role.SYMPTOM, 9, rank=6, fields={"peer_rank": "4"})]
    assert attribute(NOBODY, circle, works).root.ranks == (4,)


def test_a_tie_is_said_to_be_one() -> None:
    works = [stood(r, 5, 3, op="ALLREDUCE", numel_in=r // 2) for r in range(4)]
    found = attribute(NOBODY, [], works)
    assert found.root.ranks == (0, 1, 2, 3)
    assert found.confidence <= 0.7
    assert any("tie" in step for step in found.steps)


def test_sizes_of_a_gather_may_differ() -> None:
    works = [stood(r, 5, 3, op="GATHER", numel_in=r) for r in range(4)]
    assert attribute(NOBODY, [], works).klass == "unknown/nccl-timeout"


def test_silence_of_many_says_nothing() -> None:
    works = [stood(r, 5, 3, op="ALLREDUCE") for r in (4, 5)]
    assert attribute(JobFacts(world_size=8), [], works).root.ranks == ()


def test_who_left_with_exit_code_0_while_others_wait_took_another_turn() -> None:
    works = [stood(r, 5, 3, op="ALLREDUCE") for r in (0, 1, 3)]
    found = attribute(JobFacts(world_size=4), [], works, [TaskExit(2, "n1", 0)])
    assert (found.klass, found.root.ranks, found.root.nodes) == ("user/desync", (2,), ("n1",))


def test_a_save_that_begins_with_the_wait_is_what_was_waited_for() -> None:
    save = Evidence("l", 1, Role.SYMPTOM, "infrastructure/fs-slow", "saving checkpoint", at=400.5)
    late = Evidence("l", 1, Role.SYMPTOM, "infrastructure/fs-slow", "saving checkpoint", at=700.0)
    works = [stood(r, 5, 3, op="ALLREDUCE") for r in (5, 7)]
    assert attribute(NOBODY, [], works, context=[save]).klass == "infrastructure/fs-slow"
    assert attribute(NOBODY, [], works, context=[late]).klass == "unknown/nccl-timeout"


def test_tracebacks_tell_who_stood_in_another_collective() -> None:
    evidence = [
        seen(
            "unknown/hang", Role.SYMPTOM, r, rank=r,
            fields={"frame": "/x/torch/distributed/distributed_c10d.py:1", "call": call},
        )
        for r, call in enumerate(["all_reduce", "all_reduce", "broadcast", "all_reduce"])
    ]  # fmt: skip
    found = attribute(NOBODY, evidence)
    assert (found.klass, found.root.ranks) == ("user/desync", (2,))


# --- steps 5 to 8


def test_each_voter_has_one_vote() -> None:
    evidence = [
        seen("network/ib-retry", Role.SYMPTOM, n, host="n1", fields={"peer": "n8<4711>"})
        for n in range(9)
    ]
    evidence += [
        seen("network/ib-retry", Role.SYMPTOM, 20 + n, host=f"n{n}", fields={"peer": "n9"})
        for n in (2, 3)
    ]
    assert attribute(NOBODY, evidence).root.nodes == ("n9",)


def test_a_link_down_on_two_nodes_drains_none() -> None:
    facts = [
        Evidence("k", 1, Role.ROOT, "network/ib-link", "", host=host, fact=True)
        for host in ("a1", "a2")
    ]
    assert attribute(NOBODY, facts[:1]).drain is Drain.YES
    assert attribute(NOBODY, facts).drain is Drain.NO


def test_a_full_disk_of_the_node_wants_a_look_and_a_shared_one_does_not() -> None:
    local = seen("infrastructure/fs-full", rank=1, fields={"path": "/tmp/x"})
    shared = seen("infrastructure/fs-full", rank=1, fields={"path": "/home/user/x"})
    assert attribute(NOBODY, [local]).drain is Drain.REVIEW
    assert attribute(NOBODY, [shared]).drain is Drain.NO


# --- places


def test_blocks_of_tasks_in_slurms_order() -> None:
    facts = JobFacts(nodes=("node10", "node2"), tasks_per_node=(2, 2))
    assert attribute(facts, [seen("user/cuda-oom", rank=3)]).root.nodes == ("node2",)


def test_torchrun_sorts_nodes_by_name() -> None:
    facts = JobFacts(nodes=("node2", "node10"), tasks_per_node=(1, 1), world_size=8)
    agent = seen("unknown/peer-died", Role.CONSEQUENCE, signature="torchrun-closing-signal")
    found = attribute(facts, [seen("user/cuda-oom", rank=1), agent])
    assert found.root.nodes == ("node10",)


def test_a_map_beats_a_line_and_a_line_beats_arithmetic() -> None:
    facts = JobFacts(nodes=("a1", "a2"), tasks_per_node=(2, 2))
    line = seen("user/cuda-oom", rank=1, host="a2")
    assert attribute(facts, [line]).root.nodes == ("a2",)
    mapped = attribute(facts, [seen("user/cuda-oom", rank=1)], places=[RankPlace(1, "a2")])
    assert mapped.root.nodes == ("a2",)


def test_a_name_that_is_no_node_of_the_job_is_not_its_node() -> None:
    facts = JobFacts(nodes=("a1", "a2"), tasks_per_node=(2, 2))
    found = attribute(facts, [seen("user/cuda-oom", rank=3, host="container-7f")])
    assert found.root.nodes == ("a2",)


def test_a_label_is_a_rank_but_under_torchrun_a_node() -> None:
    labelled = seen("user/cuda-oom", label=1)
    assert attribute(NOBODY, [labelled]).root.ranks == (1,)
    agent = seen("unknown/peer-died", Role.CONSEQUENCE, signature="torchrun-closing-signal")
    found = attribute(JobFacts(nodes=("a1", "a2")), [labelled, agent])
    assert (found.root.ranks, found.root.nodes) == ((), ("a2",))


def test_a_local_rank_tells_who_shares_its_node() -> None:
    table = seen("unknown/peer-died", Role.CONSEQUENCE, rank=15, local_rank=7, host="a2")
    found = attribute(NOBODY, [seen("user/cuda-oom", rank=9), table])
    assert found.root.nodes == ("a2",)


# --- words and data


def test_ranks_are_told_in_ranges() -> None:
    assert told([3]) == "rank 3"
    assert told([0, 1, 2, 5]) == "ranks 0 to 2, 5"
    assert told([]) == "no rank"
    assert told(range(0, 60, 2), most=2) == "ranks 0, 2 and 28 more"


@pytest.mark.parametrize(
    ("text", "ranks"),
    [
        ("4, 6", (4, 6)), ("0-3,7", (0, 1, 2, 3, 7)), ("", ()), (None, ()), ("x, -1", ()),
        ("5-2", ()), ("99999999999", ()), ("0-", (0,)),
    ],
)  # fmt: skip
def test_lists_of_ranks_are_read_whatever_they_hold(
    text: str | None, ranks: tuple[int, ...]
) -> None:
    assert numbers(text) == ranks
    assert len(numbers("0-9999999")) <= 65_536


def test_every_class_a_signature_names_is_known_here() -> None:
    assert load().classes <= set(classes())


def test_classes_hold_what_the_rules_demand() -> None:
    for name, entry in classes().items():
        category = name.partition("/")[0]
        assert 0 < entry.confidence <= entry.proven <= 1, name
        assert entry.advice.endswith("."), name
        if category == "unknown":
            assert entry.confidence <= 0.5 and entry.drain is Drain.NO, name
        if category in ("user", "unknown"):
            assert entry.drain is Drain.NO, name
        assert entry.text_action is not Act.DRAIN, name
        if entry.proven_action is Act.DRAIN:
            assert entry.drain is Drain.YES, name


def test_every_step_leaves_its_words() -> None:
    steps = attribute(NOBODY, []).steps
    assert steps[0].startswith("0 last attempt")
    assert [s.partition(" ")[0] for s in steps[-2:]] == ["7", "8"]
    assert all(": " in step for step in steps)
