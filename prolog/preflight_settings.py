"""`[preflight]` of the configuration: who may ask for no preflight at all."""

import msgspec


class PreflightSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[preflight]`. Nobody may say `off` on a first install.

    `sbatch --preflight=off` counts for jobs of `off_accounts` and in `off_partitions`; "*" stands
    for all of them.
    """

    off_accounts: tuple[str, ...] = ()
    off_partitions: tuple[str, ...] = ()
