"""Where ranks ran, as far as the log tells."""

from epilog.model import RankPlace
from epilog.scan.sight import Sight, number

MAX_PLACES = 131_072


class Places:
    """Collects rank → host from NCCL's communicator lines and from lines that name both."""

    def __init__(self) -> None:
        self._told: dict[int, RankPlace] = {}
        self._world = 0
        self._of_world: dict[int, RankPlace] = {}

    def take_communicator(self, sight: Sight) -> None:
        """Note `rank R nranks N` of a communicator: its ranks are the job's only if it is the
        largest one, so smaller ones are forgotten."""
        fields, prefix = sight.fields, sight.prefix
        rank, nranks = number(fields.get("comm_rank")), number(fields.get("nranks"))
        if rank is None or nranks is None or prefix.host is None or nranks < self._world:
            return
        if nranks > self._world:
            self._world, self._of_world = nranks, {}
        if len(self._of_world) < MAX_PLACES:
            local_rank = number(fields.get("local_rank"))
            self._of_world[rank] = RankPlace(rank, prefix.host, local_rank, pid=prefix.pid)

    def take(self, sight: Sight) -> None:
        """Note a line that names a global rank and its host."""
        rank, host = number(sight.fields.get("rank"), sight.prefix.rank), sight.host
        if rank is None or host is None or len(self._told) >= MAX_PLACES or rank in self._told:
            return
        pid = number(sight.fields.get("pid"), sight.prefix.pid)
        self._told[rank] = RankPlace(rank, host, sight.local_rank, pid=pid or None)

    def all(self) -> tuple[RankPlace, ...]:
        """One place for each rank, in order."""
        places = self._of_world | self._told if self._world > 1 else self._told
        return tuple(places[rank] for rank in sorted(places))
