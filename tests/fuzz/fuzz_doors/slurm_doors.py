"""What Slurm's programs print and what slurmd gives a hook: users choose words in all of it."""

import json

import msgspec
from door import door, encodable, environment_of, finite, harmless, text_of

from epilog.job_facts import all_nodes, build_facts, first_node, parse_show_job, slurms_end
from healthcheck.model import Job
from slurm_integration.allreduce_nodes.step import StepError, parse_aliases, read_step
from slurm_integration.budget import (
    Budget,
    Claim,
    count_seats,
    read_claim,
    with_claim,
    without_claim,
)
from slurm_integration.doctor.slurm_conf import parse_shown, parse_written
from slurm_integration.history.slurm_signs import (
    excluded_events,
    held_events,
    parse_excluded,
    untold,
)
from slurm_integration.job_env import read_job
from slurm_integration.node_state import parse_nodes
from slurm_integration.reason import as_reason, drain_reason, is_ours, take_apart
from slurm_integration.requalify.door import reserved_nodes
from slurm_integration.sweep.model import SweepError
from slurm_integration.sweep.nodeset import MAX_NODES, expand, fold

NODES = b"""\
NodeName=node01 Arch=x86_64 CoresPerSocket=1 CPUAlloc=0 CPUTot=2 AvailableFeatures=(null) NodeAddr=node01 NodeHostName=node01 Version=22.05.8 State=IDLE+DRAIN ThreadsPerCore=1 Partitions=debug,gpu BootTime=2026-12-01T07:00:00 Reason=flightcheck: no-go gpu-count: 7 of 8 GPUs visible [job 4711] [root@2026-12-01T08:00:00] Comment=rack 7 [flightcheck-claim 3 1796098259]
NodeName=node02 State=MIXED*+COMPLETING Partitions=gpu Comment=[flightcheck-claim 4 1796098260] Extra=x
NodeName=node03 State=DOWN Reason=power [admin@2026-12-01T08:00:00]
"""  # noqa: E501
JOB = b"""\
JobId=4711 ArrayJobId=4700 ArrayTaskId=3 JobName=train UserId=alice(1000) GroupId=alice(1000) MCS_label=N/A Priority=1 Nice=0 Account=(null) QOS=(null) JobState=COMPLETING Reason=NonZeroExitCode Dependency=(null) Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 ExitCode=1:9 RunTime=00:00:10 TimeLimit=1-02:00:00 TimeMin=N/A SubmitTime=2026-12-01T08:00:00 StartTime=2026-12-01T08:00:01 NodeList=node[01-02] NumNodes=2 NumCPUs=2 NumTasks=16 CPUs/Task=1 NtasksPerN:B:S:C=8:0:*:* Command=/home/a/x.sh WorkDir=/home/a b StdErr=/home/a b/%j.err StdIn=/dev/null StdOut=/home/a b/%j.out Power=
"""  # noqa: E501
HOOK = b"""\
SLURM_JOB_ID=4711
SLURM_JOB_UID=1000
SLURM_JOB_GID=1000
SLURM_JOB_USER=alice
SLURM_JOB_COMMENT=hello
SLURM_JOB_GPUS=0,1,4-7
CUDA_VISIBLE_DEVICES=GPU-1b,MIG-2c
SLURM_JOB_NODELIST=node[01-02]
SLURM_NODELIST=node[01-02]
SLURM_NODEID=1
SLURM_STEP_ID=0
SLURM_PROCID=1
SLURM_LOCALID=0
SLURM_NODE_ALIASES=node01:[10.0.0.1]:host1
SLURMD_NODENAME=node01
SLURM_JOB_EXIT_CODE2=1:9
SLURM_JOB_EXIT_CODE=256
SLURM_JOB_DERIVED_EC=256
SLURM_JOB_STDOUT=/home/a/%x-%j-%t.out
SLURM_JOB_RESTART_COUNT=1
SPANK_FLIGHTCHECK=skip
"""
CONFIG = b"""\
Configuration data as of 2026-12-01T08:00:00
Prolog[0]               = /etc/slurm/prolog.d/*
PrologEpilogTimeout     = 65534
HealthCheckInterval     = 300 sec
SLURM_VERSION           = 22.05.8
SchedulerParameters     = nohold_on_prolog_fail,bf_window=1440
"""
BUDGET = Budget(2, 10.0, 20.0, 3600)


