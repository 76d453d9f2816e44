import tracemalloc

import pytest

from slurm_integration.sweep.model import SweepError
from slurm_integration.sweep.nodeset import MAX_NODES, expand, fold


def test_names_are_expanded_once_each():
    assert expand("node[01-03],node02") == ["node01", "node02", "node03"]


@pytest.mark.parametrize("text", ["node[1-1000000]", "n[1-1000]-[1-1000]", "a[0-9999999999999999]"])
def test_a_million_nodes_are_refused_before_they_are_built(text):
    tracemalloc.start()
    with pytest.raises(SweepError, match=f"expected 1 to {MAX_NODES} nodes"):
        expand(text)
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


@pytest.mark.parametrize("text", ["", "node[", "node[01-", "node[3-1]", ",", "node01!node01"])
def test_an_empty_or_broken_list_is_refused(text):
    with pytest.raises(SweepError, match="-w"):
        expand(text)


@pytest.mark.parametrize("text", ["-oProxyCommand=x", "no/de", "a b", "node$(x)", "../etc/passwd"])
def test_a_name_that_is_no_host_name_is_refused(text):
    with pytest.raises(SweepError):
        expand(text)


def test_names_are_folded():
    assert fold(["node03", "node01", "node02", "gpu7"]) == "gpu7,node[01-03]"
