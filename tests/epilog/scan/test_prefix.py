import pytest
from hypothesis import given
from hypothesis import strategies as st

from epilog.scan.prefix import PrefixParser

AROUND = 1_786_320_000.0
AT = 1786331050.0  # 2026-08-10 03:04:10 UTC
PARSER = PrefixParser(around=AROUND)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("[rank7]: body", {"rank": 7}),
        ("[rank7]:[E810 03:04:10.5 ProcessGroupNCCL.cpp:683] body", {"rank": 7, "at": AT + 0.5}),
        ("[rank12]:[E ProcessGroupNCCL.cpp:916] [Rank 12] body", {"rank": 12, "weak_rank": 12}),
        ("[E ProcessGroupNCCL.cpp:916] [Rank 1] body", {"weak_rank": 1}),
        ("E0810 03:04:10.000000 12345 ProcessGroupNCCL.cpp:737] [Rank 3] body",
         {"weak_rank": 3, "at": AT}),
        ("[PG ID 0 PG GUID 0(default_pg) Rank 5] body", {"weak_rank": 5, "group": "0(default_pg)"}),
        ("[PG 0 (default_pg) Rank 5] body", {"weak_rank": 5, "group": "0(default_pg)"}),
        ("[PG 0 Rank 1] body", {"weak_rank": 1, "group": "0"}),
        ("[PG ID 2 PG GUID 3(mesh_tp) Rank 1] body", {"group": "3(mesh_tp)"}),
        ("[rank9]:[E810 03:04:10.0 X.cpp:1] [PG ID 2 PG GUID 3(mesh_tp) Rank 1] body",
         {"rank": 9, "group": "3(mesh_tp)", "at": AT}),
        ("[default0]:[rank12]:[E810 03:04:10.0 X.cpp:1] body",
         {"rank": 12, "local_rank": 0, "at": AT}),
        ("[default3]: body", {"local_rank": 3}),
        ("[trainer3]:body", {"local_rank": 3}),
        ("[node07]: body", {"host": "node07"}),
        ("[node12:5]:[rank5]:[E810 03:04:10.0 X.cpp:1] body",
         {"host": "node12", "local_rank": 5, "rank": 5, "at": AT}),
        ("3: body", {"label": 3}),
        (" 12: [rank96]: body", {"label": 12, "rank": 96}),
        ("003: [default1]:body", {"label": 3, "local_rank": 1}),
        ("[1,3]<stderr>:body", {"rank": 3}),
        ("[prterun-node01-42@1,3]<stdout>: body", {"rank": 3}),
        ("[3]<stdout>:body", {"rank": 3}),
        ("2026-08-10T03:04:10Z: [1,12]<stdout>:node01:815:864 [0] net_ib.cu:80 NCCL WARN body",
         {"rank": 12, "host": "node01", "pid": 815, "at": AT}),
        ("Mon Aug 10 03:04:10 2026[1,0]<stdout>:node401:18:19 [0] body",
         {"rank": 0, "host": "node401", "pid": 18, "at": AT}),
        ("node48:34050:34121 [0] transport/net_ib.cc:93 NCCL WARN body",
         {"host": "node48", "pid": 34050}),
        ("[2026-08-10 03:04:10] node01:20:22 [0] misc/shmutils.cc:88 NCCL WARN body",
         {"host": "node01", "pid": 20, "at": AT}),
        ("[2026-08-10 03:04:10,000] [ERROR] body", {"at": AT}),
        ("2026-08-10 03:04:10,000 - root - INFO - body", {"at": AT}),
        ("[rank: 3] body", {"rank": 3}),
        ("rank 3: body", {"rank": 3}),
        ("[08/10/26 03:04:10] INFO body", {"at": AT}),
        ("Aug 10 03:04:10 node01 kernel: [82659.755847] body", {"host": "node01", "at": AT}),
        ("node01: kern: warning: [2026-08-10T03:04:10.000000000Z]: body",
         {"host": "node01", "at": AT}),
        ("[82659.755847] body", {}),
        ("(RayTrainWorker pid=123, ip=10.0.20.183) body", {"host": "10.0.20.183", "pid": 123}),
        ("(raylet, ip=10.0.20.183) body", {"host": "10.0.20.183"}),
        ("[node003:36495] body", {"host": "node003", "pid": 36495}),
        ("[node01:157  :4:419] body", {"host": "node01", "pid": 157}),
        ("big-run.node003.nolog [stderr] [rank3]: body", {"host": "node003", "rank": 3}),
        ("work2070: body", {"host": "work2070"}),
        ("node12: [rank3]: body", {"host": "node12", "rank": 3}),
        ("epoch3: body", {}),
        ("gpu0: body", {}),
        ("srun: error: body", {}),
        ("RuntimeError: body", {}),
    ],
)  # fmt: skip
def test_prefixes_of_every_launcher_and_logger(line, told):
    prefix = PARSER.parse(line)
    seen = {
        name: value
        for name in ("rank", "weak_rank", "local_rank", "label", "host", "pid", "at", "group")
        if (value := getattr(prefix, name)) is not None
    }
    assert {k: v for k, v in seen.items() if k != "at"} == {
        k: v for k, v in told.items() if k != "at"
    }
    assert seen.get("at") == pytest.approx(told.get("at"))


def test_known_nodes_decide_what_is_a_host():
    parser = PrefixParser(nodes=("gpu0", "login"))
    assert parser.parse("gpu0: body").host == "gpu0"
    assert parser.parse("login: body").host == "login"
    assert parser.parse("work2070: body").host is None
    assert parser.parse("[gpu0]: body").host == "gpu0"


def test_a_writer_that_begins_in_mid_line_is_the_one_that_counts():
    line = (
        "[node12:0]:  0%|  | 3/1685 [00:23<3:32:51,  7.41s/it]"
        "[node12:5]:[rank5]:[E810 03:04:10.0 X.cpp:6] [Rank 5] boom"
    )
    prefix = PARSER.parse_at(line, line.index("boom"))
    assert (prefix.rank, prefix.local_rank, prefix.host, prefix.at) == (5, 5, "node12", AT)


def test_the_body_keeps_its_indentation():
    line = '[rank0]:   File "/project/train.py", line 3'
    assert line[PARSER.parse(line).body :] == '  File "/project/train.py", line 3'


@given(st.text(max_size=200))
def test_no_line_makes_it_crash(line):
    prefix = PARSER.parse_at(line, len(line) // 2)
    assert 0 <= prefix.body <= len(line)
