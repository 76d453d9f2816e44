"""NVLink, the NVSwitch fabric and peer-to-peer access of a GPU."""

from typing import Any

from healthcheck.probes._nvml_calls import INVALID_ARGUMENT, Calls, Unanswered
from healthcheck.probes._nvml_fields import Field, field_id, read_fields

MAX_LINKS = 36
LINKS_BEFORE_COUNT = 18
"""Asked for where the driver cannot say how many links there are."""

_LINK_FIELDS = (
    ("active", "NVLINK_GET_STATE", 165),
    ("speed_mb_s", "NVLINK_GET_SPEED", 164),
    ("replay_errors", "NVLINK_ERROR_DL_REPLAY", 161),
    ("recovery_errors", "NVLINK_ERROR_DL_RECOVERY", 162),
    ("crc_flit_errors", "NVLINK_ERROR_DL_CRC", 163),
)
_LINK_FIELDS_5 = (
    ("recovery_failed_events", "NVLINK_COUNT_LINK_RECOVERY_FAILED_EVENTS", 214),
    ("integrity_errors", "NVLINK_COUNT_LOCAL_LINK_INTEGRITY_ERRORS", 211),
)
"""NVLink 5 (Blackwell) counts these in place of the data-link errors above."""
_COUNTERS = (
    ("replay_errors", "NVML_NVLINK_ERROR_DL_REPLAY", 0),
    ("recovery_errors", "NVML_NVLINK_ERROR_DL_RECOVERY", 1),
    ("crc_flit_errors", "NVML_NVLINK_ERROR_DL_CRC_FLIT", 2),
    ("crc_data_errors", "NVML_NVLINK_ERROR_DL_CRC_DATA", 3),
)


def read_links(
    calls: Calls, handle: Any, count: int | None, crc_data_total: int | None
) -> tuple[dict[str, Any], ...] | None:
    """All NVLinks of a GPU; None where it has none or they cannot be asked for.

    `count` as the driver gives it. `crc_data_total`: the sum over all links, which spares
    asking each when it is zero.
    """
    if count == 0:
        return None
    links = _by_fields(calls, handle, min(count or LINKS_BEFORE_COUNT, MAX_LINKS))
    if all(link.get("active") is None for link in links):
        links = _by_state(calls, handle, count or MAX_LINKS)
        if not links:
            return None
    for link in links:
        if link.get("active") is not None:
            link["active"] = bool(link["active"])
    if count is None:
        while links and links[-1].get("active") is None:
            links.pop()
    _fill_counters(calls, handle, links, crc_data_total)
    return tuple(links)


def _by_fields(calls: Calls, handle: Any, count: int) -> list[dict[str, Any]]:
    links: list[dict[str, Any]] = [{"index": index} for index in range(count)]
    _read_into(calls, handle, links, _LINK_FIELDS)
    if all("replay_errors" not in link for link in links) and any(
        "speed_mb_s" in link for link in links
    ):
        _read_into(calls, handle, links, _LINK_FIELDS_5)
    return links


def _read_into(
    calls: Calls,
    handle: Any,
    links: list[dict[str, Any]],
    wanted: tuple[tuple[str, str, int], ...],
) -> None:
    ids = [field_id(calls.nvml, name, default) or default for _, name, default in wanted]
    fields: list[Field] = [(id_, link["index"]) for link in links for id_ in ids]
    values = iter(read_fields(calls, handle, fields) or ())
    for link in links:
        for (key, _, _), value in zip(wanted, values, strict=False):
            if value is not None:
                link[key] = value


def _by_state(calls: Calls, handle: Any, count: int) -> list[dict[str, Any]]:
    """Drivers before the state field: nvmlDeviceGetNvLinkState link by link."""
    links: list[dict[str, Any]] = []
    name = "nvmlDeviceGetNvLinkState"
    for index in range(count):
        if calls.lost:
            break
        answer = calls.ask(name, handle, index)
        if not isinstance(answer, Unanswered):
            links.append({"index": index, "active": answer})
            continue
        if answer.code == INVALID_ARGUMENT:
            break  # past the last link
        calls.keep(name, answer.code)
        if answer.code in (3, 13):
            break
        links.append({"index": index})
    return links


def _fill_counters(
    calls: Calls, handle: Any, links: list[dict[str, Any]], crc_data_total: int | None
) -> None:
    """Ask each link for counters that the fields did not give."""
    nvml = calls.nvml
    active = [link for link in links if link.get("active")]
    if crc_data_total == 0:
        for link in active:
            link["crc_data_errors"] = 0
    if any("recovery_failed_events" in link for link in links):
        return
    for key, constant, default in _COUNTERS:
        counter = getattr(nvml, constant, default)
        for link in active:
            if key in link:
                continue
            answer = calls.ask("nvmlDeviceGetNvLinkErrorCounter", handle, link["index"], counter)
            if not isinstance(answer, Unanswered):
                link[key] = answer
            elif answer.code in (2, 3, 13):
                break  # not counted on this GPU, so not on its other links either
            else:
                calls.keep("nvmlDeviceGetNvLinkErrorCounter", answer.code)
                if calls.lost:
                    return


def read_fabric(calls: Calls, handle: Any) -> dict[str, Any] | None:
    """Registration with the NVSwitch fabric; None before Hopper or where not supported.

    The structs are laid out here (nvml.h: nvmlGpuFabricInfo_v3_t, _v2_t, _t): bindings before
    12.570 declare the UUID longer than the driver writes it, and then read zeros as the state.
    """
    from ctypes import byref, create_string_buffer

    for name, version, size in _FABRIC_CALLS:
        word = (size | version << 24).to_bytes(4, "little") if version else b""
        info = create_string_buffer(word, _FABRIC_ROOM)
        if calls.get(name, handle, byref(info)) is not None:
            return _fabric(bytes(info)[4 if version else 0 : size])
    return None


_FABRIC_ROOM = 256
_FABRIC_CALLS = (
    ("nvmlDeviceGetGpuFabricInfoV", 3, 40),
    ("nvmlDeviceGetGpuFabricInfoV", 2, 36),
    ("nvmlDeviceGetGpuFabricInfo", 0, 28),
)


def _fabric(info: bytes) -> dict[str, Any]:
    """uuid[16], then 32-bit words status, clique, state, health mask, and a byte, the summary."""
    status, clique, state, mask = (
        int.from_bytes(info[at : at + 4], "little") for at in range(16, 32, 4)
    )
    uuid = info[:16].hex()
    return {
        "state": state,
        "status": status,
        "clique_id": clique,
        "cluster_uuid": uuid if uuid.strip("0") else None,
        "health_mask": mask if len(info) >= 32 else None,
        "summary": info[32] if len(info) > 32 else None,
    }


def read_p2p(found: list[tuple[Calls, Any, dict[str, Any]]]) -> tuple[dict[str, Any], ...]:
    """NVLink peer access of every pair among GPUs that have an active NVLink."""
    linked = [
        (calls, handle, gpu["bus_id"])
        for calls, handle, gpu in found
        if any(link.get("active") for link in gpu.get("nvlinks") or ())
    ]
    pairs = []
    for at, (calls, handle, bus_id) in enumerate(linked):
        index = getattr(calls.nvml, "NVML_P2P_CAPS_INDEX_NVLINK", 2)
        for other_calls, other, other_bus_id in linked[at + 1 :]:
            if other_calls.lost:
                continue
            status = calls.get("nvmlDeviceGetP2PStatus", handle, other, index)
            if status is not None:
                pairs.append({"first": bus_id, "second": other_bus_id, "status": status})
    return tuple(pairs)
