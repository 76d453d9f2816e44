"""`flightcheck classify` as people and scripts call it."""

import json
import os
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from epilog.commands.classify import command

OOM = "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
XID = "[Tue Dec  1 03:10:00 2026] NVRM: Xid (PCI:0000:b3:00): 79, GPU has fallen off the bus.\n"
ECC = "[rank9]: RuntimeError: CUDA error: uncorrectable ECC error encountered\n"


def call(*arguments: str) -> Result:
    return CliRunner().invoke(command, arguments)


def data(*arguments: str) -> dict[str, Any]:
    done = call("--json", *arguments)
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def log(folder: Path, text: str, name: str = "job.log") -> str:
    (folder / name).write_text(text)
    return str(folder / name)


def test_json_has_the_documented_form(tmp_path: Path) -> None:
    found = data(log(tmp_path, OOM))
    assert found["class"] == "user/cuda-oom"
    assert found["category"] == "user"
    assert 0 <= found["confidence"] <= 1
    assert found["root"] == {"ranks": [3], "nodes": [], "gpus": []}
    assert found["drain"] == "no"
    assert set(found["evidence"][0]) == {"file", "line", "role", "class", "text"}
    assert found["evidence"][0]["role"] == "root"
    assert found["evidence"][0]["line"] == 1
    assert found["chain"]
    assert found["message"]


def test_text_tells_fault_root_story_and_what_to_do(tmp_path: Path) -> None:
    done = call("--nodes", "gpu[01-02]", "--tasks-per-node", "2", log(tmp_path, OOM))
    assert done.exit_code == 0
    for words in ("user/cuda-oom", "fault      user", "rank 3 on gpu02", "what happened",
                  "evidence", "smaller batch", "how it was found"):  # fmt: skip
        assert words in done.stdout


def test_a_kernel_log_makes_of_a_review_a_drain(tmp_path: Path) -> None:
    job = log(tmp_path, ECC)
    kernel = log(tmp_path, XID.replace("79, GPU has fallen off the bus", "48, DBE"), "dmesg")
    nodes = ("--nodes", "gpu[01-02]", "--tasks-per-node", "8")
    assert data(*nodes, job)["drain"] == "review"
    found = data(*nodes, "--kernel-log", f"{kernel}@gpu02", job)
    assert (found["drain"], found["root"]) == (
        "yes", {"ranks": [9], "nodes": ["gpu02"], "gpus": ["0000:b3:00.0"]}
    )  # fmt: skip


def test_a_kernel_log_as_the_jobs_log_is_only_text(tmp_path: Path) -> None:
    assert data(log(tmp_path, XID))["drain"] == "review"


def test_nodes_keep_the_order_they_are_given_in(tmp_path: Path) -> None:
    options = ("--nodes", "z[01-02],a01", "--tasks-per-node", "2")
    assert data(*options, log(tmp_path, OOM))["root"]["nodes"] == ["z02"]


def test_the_exit_code_alone_can_tell(tmp_path: Path) -> None:
    assert data("--exit-code", "0:54", log(tmp_path, "ok\n"))["class"] == "infrastructure/prolog"
    assert data("--exit-code", "0:125", log(tmp_path, "ok\n"))["class"] == "user/host-oom"


def test_a_log_that_nobody_understands_is_unknown(tmp_path: Path) -> None:
    found = data(log(tmp_path, "all is well\n" * 100))
    assert found["category"] == "unknown"
    assert found["confidence"] <= 0.5


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--exit-code", "x", "LOG"),
        ("--exit-code", "1:2:3", "LOG"),
        ("--nodes", "gpu[01-", "LOG"),
        ("--nodes", "gpu[1-9999999]", "LOG"),
        ("--tasks-per-node", "0", "LOG"),
        ("--kernel-log", "no-node", "LOG"),
        ("--kernel-log", "@gpu01", "LOG"),
        ("--kernel-log", "file@", "LOG"),
    ],
)
def test_wrong_usage_is_refused_in_words(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    path = log(tmp_path, OOM)
    given = [path if word == "LOG" else word for word in arguments]
    with pytest.raises(click.UsageError) as refused:
        command.main(given, standalone_mode=False)
    assert str(refused.value.format_message())


def test_what_cannot_be_read_is_named_and_harms_nothing_else(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    missing, good = str(tmp_path / "missing"), log(tmp_path, OOM)
    done = call("--json", missing, str(tmp_path), str(fifo), good)
    assert done.exit_code == 0
    assert json.loads(done.stdout)["class"] == "user/cuda-oom"
    for name, words in (
        (missing, "No such file"),
        (str(tmp_path), "folder"),
        (str(fifo), "regular"),
    ):
        assert any(name in line and words in line for line in done.stderr.splitlines())


def test_an_unreadable_kernel_log_or_recorder_folder_is_a_note(tmp_path: Path) -> None:
    good = log(tmp_path, OOM)
    done = call("--kernel-log", f"{tmp_path}/nothing@gpu01", "--flight-recorder",
                str(tmp_path / "none"), good)  # fmt: skip
    assert done.exit_code == 0
    assert "nothing: not read" in done.stderr
    assert "none: not read" in done.stderr


def test_nothing_acts_on_a_terminal(tmp_path: Path) -> None:
    evil = (
        "[rank3]: torch.OutOfMemoryError: CUDA out of memory. \x1b]0;owned\x07\x1b[2J\u202eTried\n"
    )
    done = call(log(tmp_path, evil))
    assert done.exit_code == 0
    assert not any(char in done.stdout for char in "\x1b\x07\u202e")


def test_binary_rubbish_is_no_trouble(tmp_path: Path) -> None:
    (tmp_path / "rubbish").write_bytes(os.urandom(200_000) + OOM.encode())
    assert call("--json", str(tmp_path / "rubbish")).exit_code == 0
