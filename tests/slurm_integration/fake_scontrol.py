"""A stand-in for scontrol and slurmctld: an executable with a state file, a lock and bad moods.

It behaves as 22.05 was seen to: a Reason without a held state is not kept, RESUME of a node that
is not held is refused, and update_nodes on several nodes goes on after one that was refused.
"""

import fcntl
import json
import os
import sys
import textwrap
import time
from pathlib import Path

_PROGRAM = textwrap.dedent(
    """\
    #!{python} -IS
    import fcntl, json, os, re, sys, time
    HERE = {here!r}
    def line(name, n):
        text = f"NodeName={{name}} OS=Linux 6.1 #1 SMP RealMemory=1 State={{n['state']}}"
        text += " Partitions=gpu Version=22.05.8 ExtSensorsTemp=n/s"
        if n.get("reason"):
            when = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(n["at"]))
            text += f" Reason={{n['reason']}} [{{n['user']}}@{{when}}]"
        if n.get("comment"):
            text += f" Comment={{n['comment']}}"
        return text
    def names(folded):
        found = re.fullmatch(r"(.*)\\[(.*)\\]", folded)
        if not found:
            return folded.split(",")
        out = []
        for part in found[2].split(","):
            low, _, high = part.partition("-")
            numbers = range(int(low), int(high or low) + 1)
            out += [found[1] + str(i).zfill(len(low)) for i in numbers]
        return out
    def apply(node, fields):
        held = "DRAIN" in node["state"] or node["state"].startswith("DOWN")
        state = fields.get("State")
        if state == "DRAIN" and not fields.get("Reason"):
            return "You must specify a reason when DOWNING or DRAINING a node. Request denied"
        if state == "RESUME" and not held:
            return "slurm_update error: Invalid node state specified"
        if "Comment" in fields:
            node["comment"] = fields["Comment"]
        if state == "DRAIN":
            node["state"] = node["state"].split("+")[0] + "+DRAIN"
            node.update(reason=fields["Reason"], user="root", at=int(time.time()))
        if state == "RESUME":
            node.update(state="IDLE", reason="")
        return ""
    def main(argv):
        verb = "update" if argv[0] == "update" else "show"
        with open(HERE + "/calls", "a") as log:
            log.write(" ".join(argv) + "\\n")
        mood = json.load(open(HERE + "/mood"))
        if mood.get("hang") in (verb, "all"):
            time.sleep(60)
        if mood.get("refuse") == verb or (
            mood.get("refuse") == "drain" and "State=DRAIN" in argv
        ):
            sys.exit("slurm_update error: Access/permission denied")
        if mood.get("garbage") == verb:
            print("\\x00\\xff not a node")
            return 0
        time.sleep(mood.get("delay", {{}}).get(verb, 0))
        with open(HERE + "/state", "r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            nodes = json.load(file)
            if verb == "show":
                wanted = names(argv[4]) if len(argv) > 4 else list(nodes)
                for name in wanted:
                    print(line(name, nodes[name]))
                return 0
            fields = dict(part.split("=", 1) for part in argv[1:])
            errors = [apply(nodes[n], fields) for n in names(fields.pop("NodeName"))]
            file.seek(0)
            file.truncate()
            json.dump(nodes, file)
        errors = [e for e in errors if e]
        if errors:
            sys.exit(errors[0])
        return 0
    sys.exit(main(sys.argv[1:]))
    """
)


class FakeSlurm:
    """The state behind the executable, for tests to set and look at."""

    def __init__(self, folder: Path, nodes: int = 8) -> None:
        self.folder = folder
        self.program = str(folder / "scontrol")
        Path(self.program).write_text(_PROGRAM.format(python=sys.executable, here=str(folder)))
        Path(self.program).chmod(0o755)
        (folder / "calls").write_text("")
        self.mood()
        width = max(2, len(str(nodes)))
        names = [f"node{i:0{width}d}" for i in range(1, nodes + 1)]
        self._write({name: {"state": "ALLOCATED"} for name in names})

    def mood(self, **mood: object) -> None:
        """hang, refuse or garbage = show, update (or drain, all); delay = {show: s, update: s}."""
        (self.folder / "mood").write_text(json.dumps(mood))

    def set(self, node: str, **fields: object) -> None:
        with open(self.folder / "state", "r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            nodes = json.load(file)
            nodes[node].update(fields)
            file.seek(0)
            file.truncate()
            json.dump(nodes, file)

    def drain(self, node: str, reason: str, age_s: int = 0, user: str = "root") -> None:
        self.set(node, state="IDLE+DRAIN", reason=reason, at=int(time.time()) - age_s, user=user)

    @property
    def nodes(self) -> dict[str, dict]:
        return json.loads((self.folder / "state").read_text())

    @property
    def calls(self) -> list[str]:
        return (self.folder / "calls").read_text().splitlines()

    @property
    def drained(self) -> dict[str, str]:
        return {n: v["reason"] for n, v in self.nodes.items() if "DRAIN" in v["state"]}

    def _write(self, nodes: dict) -> None:
        (self.folder / "state").write_text(json.dumps(nodes))


def in_parallel(count: int, work) -> list:  # type: ignore[no-untyped-def]
    """`work(number)` in `count` forked processes that start together; their results as JSON."""
    gate_out, gate_in = os.pipe()
    pipes, children = [], []
    for number in range(count):
        result_out, result_in = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.close(gate_in)
                os.read(gate_out, 1)
                os.write(result_in, json.dumps(work(number)).encode())
            finally:
                os._exit(0)
        os.close(result_in)
        pipes.append(result_out)
        children.append(child)
    os.close(gate_in)
    os.close(gate_out)
    results = []
    for fd, child in zip(pipes, children, strict=True):
        with os.fdopen(fd, "rb") as file:
            results.append(json.loads(file.read()))
        os.waitpid(child, 0)
    return results
