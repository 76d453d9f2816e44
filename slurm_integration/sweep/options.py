"""What a sweep was asked for, as the command line says it."""

import msgspec

from slurm_integration.sweep.model import SweepError

VIAS = ("auto", "srun", "ssh", "local")


class Options(msgspec.Struct, frozen=True):
    """The options of `flightcheck sweep`. Raises SweepError where they contradict each other."""

    nodelist: str = ""
    partition: str = ""
    state: str = ""
    everything: bool = False
    via: str = "auto"
    fanout: int = 64
    stage: str = "sweep"
    only: str = ""
    skip: str = ""
    timeout_s: float = 60.0
    json_file: str | None = None
    html_file: str | None = None
    save_dir: str | None = None
    drain: bool = False
    topology: str = ""
    program: str = "flightcheck"
    accept_new: bool = False
    ssh_config: str = ""
    user: str = ""
    identity: str = ""
    deep: bool = False
    deep_nodes: int = 32
    deep_with: tuple[str, ...] = ()

    def check(self) -> None:
        """Raise SweepError where they ask for nothing, or for two things at once."""
        chosen = [
            name
            for name, value in (
                ("-w", self.nodelist),
                ("-p or --state", self.partition or self.state),
                ("--all", self.everything),
            )
            if value
        ]
        if len(chosen) > 1:
            raise SweepError(f"{' and '.join(chosen)}: expected one of them")
        if not chosen and self.via != "local":
            raise SweepError("which nodes? -w NODELIST, -p PARTITION, --state STATE or --all")
        if self.via == "local" and (self.partition or self.state or self.everything):
            raise SweepError("--via local looks at this machine alone: no -p, --state or --all")
        if self.drain and self.via == "local":
            raise SweepError("--drain: not with --via local; sweep the node by its Slurm name")
        if self.deep and self.via in ("ssh", "local"):
            raise SweepError(f"--deep tests nodes in Slurm jobs: not with --via {self.via}")
        for option, names in (("--only", self.only), ("--skip", self.skip)):
            _known_checks(option, names)
        if not self.program.strip() or not self.program.isprintable() or self.program[0] == "-":
            raise SweepError(
                f"--program: expected a name or an absolute path, found {self.program!r}"
            )


def _known_checks(option: str, text: str) -> None:
    """A misspelt check would come back as a thousand refusals."""
    names = {name.strip() for name in text.split(",") if name.strip()}
    if not names:
        return
    from healthcheck.registry import load_checks

    unknown = sorted(names - load_checks()[0].keys())
    if unknown:
        raise SweepError(
            f"{option}: no check is called {unknown[0]!r}; `flightcheck explain` lists them all"
        )
