"""Scanning logs: files in; evidence, collective states, task ends and rank places out."""

from epilog.scan.result import Attempt, ScanResult, Settings, Source
from epilog.scan.scanner import scan_files

__all__ = ["Attempt", "ScanResult", "Settings", "Source", "scan_files"]
