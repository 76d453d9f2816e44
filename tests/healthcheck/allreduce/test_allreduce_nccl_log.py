"""NCCL's own log tells which path was taken; nothing else is believed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.allreduce.nccl_log import complaints, parse_nccl_log
from healthcheck.allreduce.paths import PATHS, confirm, environment

# Line forms as NCCL 2.12 to 2.27 print them; node names are made up.
NVLS = """\
NCCL version 2.21.5+cuda12.4
node01:227602:227667 [0] NCCL INFO NVLS multicast support is available on dev 0
node01:227602:227667 [0] NCCL INFO NVLS Head  0:  0
node01:227602:227667 [0] NCCL INFO Channel 00/24 :    0   1   2   3   4   5   6   7
node01:227602:227667 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM
node01:227603:227668 [1] NCCL INFO Channel 01/0 : 1[1] -> 2[2] via P2P/CUMEM
node01:227602:227667 [0] NCCL INFO 24 coll channels, 16 nvls channels, 32 p2p channels
node01:227602:227602 [0] NCCL INFO 1073741824 Bytes -> Algo 4 proto 2 time 4190.1
"""
NVLS_NEW = NVLS.replace(
    "1073741824 Bytes -> Algo 4 proto 2 time 4190.1",
    "AllReduce: 1073741824 Bytes -> Algo NVLS proto SIMPLE channel{Lo..Hi}={0..15}",
)
RING = """\
node01:1:9 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/IPC/read
node01:2:8 [1] NCCL INFO Channel 00/0 : 1[1] -> 0[0] via P2P/IPC/read
node01:1:9 [0] NCCL INFO AllReduce: 4084 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..0}
node01:1:9 [0] NCCL INFO AllReduce: 1073741824 Bytes -> Algo Ring proto Simple channel{Lo..Hi}={0..31}
"""  # noqa: E501
SHM = """\
node02:3884652:3884740 [7] NCCL INFO Channel 01 : 7[7] -> 2[2] via SHM/direct/direct
node02:3884652:3884744 [3] NCCL INFO Channel 00 : 3[3] -> 7[7] via SHM/direct/direct
"""
NIC = """\
node03:985927:986028 [3] NCCL INFO Channel 00/0 : 3[4a000] -> 6[44000] [send] via NET/IB/0/GDRDMA
node03:985925:986027 [1] NCCL INFO Channel 00/0 : 33[1] -> 41[1] [send] via NET/IBext_v8/4
node03:985925:986027 [1] NCCL INFO Channel 01/0 : 8[0] -> 15[7] [receive] via NET/IB/3
"""
SOCKET = "node03:926:1151 [7] NCCL INFO Channel 03/0 : 15[7] -> 6[6] [send] via NET/Socket/3\n"
DIRECT = "node04:798:813 [3] NCCL INFO Channel 02/0 : 3[3] -> 4[4] via P2P/direct pointer/read\n"
WARN = (
    "node05:982:1255 [2] transport/net_ib.cc:1295 NCCL WARN NET/IB : Got completion from peer "
    "10.0.0.7<55921> with status=12 opcode=1 len=0 vendor err 129 (Send)\n"
)


def test_what_the_log_says():
    log = parse_nccl_log(NVLS)
    assert log.version == "2.21.5+cuda12.4"
    assert log.transports == {"P2P": 2}
    assert log.algorithms == {1 << 30: "NVLS"}
    assert (log.nvls_channels, log.multicast) == (16, True)
    assert parse_nccl_log(NIC).transports == {"NET/IB": 3}
    assert parse_nccl_log(SOCKET).transports == {"NET/Socket": 1}
    assert parse_nccl_log(WARN).warnings[0].startswith("NET/IB : Got completion from peer")


@pytest.mark.parametrize(
    ("path", "text", "taken"),
    [
        ("nvls", NVLS, True),
        ("nvls", NVLS_NEW, True),
        ("nvls", RING, False),
        ("ring", RING, True),
        ("ring", NVLS, False),
        ("ring", RING + NVLS_NEW, False),
        ("p2p", RING, True),
        ("p2p", DIRECT, True),
        ("p2p", RING + SHM, False),
        ("shm", SHM, True),
        ("shm", RING, False),
        ("nic", NIC, True),
        ("nic", SOCKET, False),
        ("nic", NIC + SOCKET, False),
        *((path, "", False) for path in PATHS),
    ],
)
def test_a_path_is_confirmed_by_the_log_or_not_at_all(path, text, taken):
    confirmed, evidence = confirm(path, parse_nccl_log(text))
    assert confirmed is taken
    assert evidence.startswith("not confirmed") is not taken


def test_the_loopback_through_the_adapters_cannot_fall_back_to_sockets():
    env = environment("nic", ["mlx5_0:1", "mlx5_1:1"])
    assert env["NCCL_NET"] == "IB"
    assert env["NCCL_IB_HCA"] == "=mlx5_0:1,mlx5_1:1"
    assert env["NCCL_P2P_DISABLE"] == env["NCCL_SHM_DISABLE"] == "1"
    assert all(environment(name)["NCCL_DEBUG"] == "INFO" for name in PATHS)


def test_complaints_are_the_lines_that_say_what_went_wrong():
    text = NVLS + WARN + WARN + "torch.cuda.OutOfMemoryError: CUDA out of memory\n" + SHM
    assert [line.split()[0] for line in complaints(text)] == [
        "node05:982:1255", "torch.cuda.OutOfMemoryError:",
    ]  # fmt: skip


@given(st.text(max_size=400))
def test_no_text_breaks_the_parser(text):
    for line in (text, f"NCCL INFO Channel 00 : {text} via {text}", f"NCCL INFO {text} Bytes"):
        for name in PATHS:
            assert not confirm(name, parse_nccl_log(line))[0] or "via" in line
        complaints(line)
