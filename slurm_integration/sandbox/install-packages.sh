#!/usr/bin/env bash
# Install the named Debian packages unless they are there. Says what to do where it cannot.
set -euo pipefail

missing=()
for package in "$@"; do
    state=$(dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null || true)
    [ "$state" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

if ! command -v apt-get >/dev/null; then
    echo "flightcheck: not a Debian system: install Slurm, munge and a C compiler by hand" \
         "(Debian calls them: ${missing[*]}); without them the real-Slurm tests are skipped" >&2
    exit 0
fi
if [ "$(id -u)" -ne 0 ]; then
    echo "flightcheck: not root: ask for 'apt-get install ${missing[*]}';" \
         "without them the real-Slurm tests are skipped" >&2
    exit 0
fi
echo "flightcheck: installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
# A machine must not start Debian's own slurmctld, slurmd and munge for a sandbox.
policy=/usr/sbin/policy-rc.d
made=no
if [ ! -e $policy ]; then
    printf '#!/bin/sh\nexit 101\n' > $policy
    chmod 755 $policy
    made=yes
fi
trap '[ $made = no ] || rm -f $policy' EXIT
apt-get -qq update
apt-get -qq -y install --no-install-recommends "${missing[@]}" >/dev/null
