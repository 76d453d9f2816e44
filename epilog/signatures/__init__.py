"""Signatures: wordings of failures as data. To add one, add a table to a TOML file here."""

from epilog.signatures.loader import FOLDER, SignatureError, check_patterns, load
from epilog.signatures.signature import Advice, Catalogue, Signature, Verdict, fields_of

__all__ = [
    "FOLDER",
    "Advice",
    "Catalogue",
    "Signature",
    "SignatureError",
    "Verdict",
    "check_patterns",
    "fields_of",
    "load",
]
