#!/usr/bin/env bash
# A Debian package in dist/: every wheel that flightcheck needs, put into a venv under /opt/flightcheck
# when it is installed, without a network. `make deb` calls this; no root is needed.
# The package fits the Python it was built with: wheels with C inside are made for one minor release.
set -euo pipefail
cd "$(dirname "$0")/../.."

python=${1:?the venv\'s python}
wheel=$(ls dist/flightcheck-*-py3-none-any.whl)
version=$(basename "$wheel" | cut -d- -f2)
minor=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
next=$("$python" -c 'import sys; print("%d.%d" % (sys.version_info[0], sys.version_info[1] + 1))')
architecture=$(dpkg --print-architecture)
# The same sources give the same package.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 1700000000)}
export SOURCE_DATE_EPOCH

tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
umask 022
share=$tree/usr/share
mkdir -p "$tree/DEBIAN" "$share/flightcheck/wheels" "$tree/usr/bin" "$share/doc/flightcheck/examples" \
    "$share/bash-completion/completions" "$share/zsh/vendor-completions" \
    "$share/fish/vendor_completions.d" "$share/man"

"$python" -m pip wheel --quiet --disable-pip-version-check --wheel-dir "$share/flightcheck/wheels" "$wheel"
for command in flightcheck flightcheck-prolog flightcheck-epilog flightcheck-health \
    flightcheck-task-prolog; do
    ln -s "/opt/flightcheck/bin/$command" "$tree/usr/bin/$command"
done
flightcheck="$python -m healthcheck.main"
$flightcheck completion bash > "$share/bash-completion/completions/flightcheck"
$flightcheck completion zsh > "$share/zsh/vendor-completions/_flightcheck"
$flightcheck completion fish > "$share/fish/vendor_completions.d/flightcheck.fish"
"$python" -m docs.generate.man "$share/man"
find "$share/man" -type f -exec gzip -9n {} +
cp healthcheck/data/flightcheck.toml "$share/doc/flightcheck/examples/"
cp LICENSE "$share/doc/flightcheck/copyright"
gzip -9nc CHANGELOG.md > "$share/doc/flightcheck/changelog.gz"

cat > "$tree/DEBIAN/control" <<END
Package: flightcheck
Version: $version
Architecture: $architecture
Maintainer: The flightcheck authors <flightcheck@localhost>
Section: admin
Priority: optional
Depends: python3 (>= $minor), python3 (<< $next), python3-venv
Suggests: slurm-client, openssh-client
Description: Preflight and postflight node health for GPU training clusters
 Looks at each node before a Slurm job starts there, drains a sick one with a reason that somebody
 can act on, and says after a crash which rank on which node began it.
 .
 As shipped it only says what it would do. "flightcheck install" puts its hooks beside Slurm's own.
END
sed "s/@VERSION@/$version/" contrib/debian/postinst > "$tree/DEBIAN/postinst"
cp contrib/debian/prerm contrib/debian/postrm "$tree/DEBIAN/"
chmod 755 "$tree/DEBIAN/postinst" "$tree/DEBIAN/prerm" "$tree/DEBIAN/postrm"
find "$tree" -newermt "@$SOURCE_DATE_EPOCH" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
dpkg-deb --root-owner-group -Zxz --build "$tree" "dist/flightcheck_${version}_${architecture}.deb" >/dev/null
echo "dist/flightcheck_${version}_${architecture}.deb"
