"""`flightcheck explain`: what a check or an Xid means, what we do, what the operator should do."""

import shutil
import textwrap
from collections.abc import Iterable
from difflib import get_close_matches

import click
import msgspec

from healthcheck.config import CONFIG_PATH, Config, load_config, state_dir_here
from healthcheck.knowledge import SXID_SOURCE, XID_SOURCE, sxids, xids
from healthcheck.knowledge.rules import RULES, advice_for
from healthcheck.model import Baseline, Severity
from healthcheck.profile import BUILTIN_DIR, Profile, load_profile
from healthcheck.registry import Check, load_checks
from healthcheck.strict_json import decode_json

MAX_WIDTH = 80
_FAULT = {
    "user first": "the program that ran; the GPU only when unrelated jobs meet it",
    "engine": "the program or an engine of the GPU",
    "driver": "the driver",
    "sympathetic": "none of its own: it follows another error",
    "hardware": "the hardware",
    "informational": "nobody: it informs",
    "infrastructure": "the installation",
    "either": "the program, or the link to another GPU",
    "unused": "not known: NVIDIA lists this code as unused",
    "other": "not known",
}


@click.command("explain")
@click.argument("words", nargs=-1, metavar="[CHECK | xid N | sxid N]")
@click.option("--profile", metavar="NAME", help="Show the figures of this node type.")
@click.option(
    "--config",
    metavar="FILE",
    envvar="FLIGHTCHECK_CONFIG",
    default=CONFIG_PATH,
    show_default=True,
    help="Configuration, whose limits come before the profile's.",
)
def command(words: tuple[str, ...], profile: str | None, config: str) -> None:
    """Say what a check or an error code means, what we do and what you should do.

    Without an argument: every check with one line, and how to ask for a code.
    """
    checks, broken = load_checks()
    if not words:
        click.echo(_everything(checks))
        return
    code = _code(words)
    if code is not None:
        click.echo(_xid(code[1]) if code[0] == "xid" else _sxid(code[1]))
        return
    name = "-".join(words).lower().replace("_", "-")
    if name not in checks:
        raise click.UsageError(_unknown(" ".join(words), checks, broken))
    settings, _, _ = load_config(config, verify=False)
    click.echo(_check(checks[name], _profile(profile, settings), settings))


def _code(words: tuple[str, ...]) -> tuple[str, int] | None:
    """("xid", 79) out of `xid 79`, `xid79` or `XID-79`; None where it is not about a code."""
    text = "".join(words).lower().replace("-", "")
    for kind in ("sxid", "xid"):
        rest = text.removeprefix(kind)
        if rest != text and rest.isascii() and rest.isdecimal():
            return kind, int(rest[:9])
    if len(words) > 1 and words[0].lower() in ("xid", "sxid"):
        told = f"expected a number after {words[0]!r}, found {words[1]!r}; try: xid 79"
        raise click.UsageError(told)
    return None


def _unknown(text: str, checks: dict[str, Check], broken: dict[str, str]) -> str:
    close = get_close_matches(text.lower(), list(checks), n=3, cutoff=0.5)
    close += [name for name in sorted(checks) if text.lower() in name and name not in close][:3]
    hint = f"; did you mean {' or '.join(close)}?" if close else ""
    lost = f" ({', '.join(sorted(broken))} did not load)" if broken else ""
    return f"there is no check {text!r}{hint}{lost} `flightcheck explain` lists them all."


def _profile(name: str | None, config: Config) -> Profile | None:
    """The profile asked for, configured, or remembered by this node; None where none is known."""
    wanted = name or (config.profile if config.profile != "auto" else _remembered(config))
    if wanted is None:
        return None
    try:
        return load_profile(wanted, [config.profile_dir, BUILTIN_DIR])
    except Exception as error:
        if name is None:
            return None
        raise click.UsageError(f"profile {name!r}: {error}") from error


def _remembered(config: Config) -> str | None:
    try:
        with open(f"{state_dir_here(config)}/baseline.json", "rb") as file:
            return decode_json(file.read(32 << 20), Baseline).profile
    except (OSError, msgspec.MsgspecError):
        return None


def _everything(checks: dict[str, Check]) -> str:
    width = max(map(len, checks), default=0)
    lines = [click.style("Checks", bold=True)]
    for name in sorted(checks):
        condition = _paragraphs(checks[name].doc)[0]
        lines.append(
            _wrapped(condition, f"  {name.ljust(width)}  ", " " * (width + 4), painted=name)
        )
    known = sum(entry.category != "unused" for entry in xids().values())
    lines += [
        "",
        click.style("Error codes", bold=True),
        f"  flightcheck explain xid N    one of {len(xids())} Xids ({known} in use)",
        f"  flightcheck explain sxid N   one of {len(sxids())} NVSwitch SXids",
    ]
    return "\n".join(lines)


def _check(check: Check, profile: Profile | None, config: Config) -> str:
    first, *rest = _paragraphs(check.doc)
    lines = [click.style(check.name, bold=True), *_indented([first, *rest]), ""]
    lines += ["  " + click.style("Runs in", bold=True) + f"  {', '.join(check.stages)}"]
    lines += _limits(check, profile, config)
    if check.source:
        lines += ["", _wrapped(check.source, "  Source  ", " " * 10, painted="Source")]
    return "\n".join(lines)


