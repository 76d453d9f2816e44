"""What a host may print, and what it then means. The script runs for real, on this machine."""

import json
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck import __version__
from slurm_integration.sweep.model import Answer
from slurm_integration.sweep.transports.base import Errand, Target
from slurm_integration.sweep.transports.framing import read_answer, remote_argv, remote_line

TARGET = Target("node01", "IDLE")


def errand_of(tmp_path, script: str, **more) -> Errand:
    program = tmp_path / "flightcheck"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return Errand(program=str(program), **more)


def ask(errand: Errand, *, login_shell: bool = False):
    argv = remote_argv(errand, "sweep")
    if login_shell:
        argv = ["bash", "-c", remote_line(errand, "sweep")]
    done = subprocess.run(argv, capture_output=True, timeout=240)
    return read_answer(done.stdout, done.stderr, errand, TARGET, "ssh", 0.1).result


@pytest.fixture
def answer_file(tmp_path, make_report):
    def write(**more) -> str:
        data = {**make_report("node01"), "version": __version__, "facts": {}, **more}
        (tmp_path / "answer.json").write_text(json.dumps(data))
        return f"cat {tmp_path}/answer.json"

    return write


@pytest.mark.parametrize("login_shell", [False, True])
def test_a_report_arrives_whole(tmp_path, answer_file, make_report, login_shell):
    result = ask(errand_of(tmp_path, answer_file()), login_shell=login_shell)
    assert (result.answer, result.detail) == (Answer.REPORTED, "")
    assert result.report == make_report("node01")


def test_exit_codes_of_verdicts_are_no_failures(tmp_path, answer_file):
    result = ask(errand_of(tmp_path, f"{answer_file(verdict='no-go')}; exit 2"))
    assert (result.answer, result.verdict) == (Answer.REPORTED, "no-go")


def test_banners_around_the_answer_do_no_harm(tmp_path, answer_file):
    errand = errand_of(tmp_path, answer_file())
    done = subprocess.run(remote_argv(errand, "sweep"), capture_output=True)
    noisy = b"Welcome to node01!\n{}\n" + done.stdout + b"\nbye <x end 0>"
    assert read_answer(noisy, b"", errand, TARGET, "ssh", 0).result.answer is Answer.REPORTED


def test_arguments_reach_the_program_unharmed(tmp_path):
    script = f'printf "%s\\n" "$@" >{tmp_path}/argv'
    errand = errand_of(tmp_path, script, only="gpu-count,xid", skip="clock", whole=True)
    ask(errand, login_shell=True)
    assert (tmp_path / "argv").read_text().split() == errand.arguments("sweep")


