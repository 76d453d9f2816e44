"""`make demo`: a real Slurm cluster, a GPU that falls off the bus, and a job that runs anyway.

Everything lies in a temporary folder and everything started is ended, Ctrl-C included.
"""

import atexit
import json
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from slurm_integration.node_state import NodeState
from slurm_integration.sandbox import cluster, demo_failures, on_node, sshd
from slurm_integration.sandbox.machine.live import break_machine, build_machine

SICK, FAULT = "node02", "xid-79"
REPORT = Path(".sandbox/demo-report.html")
ENDED = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL")
LIMIT_S = 90.0
"""A demo that takes longer than this has failed; it says so and shows why."""
CONFIG = """\
# The demo's policy: drain for real, at most two nodes an hour.
dry_run = false
deadline_s = 8

[drain]
max_nodes = 2
max_percent = 50
max_held_percent = 50

# A job whose failure is proven hardware runs again by itself.
[epilog.requeue]
enabled = true
"""
JOB = """\
#!/bin/bash
#SBATCH --job-name=llm-pretrain --nodes=2 --ntasks-per-node=1 --gpus-per-node=8 --requeue
srun bash -c 'echo "rank $SLURM_PROCID of $SLURM_NTASKS on $SLURMD_NODENAME: step done"'
"""
VERDICT_COLOURS = {"go": "green", "degraded": "yellow", "no-go": "red", "unknown": "magenta"}


class DemoError(Exception):
    """The demo did not go as it should; the text says where to look."""


