import itertools

import pytest

from slurm_integration.node_state import BASES, SUFFIXES, NodeState, parse_nodes, parse_state

FLAGS = (
    "CLOUD",
    "COMPLETING",
    "DRAIN",
    "DYNAMIC_FUTURE",
    "DYNAMIC_NORM",
    "INVALID_REG",
    "FAIL",
    "MAINTENANCE",
    "POWER_DOWN",
    "POWER_UP",
    "POWERED_DOWN",
    "POWERING_UP",
    "POWERING_DOWN",
    "REBOOT_REQUESTED",
    "REBOOT_ISSUED",
    "RESERVED",
    "RESUME",
    "NOT_RESPONDING",
    "PLANNED",
    "EXTERNAL",
    "BLOCKED",
    "UNDRAIN",
    "REBOOT_CANCELED",
    "POWER_DRAIN",
)
VERSIONS = ("22.05.8", "23.02.7", "23.11.10", "24.05.4", "24.11.5", "25.05.3", "25.11.1")

# As slurmctld 22.05.8 wrote it.
REAL = (
    "NodeName=node04 Arch=x86_64 CoresPerSocket=1  CPUAlloc=0 CPUEfctv=8 CPUTot=8 CPULoad=0.06 "
    "AvailableFeatures=(null) ActiveFeatures=(null) Gres=gpu:h100:8 NodeAddr=127.0.0.1 "
    "NodeHostName=localhost Port=21004 Version=22.05.8 OS=Linux 6.1.0-28-amd64 #1 SMP "
    "PREEMPT_DYNAMIC Debian  RealMemory=16000 AllocMem=0 FreeMem=23883 Sockets=8 Boards=1 "
    "State=IDLE+DRAIN ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A "
    "Partitions=gpu,debug  BootTime=2026-12-01T03:24:22 SlurmdStartTime=2026-12-01T03:39:59 "
    "LastBusyTime=2026-12-01T03:40:00 CfgTRES=cpu=8,mem=16000M,billing=8 AllocTRES= CapWatts=n/a "
    "CurrentWatts=0 AveWatts=0 ExtSensorsJoules=n/s ExtSensorsWatts=0 ExtSensorsTemp=n/s"
)


def node(tail: str = "", state: str = "IDLE+DRAIN", version: str = "22.05.8") -> NodeState:
    line = REAL.replace("State=IDLE+DRAIN", f"State={state}").replace("22.05.8", version)
    (found,) = parse_nodes(f"{line} {tail}\n")
    return found


def test_a_real_line():
    found = node("Reason=flightcheck: no-go x: a=b [c] [root@2026-12-01T03:42:56]")
    assert found.name == "node04"
    assert (found.base, found.flags, found.suffix) == ("IDLE", ("DRAIN",), "")
    assert found.reason == "flightcheck: no-go x: a=b [c]"
    assert (found.reason_user, found.reason_time) == ("root", 1796096576)
    assert found.partitions == ("gpu", "debug")
    assert found.version == "22.05.8"
    assert found.comment == ""


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("base", sorted(BASES))
def test_every_flag_pair_on_every_base(base, version):
    for pair in itertools.combinations(FLAGS, 2):
        for suffix in ("", "*", "+"):
            state = "+".join([base + suffix.strip("+"), *pair]) + suffix.replace("*", "")
            found = node(state=state, version=version)
            assert (found.base, found.flags) == (base, pair)
            assert found.suffix == suffix
            assert found.version == version
            busy = base in ("ALLOCATED", "MIXED") or "COMPLETING" in pair
            assert found.drained == ("DRAIN" in pair and not busy)
            assert found.draining == ("DRAIN" in pair and busy)
            assert found.held == (base == "DOWN" or "DRAIN" in pair or "FAIL" in pair)