@door("scontrol-show-node", lambda: [NODES])
def _nodes(data: bytes) -> None:
    nodes = parse_nodes(text_of(data))
    finite([msgspec.to_builtins(node) for node in nodes])
    seats = count_seats(nodes, "node01", BUDGET, 1796098259.0)
    assert seats.recent_limit <= BUDGET.max_nodes
    seats.describe()
    encodable(list(held_events(nodes, 1796098259.0)))
    untold(held_events(nodes, 1.0), held_events(nodes, 1796098259.0))
    for node in nodes:
        take_apart(node.reason or "")
        # Other people's drains are sacred: ours alone begin with our words.
        assert not node.ours or (node.reason or "").startswith("flightcheck: ")


@door("claims", lambda: [b"rack 7 [flightcheck-claim 3 1796098259]", b"[flightcheck-claim 1 2]"])
def _claims(data: bytes) -> None:
    comment = text_of(data)
    read_claim(comment)
    plain = without_claim(comment)
    claim = Claim(7, 1796098259)
    assert read_claim(with_claim(comment, claim)) == claim or read_claim(plain) is not None


@door(
    "reasons",
    lambda: [NODES.split(b"Reason=")[1][:60], b"flightcheck: no-go x: y [job 1, replace] : z"],
)
def _reasons(data: bytes) -> None:
    text = text_of(data)
    parts = take_apart(text)
    assert parts.job_id is None or parts.job_id < 1 << 64
    for made in (as_reason(text, 4711), drain_reason([(text, text), (text, "")], 4711)):
        assert is_ours(made)
        assert len(made.encode()) <= 240
        assert '"' not in made
        harmless(made)


@door("scontrol-show-job", lambda: [JOB])
def _job(data: bytes) -> None:
    shown = parse_show_job(text_of(data))
    encodable(shown)
    finite(shown)
    job = Job(4711, nodelist=first_node(text_of(data)[:200]))
    slurms_end(job, shown)
    encodable(build_facts(job, shown))


@door("node-sets", lambda: [b"node[01-04,07]", b"rack[1-2]node[1-8/2],login1", b"a,b,c", b"@all"])
def _node_sets(data: bytes) -> None:
    text = text_of(data)
    assert len(all_nodes(text)) <= 1 << 20
    first_node(text)
    try:
        names = expand(text)
    except SweepError:
        return
    assert len(names) <= MAX_NODES
    fold(names)


@door(
    "squeue-and-reservations",
    lambda: [
        b"4711|1000|node[01-03]\n4712|1001|(null)\n",
        b"ReservationName=maint StartTime=2026-12-01T08:00:00 Nodes=node[01-04] "
        b"NodeCnt=4 State=ACTIVE\n",
    ],
)
def _squeue(data: bytes) -> None:
    text = text_of(data)
    encodable(excluded_events(list(parse_excluded(text))[:1000], 1796098259.0))
    try:
        reserved_nodes(text)
    except ValueError:
        pass


@door("hook-environment", lambda: [HOOK])
def _hook(data: bytes) -> None:
    environment = environment_of(data)
    job = read_job(environment)
    if job is not None:
        encodable(job)
        json.dumps(msgspec.to_builtins(job)).encode("utf-8")
        for text in (*job.odd, job.user or "", job.comment or "", *job.spank.values()):
            assert text.isprintable()
    parse_aliases(environment.get("SLURM_NODE_ALIASES", ""))
    try:
        read_step(environment)
    except StepError:
        pass


@door(
    "slurm-conf",
    lambda: [CONFIG, b'Prolog=/a\\\n/b\nPrologFlags=Alloc # x\nSlurmctldParameters="x"\n'],
)
def _conf(data: bytes) -> None:
    for conf in (parse_shown(text_of(data)), parse_written(text_of(data), "/etc/slurm/slurm.conf")):
        conf.seconds("HealthCheckInterval")
        conf.seconds("PrologEpilogTimeout")
        conf.words("SchedulerParameters")
        assert conf.version is None or len(conf.version) == 2