class Demo:
    """The cluster of the demo, and a clock that its story is told by."""

    def __init__(self, state: Path, console: Console) -> None:
        self.state = state
        self.console = console
        self.started = time.monotonic()
        self._told_verdicts: dict[str, float] = {}
        self._told_job: tuple[str, str] | None = None
        self.daemons: dict[str, sshd.Sshd] = {}

    def run(self) -> None:
        """The whole story."""
        self.start()
        self.fly_healthy()
        self.break_gpu()
        self.fly_sick()
        why = demo_failures.why_not()
        if why is None:
            demo_failures.nan_in_one_rank(self)
            demo_failures.gpu_lost_midway(self)
        else:
            self.say(f"[dim]{why}[/]")
        self.sweep()
        self.what_next()

    def start(self) -> None:
        """Four nodes with the hardware of an H100 node each, and Slurm over them."""
        self.say("starting slurmctld, munged and four slurmd, each with 8 simulated H100 GPUs, "
                 "NVLink, 8 InfiniBand ports, a PCIe tree and a kernel log")  # fmt: skip
        (self.state / "flightcheck.toml").write_text(CONFIG)
        epilog = Path(sys.executable).with_name("flightcheck-epilog")
        spec = cluster.ClusterSpec(state=str(self.state), epilog=(str(epilog),))
        for node in spec.names:
            build_machine(str(self.root(node)), "h100-sxm", node)
        now = cluster.up(spec)
        self.say(f"{len(now.nodes)} nodes are IDLE", mark="[green]✔[/]")

    def fly_healthy(self) -> None:
        """A first job on all nodes: every prolog says go, and each node takes its baseline."""
        self.say("[bold]sbatch[/] a job on all four healthy nodes")
        job = self.submit("--nodes=4")
        self.follow(job)

    def break_gpu(self) -> None:
        """One GPU falls off the bus."""
        break_machine(str(self.root(SICK)), FAULT)
        self.say(f"a GPU of [bold]{SICK}[/] falls off the bus (fault {FAULT}: the kernel logs "
                 "Xid 79, NVML says the GPU is lost)", mark="[red]✘[/]")  # fmt: skip

    def fly_sick(self) -> None:
        """A two-node job that Slurm first gives the sick node."""
        self.say("[bold]sbatch[/] a two-node training job")
        job = self.submit()
        self.follow(job)
        output = (self.state / f"job-{job}.out").read_text()
        if output.count("step done") != 2:
            raise DemoError(f"the job's output is not what it should be:\n{output}")
        for line in output.splitlines():
            self.console.print(f"           [dim]│[/] {escape(line)}")
        node = self.node(SICK)
        if not (node.drained and node.ours):
            raise DemoError(f"{SICK} should be drained by flightcheck, but is {node}")

    def sweep(self) -> None:
        """The admin looks at the whole fleet: through srun, and by ssh where Slurm gives none."""
        self.say(
            "[bold]flightcheck sweep --all[/]: srun where Slurm gives nodes, ssh to the drained"
        )
        program = on_node.write_program(self.state)
        ours = Path(sys.executable).with_name("flightcheck")
        argv = [str(ours), "sweep", "--all", f"--program={program}"]
        REPORT.parent.mkdir(exist_ok=True)
        folder = self.state / "ssh"
        folder.mkdir()
        why = sshd.why_not()
        if why is None:
            for node in (node.name for node in self.nodes() if node.held):
                self.daemons[node] = sshd.start(folder, node, environment={"SLURMD_NODENAME": node})
            argv += ["--ssh-config", str(sshd.client_config(folder, self.daemons))]
        else:
            self.say(f"nodes that are drained cannot be asked: {why}")
        done = cluster.client(str(self.state), *argv, f"--html={REPORT}", timeout_s=LIMIT_S)
        for line in done.stdout.splitlines():
            self.console.print(f"           [dim]│[/] {escape(line)}")
        if done.returncode != 2:
            raise DemoError(f"the sweep should say no-go, but exits {done.returncode}: "
                            f"{done.stderr}")  # fmt: skip

    def what_next(self) -> None:
        """What the operator sees, and does."""
        self.console.print("\n[bold]What the operator sees[/]  [dim]$ sinfo -R[/]")
        shown = cluster.client(str(self.state), "sinfo", "--noheader", "-R", "-o", "%N  %E")
        for line in shown.stdout.splitlines():
            self.console.print(f"  [yellow]{escape(line)}[/]")
        self.console.print(
            "\n[bold]What the operator does next[/]\n"
            "  flightcheck explain xid 79       what it means, and what to do\n"
            f"  ssh {SICK} flightcheck check      look again, on the node itself\n"
            f"  scontrol reboot {SICK}            a lost GPU needs a reboot, or more\n"
            "  flightcheck drains               everything flightcheck holds, with its reasons\n"
            f"  flightcheck resume {SICK}         once a check is clean again; "
            "`requalify` does it by proof\n"
            f"  open {REPORT.resolve()}   the fleet's report\n"
        )

    def submit(self, *options: str, script: str = JOB) -> int:
        """sbatch; the job's id."""
        done = cluster.client(
            str(self.state), "sbatch", "--parsable", f"--output={self.state}/job-%j.out",
            f"--chdir={self.state}", *options, stdin=script,
        )  # fmt: skip
        if done.returncode != 0:
            raise DemoError(f"sbatch: {done.stderr.strip()}")
        return int(done.stdout.split(";")[0])

    def follow(
        self,
        job: int,
        *,
        ends: tuple[str, ...] = ("COMPLETED",),
        passes: tuple[str, ...] = (),
        until: Callable[[], bool] = lambda: False,
    ) -> None:
        """Tell what happens until the job is in one of `ends`, or `until` says so.

        `passes`: endings that are not the last word, since the job is sent to the queue again.
        """
        limit = time.monotonic() + LIMIT_S
        self._told_job = None
        while time.monotonic() < limit:
            for node in self.nodes():
                self.tell_verdict(node.name)
            state, where, reason = self.job(job)
            if (state, where) != self._told_job and state != "COMPLETING":
                self._told_job = (state, where)
                self.tell_job(job, state, where, reason)
            if state in ends or until():
                return
            if state in ENDED and state not in passes:
                raise DemoError(f"job {job} ended as {state}")
            time.sleep(0.1)
        raise DemoError(f"job {job} did not complete in {LIMIT_S:.0f} s")

    def tell_verdict(self, node: str) -> None:
        """The prolog's verdict of a node, once."""
        path = self.root(node) / "var/lib/flightcheck/prolog.json"
        try:
            stamp = path.stat().st_mtime
            if self._told_verdicts.get(node) == stamp:
                return
            report = json.loads(path.read_text())
        except (OSError, ValueError):
            return
        self._told_verdicts[node] = stamp
        word = report["verdict"]
        took = f"{len(report['outcomes'])} checks in {report['duration_s']:.2f} s"
        self.say(f"prolog on {node}: [bold {VERDICT_COLOURS[word]}]{word}[/]  [dim]{took}[/]")
        for outcome in report["outcomes"]:
            for finding in outcome["findings"]:
                if finding["severity"] == "fail":
                    self.console.print(
                        f"           [red]{outcome['check']}[/] {escape(finding['subject'])}: "
                        f"{escape(finding['message'])}"
                    )
        if word == "no-go":
            reason = self.node(node).reason
            self.say(f"{node} [bold red]drained[/]: {escape(reason or 'no reason')}")

    def tell_job(self, job: int, state: str, where: str, reason: str) -> None:
        """A change of the job's state."""
        waits = " again until its credential has expired" if reason == "BeginTime" else ""
        words = {
            "PENDING": "is held" if "Held" in reason else f"is queued{waits}, and not held",
            "CONFIGURING": f"was given {where}: the prologs run there",
            "RUNNING": f"runs on {where}",
            "COMPLETED": f"[bold green]completed[/] on {where}",
            "FAILED": f"[bold red]failed[/] on {where}",
        }
        self.say(f"job {job} {words.get(state, f'is {state}')}")

    def job(self, job: int) -> tuple[str, str, str]:
        """(state, nodes, reason) of a job."""
        text = cluster.client(str(self.state), "scontrol", "-o", "show", "job", str(job)).stdout
        fields = dict(part.split("=", 1) for part in text.split() if "=" in part)
        return fields.get("JobState", "?"), fields.get("NodeList", ""), fields.get("Reason", "")

    def nodes(self) -> Iterator[NodeState]:
        """All nodes as Slurm sees them."""
        yield from cluster.status(str(self.state)).nodes

    def error(self, text: str) -> DemoError:
        """An act did not go as it should."""
        return DemoError(text)

    def node(self, name: str) -> NodeState:
        """One node as Slurm sees it."""
        return next(node for node in self.nodes() if node.name == name)

    def root(self, node: str) -> Path:
        """The folder that stands for a node's machine."""
        return self.state / "nodes" / node / "root"

    def say(self, text: str, mark: str = "[cyan]▸[/]") -> None:
        """A line of the story, with the seconds since its beginning."""
        self.console.print(f"[dim]{time.monotonic() - self.started:6.1f} s[/]  {mark} {text}")


