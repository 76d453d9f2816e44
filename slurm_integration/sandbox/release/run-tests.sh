#!/usr/bin/env bash
# The real-Slurm tests on another Debian's Slurm and Python, inside a folder: `make test-slurm-24`
# takes Debian 13 (Slurm 24.11, Python 3.13). Root only. What is mounted lies in a mount namespace of
# this command's own and goes with it, whatever happens.
#
#     run-tests.sh SUITE PYTHON-MINOR FOLDER [pytest's arguments]
set -euo pipefail
suite=$1 minor=$2 folder=$3
shift 3
here=$(cd "$(dirname "$0")/../../.." && pwd)
root=$folder/root wheels=$folder/wheels
packages=slurm-wlm,munge,libslurm-dev,python3,python3-venv,gcc,libc6-dev,make,openssh-server
packages=$packages,openssh-client,procps,strace,groff-base,ca-certificates

if [ ! -e "$folder/.made" ]; then
    # From where this machine's own apt gets Debian.
    mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null |
        grep -oE '^(deb( \[[^]]*\])?|URIs:) \S+/debian/?( |$)' | head -1 | awk '{print $NF}') || true
    rm -rf "$root"
    mkdir -p "$folder"
    debootstrap --variant=minbase --include="$packages" "$suite" "$root" ${mirror:+"$mirror"} \
        > "$folder/debootstrap.log" || { tail -5 "$folder/debootstrap.log"; exit 1; }
    touch "$folder/.made"
fi

# The wheels are fetched out here, with this machine's own ways to the registry.
rm -rf "$folder/dist" && mkdir -p "$wheels"
cd "$here"
.venv/bin/python -m build --quiet --wheel --outdir "$folder/dist" .
.venv/bin/pip download -qq --disable-pip-version-check --only-binary=:all: --dest "$wheels" \
    --python-version "$minor" --implementation cp --abi "cp${minor/./}" --abi abi3 --abi none \
    --platform manylinux2014_x86_64 --platform manylinux_2_17_x86_64 \
    --platform manylinux_2_28_x86_64 --platform manylinux_2_34_x86_64 --platform linux_x86_64 \
    "$(echo "$folder"/dist/*.whl)[dev]" hatchling editables

# Slurm asks for an address of the host that srun runs on, ten times a second apart, under its locks.
printf '127.0.0.1 localhost %s\n' "$(hostname)" > "$root/etc/hosts"

rm -rf "$root/src" && mkdir -p "$root/src"
git ls-files -co --exclude-standard -z |
    while IFS= read -r -d '' file; do
        if [ -f "$file" ]; then printf '%s\0' "$file"; fi
    done | xargs -0 cp --parents -t "$root/src"
export root wheels
exec unshare --mount --pid --fork --kill-child --propagation private bash -euo pipefail -c '
    mkdir -p "$root/wheels"
    mount --bind "$wheels" "$root/wheels"
    mount -t proc proc "$root/proc"
    mount --rbind /dev "$root/dev"
    mount -t tmpfs tmpfs "$root/run"
    mount -t tmpfs tmpfs "$root/tmp"
    chmod 1777 "$root/tmp"
    exec chroot "$root" /usr/bin/env -i HOME=/root LANG=C.UTF-8 \
        PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin bash -euo pipefail -c '"'"'
        cd /src
        [ -x .venv/bin/python ] || python3 -m venv .venv
        .venv/bin/pip install --quiet --disable-pip-version-check --no-index --find-links /wheels \
            hatchling editables
        .venv/bin/pip install --quiet --disable-pip-version-check --no-index --find-links /wheels \
            --no-build-isolation --editable ".[dev]"
        slurmctld -V; .venv/bin/python --version
        exec .venv/bin/pytest -m slurm "$@"
    '"'"' tests "$@"' run "$@"
