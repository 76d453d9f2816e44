#!/usr/bin/env bash
# Run a command whose /tmp lies in memory, in a mount namespace of its own that goes with it: a test
# that waits for a daemon must not wait for a disk that somebody else keeps busy. Where that can't be
# done (not root, little memory, this checkout or TMPDIR in /tmp), the command runs as it is.
set -euo pipefail
checkout=$(cd "$(dirname "$0")/.." && pwd -P)
needed_kib=$((8 << 20))

if [ "$(id -u)" -ne 0 ] || [[ "$checkout/" == /tmp/* ]] || [ -n "${TMPDIR:-}" ] ||
    [ "$(awk '/^MemAvailable:/ {print $2}' /proc/meminfo)" -lt "$needed_kib" ] ||
    ! unshare --mount mount -t tmpfs none /tmp 2>/dev/null; then
    exec "$@"
fi
exec unshare --mount bash -c 'mount -t tmpfs -o size=6g,mode=1777 flightcheck-tests /tmp && exec "$@"' - "$@"