def main() -> int:
    """Run the demo; 0 where all went as it should. `--svg FILE` also draws what was shown."""
    console = Console(highlight=False, soft_wrap=True)
    if sys.argv[1:2] == ["--svg"] and len(sys.argv) == 3:
        console = Console(highlight=False, record=True, width=132, force_terminal=True)
        atexit.register(console.save_svg, sys.argv[2], title="make demo")
    elif sys.argv[1:]:
        console.print("usage: python -m slurm_integration.sandbox.demo [--svg FILE]")
        return 64
    why = cluster.why_not()
    if why:
        console.print(f"flightcheck demo: {why}")
        return 1
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with tempfile.TemporaryDirectory(prefix="flightcheck-demo-") as folder:
        demo = Demo(Path(folder), console)
        try:
            demo.run()
        except (DemoError, cluster.SandboxError) as error:
            console.print(f"\n[bold red]The demo failed:[/] {escape(str(error))}")
            show_logs(Path(folder), console)
            return 1
        except KeyboardInterrupt:
            console.print("\nstopped")
            return 130
        finally:
            for daemon in demo.daemons.values():
                sshd.stop(daemon)
            cluster.down(folder)
    demo.say("torn down, nothing is left running", mark="[green]✔[/]")
    return 0


def show_logs(state: Path, console: Console) -> None:
    """The ends of Slurm's logs, for whoever has to mend the demo."""
    for path in [state / "slurmctld/log", *sorted(state.glob("nodes/*/slurmd.log"))]:
        if path.is_file():
            lines = path.read_text(errors="replace").splitlines()[-12:]
            console.print(f"[dim]{path.name}[/]")
            for line in lines:
                console.print(f"  [dim]{escape(line)}[/]")


if __name__ == "__main__":
    sys.exit(main())
