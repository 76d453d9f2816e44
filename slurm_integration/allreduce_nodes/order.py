"""What the coordinator tells an agent to do. Checked on arrival: it comes from the network."""

from typing import Annotated

import msgspec

Number = Annotated[int, msgspec.Meta(ge=0, le=1 << 20)]
Port = Annotated[int, msgspec.Meta(ge=1024, le=65_535)]
Address = Annotated[str, msgspec.Meta(pattern=r"^[0-9.]{7,15}\Z")]


class Order(msgspec.Struct, frozen=True):
    """One test: this node's ranks count from `first`, of `ranks` in all.

    They meet at `store_host`:`store_port`, which this node serves where `serve` is set. `address`
    is this node's own, as the coordinator sees it. `light`: sums of integers and the bandwidth
    alone. `seconds` bounds the test.
    """

    id: Number
    first: Number
    ranks: Annotated[int, msgspec.Meta(ge=1, le=1 << 20)]
    store_host: Address
    store_port: Port
    serve: bool
    address: Address
    seed: Annotated[int, msgspec.Meta(ge=0)]
    seconds: Annotated[float, msgspec.Meta(ge=1, le=7200)]
    light: bool = False
    alone: bool = False


class Hello(msgspec.Struct, frozen=True):
    """How an agent introduces itself. `trouble`: why its node cannot take part."""

    index: Number
    local: Annotated[int, msgspec.Meta(ge=0, le=256)]
    backend: Annotated[str, msgspec.Meta(max_length=16)]
    port: Annotated[int, msgspec.Meta(ge=0, le=65_535)]
    version: Annotated[str, msgspec.Meta(max_length=64)] = ""
    key: Annotated[str, msgspec.Meta(max_length=256)] = ""
    trouble: Annotated[str, msgspec.Meta(max_length=1000)] = ""
