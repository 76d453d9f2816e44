"""Node lists, which become words of srun's and scontrol's command lines, and of ClusterShell's."""

import pytest

from epilog.job_facts import all_nodes
from slurm_integration.allreduce_nodes.admin import srun_argv
from slurm_integration.allreduce_nodes.step import SECRET
from slurm_integration.history.slurm_signs import parse_excluded
from slurm_integration.requalify.door import reserved_nodes
from slurm_integration.sweep.compare.topology import _expand
from slurm_integration.sweep.model import SweepError
from slurm_integration.sweep.nodeset import expand, fold, named

ATTACKS = [
    "@x'; touch {mark}; '",
    "@x$(touch {mark})",
    "@x`touch {mark}`",
    "node1,@a|touch {mark}",
    "@a/e;touch {mark};#",
    "node1!@';touch {mark};'",
    "node1@';touch {mark};'",
    "@a\ntouch {mark}\n",
    "@a&@';touch {mark};'",
    "@*:$(touch {mark})",
    "a[1-2]@x;touch {mark}",
]


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_group_is_no_way_to_a_shell(attack, tmp_path):
    """ClusterShell's groups.conf runs commands with the group's name in them, as it stands."""
    mark = tmp_path / "mark"
    text = attack.format(mark=mark)
    reservation = f"ReservationName=x Nodes={text.replace(' ', '')} State=ACTIVE"
    for ask, given in ((expand, text), (named, text), (reserved_nodes, reservation)):
        try:
            ask(given)
        except (SweepError, ValueError):
            pass
    all_nodes(f"{text},x[1-2]")
    list(parse_excluded(f"1|1|{text}"))
    _expand(text)
    fold([text])
    assert not mark.exists()


@pytest.mark.parametrize(
    "text",
    [
        "-x",
        "--uid=0",
        "a b",
        "a;b",
        "",
        "node[1-",
        "node[0-99-199999]",
        "node[1-9]]",
        "@",
        "é",
        "n\x00",
        "../x",
    ],
)
def test_what_is_no_node_never_becomes_a_word_of_a_command(text):
    with pytest.raises(SweepError):
        expand(text)


@pytest.mark.parametrize(
    "text", ["node[01-04,07]", "r[1-2]n[1-3]", "node[1-9/2]", "a,b.c-d_e", "node7"]
)
def test_lists_that_people_write_are_taken(text):
    assert expand(text)
    assert list(map(str, named(text)))


def test_the_secret_of_a_step_is_in_no_command_line():
    """Everybody may read the command line of a process, only its owner the environment."""
    argv = srun_argv(["node01", "node02"], 8, ["flightcheck", "allreduce"], (), 60.0, inside=False)
    assert not any(SECRET in word or "export" in word.lower() for word in argv)
