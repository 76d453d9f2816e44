"""Message sizes as people write them."""

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
WORD = 4


def parse_size(text: str) -> int:
    """Bytes of `512K`, `16M`, `1G`, `4096`. Raises ValueError that says what is expected."""
    word = text.strip().upper().removesuffix("IB").removesuffix("B")
    unit = {"K": KIB, "M": MIB, "G": GIB}.get(word[-1:], 1)
    number = word[:-1] if unit > 1 else word
    if not (number.isascii() and number.isdigit()) or not 4 <= int(number[:12]) * unit <= 64 * GIB:
        raise ValueError(
            f"expected a size from 4 bytes to 64G such as 512K, 16M or 1G, found {text!r}"
        )
    return int(number) * unit // WORD * WORD


def show_size(size: int) -> str:
    """`16M`, `1G`; bytes where it is no round number."""
    for unit, letter in ((GIB, "G"), (MIB, "M"), (KIB, "K")):
        if size >= unit and size % unit == 0:
            return f"{size // unit}{letter}"
    return str(size)