@pytest.mark.parametrize("suffix", list(SUFFIXES))
def test_every_suffix(suffix):
    assert parse_state(f"MIXED{suffix}+DRAIN") == ("MIXED", ("DRAIN",), suffix)
    assert parse_state(f"down{suffix}") == ("DOWN", (), suffix)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("DRAINED*", ("IDLE", ("DRAIN",), "*")),
        ("DRAINING", ("ALLOCATED", ("DRAIN",), "")),
        ("", ("UNKNOWN", (), "")),
        ("+++", ("UNKNOWN", (), "+++")),
        ("WARP_DRIVE", ("UNKNOWN", ("WARP_DRIVE",), "")),
        ("IDLE+DRAIN+DRAIN", ("IDLE", ("DRAIN",), "")),
    ],
)
def test_odd_states(text, expected):
    assert parse_state(text) == expected


@pytest.mark.parametrize(
    ("tail", "reason", "user", "comment"),
    [
        ("", None, None, ""),
        ("Reason=Not responding [slurm@2026-01-02T03:04:05]", "Not responding", "slurm", ""),
        ("Reason=no stamp", "no stamp", None, ""),
        ("Reason=no stamp Comment=c", "no stamp", None, "c"),
        ("Reason=a [x@y] [root@2026-01-02T03:04:05]", "a [x@y]", "root", ""),
        ("Reason=a : b [root@2026-01-02T03:04:05] Comment=c d", "a : b", "root", "c d"),
        ("Reason=a Comment=z [r@2026-01-02T03:04:05] Comment=c", "a Comment=z", "r", "c"),
        ("Comment=c Reason=fake [r@2026-01-02T03:04:05]", None, None, "c Reason=fake [r@2026-01-02T03:04:05]"),  # noqa: E501
        ("Comment=c Extra=Reason=e Comment=f", None, None, "c"),
        ("Extra=e Reason=x [r@2026-01-02T03:04:05]", None, None, ""),
        ("Comment=two\nlines", None, None, "two\nlines"),
        ("Reason=ünï [1000@2026-01-02T03:04:05] Extra=e", "ünï", "1000", ""),
    ],
)  # fmt: skip
def test_free_text_fields(tail, reason, user, comment):
    found = node(tail)
    assert (found.reason, found.reason_user, found.comment) == (reason, user, comment)
    assert (found.reason_time is None) == (user is None)


@pytest.mark.parametrize(
    ("state", "reason", "ours", "foreign"),
    [
        ("IDLE+DRAIN", "flightcheck: no-go a: b", True, False),
        ("IDLE+DRAIN", "flightcheck: no-go a: b : Prolog error", True, False),
        ("DOWN", "flightcheck: no-go a: b", True, False),
        ("IDLE+FAIL", "flightcheck: no-go a: b", True, False),
        ("IDLE", "flightcheck: no-go a: b", False, False),  # left over after RESUME (23.11+)
        ("IDLE+DRAIN", "flightchecks by Bob", False, True),
        ("IDLE+DRAIN", "Prolog error : flightcheck: x", False, True),
        ("MIXED+DRAIN", "", False, True),
        ("DOWN*", "Not responding", False, True),
        ("IDLE", "", False, False),
    ],
)
def test_whose_drain_it_is(state, reason, ours, foreign):
    found = node(f"Reason={reason} [root@2026-01-02T03:04:05]" if reason else "", state)
    assert (found.ours, found.foreign) == (ours, foreign)


@pytest.mark.parametrize(
    "text",
    ["", "\n\n", "No nodes in the system", "\x00\xff", "NodeName=", "State=IDLE", "NodeName"],
)
def test_garbage_gives_no_held_node_and_no_crash(text):
    assert not any(found.held for found in parse_nodes(text))


def test_a_comment_with_a_newline_does_not_hide_the_next_node():
    found = parse_nodes("NodeName=a State=IDLE Comment=x\ny=z\nNodeName=b State=IDLE+DRAIN\n")
    assert [(n.name, n.drained) for n in found] == [("a", False), ("b", True)]


def test_ten_thousand_nodes():
    tail = " Reason=flightcheck: no-go x: y [root@2026-12-01T03:42:56] Comment=abc"
    text = "".join(f"{REAL.replace('node04', f'n{i}')}{tail}\n" for i in range(10_000))
    found = parse_nodes(text)
    assert len(found) == 10_000
    assert found[-1].name == "n9999"
    assert all(n.ours and n.comment == "abc" for n in found)