CASES = [
    ("", Answer.GARBAGE, "expected flightcheck's report, found nothing"),
    ("echo segfault; exit 139", Answer.GARBAGE, "found 'segfault' \\(exit code 139"),
    ("echo Traceback >&2; exit 70", Answer.GARBAGE, "Traceback"),
    ("""echo '{"status": "ok", "nodes": []}'""", Answer.GARBAGE, "status"),
    ("echo '[[[[' ; echo null", Answer.GARBAGE, "found"),
    ("head -c 3000 /dev/urandom", Answer.GARBAGE, "found"),
    ("printf '[%.0s' $(seq 100000)", Answer.GARBAGE, "found"),
    ("exec cat /dev/zero", Answer.TOO_MUCH_OUTPUT, "more than 1 MiB"),
    ("exec yes", Answer.TOO_MUCH_OUTPUT, "more than 1 MiB"),
    ("exec sleep 20", Answer.TIMED_OUT, "did not end within 1 s"),
    ("exit 127", Answer.NOT_INSTALLED, "on the PATH"),
    (
        '[ "$1" = --version ] && { echo "flightcheck, version 0.0.9"; exit; }\n'
        'echo "Error: No such option: --facts" >&2; exit 64',
        Answer.OTHER_VERSION,
        f"expected flightcheck {__version__}, found 0.0.9: 'No such option: --facts'",
    ),
    (
        f'[ "$1" = --version ] && {{ echo "flightcheck, version {__version__}"; exit; }}\n'
        'echo "Error: bad option" >&2; exit 64',
        Answer.GARBAGE,
        "refused its arguments there: 'bad option'",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("script", "answer", "detail"), CASES)
def test_anything_else_is_named_and_is_never_a_verdict(tmp_path, script, answer, detail):
    import re

    result = ask(errand_of(tmp_path, script, timeout_s=1))
    assert result.answer is answer
    assert re.search(detail, result.detail), result.detail
    assert result.verdict is None
    assert result.detail.isprintable()


def test_no_flightcheck_is_not_installed(tmp_path):
    result = ask(Errand(program=str(tmp_path / "none")))
    assert result.answer is Answer.NOT_INSTALLED


@pytest.mark.parametrize("version", ["9.0.0", "0.99.1"])
def test_another_release_is_other_version_even_where_its_form_fits(tmp_path, answer_file, version):
    result = ask(errand_of(tmp_path, answer_file(version=version)))
    assert result.answer is Answer.OTHER_VERSION
    assert f"found {version}" in result.detail
    assert result.report is None


def test_another_release_with_another_form_is_other_version(tmp_path, answer_file):
    result = ask(errand_of(tmp_path, answer_file(version="9.0.0", outcomes={"new": "form"})))
    assert result.answer is Answer.OTHER_VERSION


@pytest.mark.parametrize(
    "wrong", [{"verdict": "fine"}, {"outcomes": None}, {"duration_s": "x"}, {"node": 7}]
)
def test_a_report_of_the_wrong_form_is_garbage(tmp_path, answer_file, wrong):
    assert ask(errand_of(tmp_path, answer_file(**wrong))).answer is Answer.GARBAGE


def test_an_answer_that_breaks_off_is_garbage(tmp_path, answer_file):
    errand = errand_of(tmp_path, answer_file())
    whole = subprocess.run(remote_argv(errand, "sweep"), capture_output=True).stdout
    for size in range(0, len(whole) - 8, 97):
        result = read_answer(whole[:size], b"", errand, TARGET, "ssh", 0).result
        assert result.answer is Answer.GARBAGE, size


def test_marks_of_another_sweep_are_not_ours(tmp_path, answer_file):
    errand = errand_of(tmp_path, answer_file())
    output = subprocess.run(remote_argv(errand, "sweep"), capture_output=True).stdout
    other = Errand(program=errand.program)
    assert read_answer(output, b"", other, TARGET, "ssh", 0).result.answer is Answer.GARBAGE


def test_what_a_host_says_can_not_write_to_a_terminal(tmp_path, answer_file, make_report):
    evil = make_report("node01", "no-go", ("fail", "gpu-count", "\x1b[2J", "gone\x1b]0;x\x07\r\n!"))
    result = ask(errand_of(tmp_path, answer_file(**evil)))
    ((_, finding),) = result.findings()
    assert finding["subject"].isprintable()
    assert finding["message"].isprintable()
    assert ask(errand_of(tmp_path, "printf '\\033[31mred'")).detail.isprintable()


def test_a_host_that_calls_itself_otherwise_is_told(tmp_path, answer_file):
    assert ask(errand_of(tmp_path, answer_file(node="node77"))).detail == "calls itself node77"
    assert ask(errand_of(tmp_path, answer_file(node="NODE01.cluster"))).detail == ""


def test_a_whole_snapshot_travels_beside_the_report(tmp_path, answer_file):
    errand = errand_of(tmp_path, answer_file(snapshot={"node": "node01"}), whole=True)
    done = subprocess.run(remote_argv(errand, "sweep"), capture_output=True)
    arrival = read_answer(done.stdout, b"", errand, TARGET, "srun", 0)
    assert json.loads(arrival.snapshot) == {"node": "node01"}
    assert "snapshot" not in arrival.result.report


@given(st.binary(max_size=300), st.binary(max_size=60), st.integers(0, 200))
def test_no_output_of_any_kind_raises(body, errors, code):
    errand = Errand(nonce="abc")
    whole = b"<abc begin n>" + body + b"<abc end %d>" % code
    for output in (body, whole, body + whole, whole + body):
        result = read_answer(output, errors, errand, TARGET, "ssh", 0).result
        assert result.answer is not Answer.REPORTED
        assert result.detail.isprintable()