def _limits(check: Check, profile: Profile | None, config: Config) -> list[str]:
    fields = msgspec.structs.fields(check.limits)
    if not fields:
        return []
    figures = profile.checks.get(check.name, {}) if profile else {}
    site = config.checks[check.name].limits if check.name in config.checks else {}
    whose = f"profile {profile.name}" if profile else "no profile known here: give --profile NAME"
    lines = ["", "  " + click.style("Limits", bold=True) + f"  ({whose})"]
    for field in fields:
        if field.name in site:
            value, source = site[field.name], "site configuration"
        elif field.name in figures:
            value, source = figures[field.name].value, figures[field.name].source
        elif field.required:
            value, source = "not set", "the check applies only where the profile sets it"
        else:
            default = field.default if field.default is not msgspec.NODEFAULT else None
            value = default if default is not None else "none"
            source = "built in" if value != "none" else "no limit"
        lines.append(
            _wrapped(f"{_shown(value)}  ({source})", f"    {field.encode_name} = ", " " * 8)
        )
    if check.limits.__doc__:
        lines += _indented([" ".join(check.limits.__doc__.split())])
    return lines


def _shown(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, dict):
        return ", ".join(f"{key} {figure}" for key, figure in value.items()) or "none"
    return str(value)


def _xid(code: int) -> str:
    entry = xids().get(code)
    if entry is None:
        raise click.UsageError(f"there is no Xid {code} in NVIDIA's catalogue (1 to {max(xids())})")
    rule = RULES[entry.rule]
    nvidia = " then ".join(filter(None, (entry.nvidia_immediate, entry.nvidia_investigatory)))
    rows = [
        ("What it means", f"{entry.description} ({entry.mnemonic})."),
        ("Whose fault", f"Usually {_FAULT.get(entry.category, entry.category)}."),
        ("What we do", f"{rule.does} In short: {entry.ours}."),
        ("What to do", advice_for(entry.rule, entry.advice)),
        ("First verdict", _verdict(rule.severity, rule.action.value)),
        ("NVIDIA says", nvidia or "nothing"),
        ("Source", XID_SOURCE),
    ]
    if entry.replace_after is not None:
        lives = entry.replace_after - 1
        told = f"{lives} reboot or reset" if lives == 1 else f"{lives} reboots or resets"
        rows.insert(4, ("On return", f"Back after {told} within 7 days: replace the part."))
    return "\n".join([click.style(f"Xid {code}", bold=True), *_rows(rows)])


def _verdict(severity: Severity, action: str) -> str:
    node = {
        Severity.FAIL: "fail: no-go",
        Severity.WARN: "warn: degraded",
        Severity.INFO: "info: go",
    }[severity]
    return f"{node}, remedy {action}"


def _sxid(code: int) -> str:
    entry = sxids().get(code)
    if entry is None:
        near = sorted(sxids(), key=lambda known: abs(known - code))[:3]
        told = ", ".join(map(str, sorted(near)))
        raise click.UsageError(
            f"SXid {code} is not in the guide (near: {told}); the word in its line, Fatal or "
            "Non-fatal, decides"
        )
    does = {
        "fatal": "The node fails.",
        "always-fatal": "The node fails, whatever the line says.",
        "nonfatal": "A warning, unless the line itself says Fatal.",
        "benign": "Told once, judges nothing.",
    }[entry.severity]
    rows = [
        ("What it means", f"NVSwitch: {entry.name}."),
        ("Severity", entry.severity),
        ("What we do", does),
        ("What to do", entry.advice),
        ("Source", SXID_SOURCE),
    ]
    return "\n".join([click.style(f"SXid {code}", bold=True), *_rows(rows)])


def _rows(rows: Iterable[tuple[str, str]]) -> list[str]:
    return [_wrapped(text, f"  {head.ljust(13)}  ", " " * 17, painted=head) for head, text in rows]


def _paragraphs(doc: str) -> list[str]:
    parts = [" ".join(part.split()) for part in doc.split("\n\n")]
    return [part for part in parts if part] or ["(no description)"]


def _indented(paragraphs: Iterable[str]) -> list[str]:
    lines = []
    for paragraph in paragraphs:
        head, colon, _ = paragraph.partition(": ")
        lines += ["", _wrapped(paragraph, "  ", "  ", painted=head if colon else "")]
    return lines[1:]


def _wrapped(text: str, first: str, rest: str, *, painted: str = "") -> str:
    """Text at the terminal's width, at most MAX_WIDTH; `painted` is made bold where it begins."""
    width = min(shutil.get_terminal_size((MAX_WIDTH, 24)).columns, MAX_WIDTH)
    filled = textwrap.fill(
        text,
        width=max(width, 40),
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    )
    if painted in ("What it means", "What we do", "What to do") or first.strip() == painted:
        return filled.replace(painted, click.style(painted, bold=True), 1)
    return filled
