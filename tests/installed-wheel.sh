#!/usr/bin/env bash
# The wheel as a user gets it: commands are there, and data files came along.
# Usage: installed-wheel.sh VENV, where nothing but the wheel is installed.
set -euo pipefail
venv=$1
cd /

fail() { echo "installed wheel: $*" >&2; exit 1; }
code() { local rc=0; "$@" >/dev/null 2>&1 || rc=$?; echo "$rc"; }

"$venv/bin/flightcheck" --version
"$venv/bin/flightcheck" check || [ $? -le 3 ]
[ "$(code "$venv/bin/flightcheck" check --no-such-option)" = 64 ] || fail "a usage error must exit 64"
grep -q h100-sxm <<< "$("$venv/bin/flightcheck" profile list)" || fail "profiles are missing"
grep -q "fallen off the bus" <<< "$("$venv/bin/flightcheck" explain xid 79)" ||
    fail "the Xid catalogue is missing"
[ "$(code env -i "$venv/bin/flightcheck-prolog")" = 0 ] || fail "the prolog must pass here"

site=$(mktemp -d)
"$venv/bin/flightcheck" install --root "$site" >/dev/null || fail "flightcheck install fails"
[ "$(code env -i "$site/etc/slurm/flightcheck/prolog.sh")" = 0 ] || fail "the wrapper must pass here"
"$venv/bin/flightcheck" uninstall --root "$site" >/dev/null || fail "flightcheck uninstall fails"
[ -z "$(ls -A "$site")" ] || fail "uninstall left something behind"
rmdir "$site"

run() { "$venv/bin/flightcheck" sandbox run --type h100-sxm "$@"; }
[ "$(code run -- flightcheck check)" = 0 ] || fail "a healthy node must be go"
[ "$(code run --break xid-79 -- flightcheck check)" = 2 ] || fail "xid-79 must be no-go"
echo "installed wheel: fine"
