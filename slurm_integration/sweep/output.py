"""What a sweep leaves: a summary on standard output, JSON and HTML in files."""

import os
from typing import TextIO

from slurm_integration.sweep.compare.topology import Topology
from slurm_integration.sweep.gather import as_text, gather, summary
from slurm_integration.sweep.model import Comparison, Sweep, SweepError, encode_sweep
from slurm_integration.sweep.nodeset import fold
from slurm_integration.sweep.options import Options


def open_files(options: Options) -> None:
    """Find out now, not after an hour, that a file can't be written. Raises SweepError."""
    try:
        for path in (options.json_file, options.html_file):
            if path and path != "-":
                open(path, "ab").close()
        if options.save_dir:
            os.makedirs(options.save_dir, mode=0o700, exist_ok=True)
    except OSError as error:
        raise SweepError(f"{error.filename}: {error.strerror}") from error


def tell(sweep: Sweep, options: Options, out: TextIO) -> None:
    """The summary; nothing where standard output is wanted for JSON."""
    if options.json_file == "-":
        return
    lines = ["", *as_text(gather(sweep.results)), *_fleet(sweep.comparison)]
    lines += [f"{fold(done.nodes)}: {done.what}: {done.reason}" for done in sweep.actions]
    lines += [f"note: {note}" for note in sweep.notes]
    ended = "ended early; " if sweep.interrupted else ""
    lines += [f"{ended}{summary(sweep.results)} in {sweep.seconds:.1f} s"]
    out.write("\n".join(lines) + "\n")


def write(sweep: Sweep, options: Options, topology: Topology, out: TextIO, err: TextIO) -> None:
    """The files that were asked for. One that can't be written is told, and the others are."""
    if options.json_file == "-":
        out.write(encode_sweep(sweep).decode() + "\n")
    elif options.json_file:
        _save(options.json_file, encode_sweep(sweep) + b"\n", err)
    if options.html_file:
        from slurm_integration.fleet_report import render

        racks = topology.leaf_of([result.node for result in sweep.results])
        _save(options.html_file, render(sweep, racks=racks).encode(), err)


def _save(path: str, data: bytes, err: TextIO) -> None:
    try:
        with open(path, "wb") as file:
            file.write(data)
    except OSError as error:
        err.write(f"flightcheck sweep: {path}: {error.strerror}\n")


def _fleet(comparison: Comparison) -> list[str]:
    return [
        f"{fold(finding.nodes)}: {finding.kind} {finding.severity.value} {finding.subject}: "
        f"{finding.message}"
        for finding in comparison.findings
    ]
