"""A site's own hooks go on running, and slurm.conf gets the lines that it lacks, no others."""

import os


def lines_of(out: str) -> list[str]:
    return [line.strip() for line in out.splitlines() if line.startswith("    ")]


def test_only_missing_lines_are_printed_and_the_sites_words_stay_in_them(machine):
    lines = lines_of(machine.install().out)
    assert "Prolog=/etc/slurm/flightcheck/prolog.sh" in lines
    assert "PrologFlags=X11,NoHold,DeferBatch,Alloc,Contain" not in lines
    flags = next(line for line in lines if line.startswith("PrologFlags="))
    assert set(flags.split("=")[1].split(",")) == {
        "X11",
        "NoHold",
        "Alloc",
        "Contain",
        "DeferBatch",
    }
    assert "SchedulerParameters=bf_window=600,nohold_on_prolog_fail" in lines


def test_a_complete_slurm_conf_needs_no_line(machine):
    machine.install()
    machine.conf(
        "Prolog=/etc/slurm/flightcheck/prolog.sh\nEpilog=/etc/slurm/flightcheck/epilog.sh\n"
        "TaskProlog=/etc/slurm/flightcheck/task-prolog.sh\nHealthCheckInterval=60\n"
        "HealthCheckProgram=/etc/slurm/flightcheck/health.sh\nPrologFlags=alloc,contain,deferbatch\n"
        "SchedulerParameters=nohold_on_prolog_fail\n"
    )
    assert lines_of(machine.install().out) == []


def test_slurm_conf_itself_is_never_changed(machine):
    before = (machine.slurm / "slurm.conf").read_bytes()
    machine.install()
    machine.uninstall()
    assert (machine.slurm / "slurm.conf").read_bytes() == before


def test_a_folder_of_hooks_gets_ours_with_a_name_that_runs_first(machine):
    site = machine.site_script("prolog.d/50-mounts")
    machine.conf("Prolog=/etc/slurm/prolog.d/*\n")
    out = machine.install().out
    link = machine.slurm / "prolog.d/99-flightcheck"
    assert os.readlink(link) == "/etc/slurm/flightcheck/prolog.sh"
    assert not any(line.startswith("Prolog=") for line in lines_of(out))
    assert "from the next job on" in out
    assert "nothing to do" in machine.install().out
    machine.uninstall()
    assert not link.is_symlink()
    assert site.exists()


def test_a_pattern_that_wants_an_ending_gets_it(machine):
    machine.site_script("prolog.d/50-mounts.sh")
    machine.conf("Prolog=/etc/slurm/prolog.d/*.sh\n")
    machine.install()
    assert (machine.slurm / "prolog.d/99-flightcheck.sh").is_symlink()


def test_a_single_prolog_is_kept_beside_ours_with_one_line_to_change(machine):
    machine.site_script("site-prolog.sh")
    machine.conf("Prolog=/etc/slurm/site-prolog.sh\n")
    answer = machine.install()
    folder = machine.home / "prolog.d"
    assert os.readlink(folder / "50-site") == "/etc/slurm/site-prolog.sh"
    assert os.readlink(folder / "99-flightcheck") == "/etc/slurm/flightcheck/prolog.sh"
    assert "Prolog=/etc/slurm/flightcheck/prolog.d/*" in lines_of(answer.out)

    machine.conf("Prolog=/etc/slurm/flightcheck/prolog.d/*\n")
    answer = machine.install()
    assert "nothing to do" in answer.out
    assert (folder / "50-site").is_symlink()
    assert not any(line.startswith("Prolog=") for line in lines_of(answer.out))


def test_links_stay_while_slurm_can_not_be_asked(machine):
    machine.site_script("site-prolog.sh")
    machine.conf("Prolog=/etc/slurm/site-prolog.sh\n")
    machine.install()
    (machine.slurm / "slurm.conf").unlink()
    machine.install()
    assert (machine.home / "prolog.d/50-site").is_symlink()


def test_where_slurm_has_room_for_one_the_note_says_how_to_call_ours(machine):
    machine.conf("TaskProlog=/etc/slurm/theirs.sh\nHealthCheckProgram=/usr/sbin/nhc\n")
    out = machine.install().out
    assert "HealthCheckProgram=/usr/sbin/nhc stays" in out
    assert "/etc/slurm/flightcheck/task-prolog.sh" in out
    assert not any(line.startswith(("TaskProlog=", "HealthCheckP")) for line in lines_of(out))


def test_uninstall_refuses_while_slurm_calls_what_would_go(machine):
    machine.install()
    machine.conf("Epilog=/etc/slurm/flightcheck/epilog.sh\n")
    answer = machine.uninstall()
    assert answer.code == 2
    assert "Epilog=/etc/slurm/flightcheck/epilog.sh" in answer.err
    assert (machine.home / "epilog.sh").exists()
    machine.conf("ClusterName=site\n")
    assert machine.uninstall().code == 0


def test_uninstall_refuses_to_leave_a_glob_that_matches_nothing(machine):
    machine.conf("Prolog=/etc/slurm/prolog.d/*\n")
    site = machine.site_script("prolog.d/50-mounts")
    machine.install()
    site.unlink()
    answer = machine.uninstall()
    assert answer.code == 2
    assert "would match no file any more" in answer.err
    machine.site_script("prolog.d/50-mounts")
    assert machine.uninstall().code == 0
    assert [path.name for path in (machine.slurm / "prolog.d").iterdir()] == ["50-mounts"]


def test_the_plugin_is_optional_and_goes_where_plugstack_conf_includes_files(machine):
    (machine.slurm / "plugstack.conf").write_text("include plugstack.conf.d/*.conf\n")
    (machine.slurm / "plugstack.conf.d").mkdir()
    machine.install("--spank", "/usr/lib/slurm/flightcheck.so")
    path = machine.slurm / "plugstack.conf.d/flightcheck.conf"
    assert path.read_text().startswith("optional /usr/lib/slurm/flightcheck.so record_dir=/")


def test_without_an_include_the_plugins_line_is_printed(machine):
    out = machine.install("--spank", "/usr/lib/slurm/flightcheck.so").out
    assert any(line.startswith("optional /usr/lib/slurm/flightcheck.so") for line in lines_of(out))
    assert not (machine.slurm / "plugstack.conf.d").exists()
