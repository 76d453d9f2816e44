"""The report of a failed job in words, for an operator and for the job's owner. Pure."""

from typing import Any

MOST = 12
FAULTS = {
    "hardware": "the hardware, not your program",
    "network": "the network or a peer, not your program",
    "site": "the installation, not your program",
    "user": "your program or its settings",
    "scheduler": "nobody: the scheduler ended the job",
    "unknown": "not known",
}


def for_operator(report: dict[str, Any]) -> str:
    """Everything that was found, the worst first."""
    job, node, decision = report["job"], report["node"], report["decision"]
    lines = [
        f"job        {job['id']} of {job['user'] or job['uid']} on {job['nodes'] or node['name']}",
        f"exit       {_exit(job)}, restarts {job['restarts']}",
        f"class      {report['class']}",
        f"confidence {report['confidence']:.2f}",
        f"fault      {report['fault']}",
        f"root       {_root(report['root'])}",
        f"drain      {report['drain']}",
        "",
        report["message"],
    ]
    lines += _part("what happened", report["chain"])
    lines += _part(
        "evidence",
        [f"{e['file']}:{e['line']}: {e['role']}: {e['text']}" for e in report["evidence"]],
    )
    lines += _part("decision", [*decision["why"], *decision["said"]])
    lines += _part(
        f"node {node['name']} afterwards: {node['verdict']}",
        [f"{f['severity']} {f['check']} {f['subject']}: {f['message']}" for f in node["findings"]],
    )
    lines += _part("how it was found", report["steps"])
    lines += _part("files read", [f"{f['file']} ({f['bytes']:,} bytes)" for f in report["files"]])
    lines += _part("notes", report["notes"])
    return "\n".join(lines) + "\n"


def for_owner(report: dict[str, Any]) -> str:
    """A few lines beside the job's output: whose fault, what to change, whether it runs again."""
    decision = report["decision"]
    again = "yes" if decision["requeued"] else "no"
    return "\n".join(
        [
            f"flightcheck: job {report['job']['id']}: {report['message']}",
            f"class:    {report['class']} (confidence {report['confidence']:.2f})",
            f"at fault: {FAULTS.get(report['fault'], report['fault'])}",
            f"began on: {_root(report['root'])}",
            f"to do:    {report['advice']}",
            f"requeued: {again}",
            "",
        ]
    )


def _part(title: str, lines: list[str]) -> list[str]:
    if not lines:
        return []
    more = [f"  … and {len(lines) - MOST} more in report.json"] if len(lines) > MOST else []
    return ["", title, *(f"  {line[:400]}" for line in lines[:MOST]), *more]


def _root(root: dict[str, Any]) -> str:
    ranks, nodes, gpus = root.get("ranks", []), root.get("nodes", []), root.get("gpus", [])
    parts = [
        f"rank {', '.join(map(str, ranks[:16]))}" if ranks else "",
        f"on {', '.join(nodes[:8])}" if nodes else "",
        f"(GPU {', '.join(gpus[:4])})" if gpus else "",
    ]
    return " ".join(part for part in parts if part) or "not known"


def _exit(job: dict[str, Any]) -> str:
    parts = [f"code {job['exit_code']}" if job["exit_code"] is not None else "code unknown"]
    parts += [f"signal {job['exit_signal']}"] if job["exit_signal"] else []
    derived = job["derived_exit_code"]
    parts += [f"highest step code {derived}"] if derived else []
    return ", ".join(parts)
