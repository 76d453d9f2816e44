"""ssh_config, as OpenSSH reads it."""

import pytest

from slurm_integration.sweep.model import SweepError
from slurm_integration.sweep.transports.ssh.endpoint import SshConfig

TEXT = """\
User everybody
Include {folder}/conf.d/*.conf
Host node01
  HostName 10.0.0.1
  Port 2222
  User admin
  HostKeyAlias rack1-node01
  ConnectTimeout 3
Host node0*
  ProxyJump jumper@gate:2200,inner
  IdentityFile {folder}/key
  IdentitiesOnly yes
  UserKnownHostsFile {folder}/known {folder}/known2
  GlobalKnownHostsFile none
  HashKnownHosts yes
Host inner
  HostName 10.9.9.9
  User middle
Match host gpu*
  ProxyCommand nc %h %p
"""


@pytest.fixture
def config(tmp_path):
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d/a.conf").write_text("Host node02\n  HostName 10.0.0.2\n")
    path = tmp_path / "config"
    path.write_text(TEXT.format(folder=tmp_path))

    def make(**more) -> SshConfig:
        return SshConfig(str(path), **more)

    return make


def test_a_host_is_what_its_sections_say(config, tmp_path):
    there = config().endpoint("node01")
    assert (there.host, there.port, there.key_name) == ("10.0.0.1", 2222, "rack1-node01")
    assert there.jumps == ("jumper@gate:2200", "inner")
    assert there.identities == (f"{tmp_path}/key",)
    assert there.identities_only
    assert there.known_files == (f"{tmp_path}/known", f"{tmp_path}/known2")
    assert there.hash_known
    assert there.connect_s == 3


def test_the_first_value_counts_and_included_sections_end_with_their_file(config):
    assert config().endpoint("node01").user == "everybody"
    assert config().endpoint("node02").host == "10.0.0.2"
    assert config().endpoint("other").host == "other"


def test_a_proxy_command_has_its_tokens_filled(config):
    assert config().endpoint("gpu7").proxy_command == "nc gpu7 22"


def test_the_command_line_wins(config, tmp_path):
    (tmp_path / "id").write_text("")
    there = config(user="root", identity=f"{tmp_path}/id").endpoint("node01")
    assert there.user == "root"
    assert there.identities[0] == f"{tmp_path}/id"


@pytest.mark.parametrize(
    ("spec", "user", "host", "port"),
    [
        ("jumper@gate:2200", "jumper", "gate", 2200),
        ("inner", "everybody", "10.9.9.9", 22),
        ("ssh://a@b:1", "a", "b", 1),
        ("[fe80::1]:99", "everybody", "fe80::1", 99),
    ],
)
def test_jump_hosts(config, spec, user, host, port):
    there = config().endpoint(spec, jump=True)
    assert (there.user, there.host, there.port) == (user, host, port)


def test_a_config_or_key_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(SweepError, match="--ssh-config"):
        SshConfig(str(tmp_path / "none"))
    with pytest.raises(SweepError, match="--identity"):
        SshConfig("", "", str(tmp_path / "none"))


@pytest.mark.parametrize("text", ["Host a\n  Port none\n", "Match exec false\n  Port 1\n"])
def test_an_option_that_can_not_be_applied_is_that_host_s_trouble(tmp_path, text):
    (tmp_path / "c").write_text(text)
    config = SshConfig(str(tmp_path / "c"))
    with pytest.raises(SweepError, match="ssh_config for a"):
        config.endpoint("a")


def test_an_include_of_itself_ends(tmp_path):
    (tmp_path / "c").write_text(f"Include {tmp_path}/c\n")
    with pytest.raises(SweepError, match="Include"):
        SshConfig(str(tmp_path / "c"))
