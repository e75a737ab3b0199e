#!/usr/bin/env bash
# Makes dist/: for each architecture an archive and a Debian package of agon, a
# CycloneDX SBOM of the binary, check sums, a signature. What is built is built twice, in
# two directories with a build cache each, and both must be the same bytes.
#
#   ARCHES="amd64 arm64"   what to build for
#   AGON_VULNDB=URL        a database for govulncheck (https://… or file:///…); without it this is not checked
#   AGON_RELEASE_KEY=FILE  a private SSH key that signs SHA256SUMS; without it nothing is signed
#   TWICE=0                build once
set -euo pipefail
cd "$(dirname "$0")/.."
say() { printf 'release: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

cyclonedx=github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0
govulncheck=golang.org/x/vuln/cmd/govulncheck@v1.9.0

[ -z "$(git status --porcelain)" ] || die "the checkout has changes that are not committed: what is released is a commit"
commit=$(git rev-parse --short=12 HEAD)
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH CGO_ENABLED=0 LC_ALL=C TZ=UTC
version=$(sed -n 's/^const Version = "\(.*\)"$/\1/p' agon.go)
[ -n "$version" ] || die "agon.go names no version"
# The toolchain that go.mod names, whatever is installed.
GOTOOLCHAIN=go$(sed -n 's/^go \([0-9.]*\)$/\1/p' go.mod)
export GOTOOLCHAIN
umask 022
rm -rf dist && mkdir dist
tmp=$(mktemp -d)
trap 'chmod -R u+w "$tmp" 2>/dev/null; rm -rf "$tmp"' EXIT

# build DIR ARCH OUT: agon of the commit, from a copy in DIR.
build() {
	(cd "$1" && GOOS=linux GOARCH=$2 GOAMD64=v1 GOARM64=v8.0 GOFLAGS="-trimpath -buildvcs=false -mod=readonly" \
		go build -ldflags "-s -w -buildid= -X main.commit=$commit" -o "$3" ./cmd/agon)
}
copy() { mkdir -p "$1" && git archive HEAD | tar -x -C "$1"; }

copy "$tmp/one"
[ "${TWICE:-1}" = 0 ] || copy "$tmp/elsewhere/two"
for arch in ${ARCHES:-amd64 arm64}; do
	name=agon_${version}_linux_$arch
	stage=$tmp/stage/$name
	mkdir -p "$stage"
	say "building $name"
	build "$tmp/one" "$arch" "$stage/agon"
	if [ "${TWICE:-1}" != 0 ]; then
		say "building $name again, in another directory and from nothing"
		GOCACHE=$tmp/cache-$arch build "$tmp/elsewhere/two" "$arch" "$tmp/second"
		cmp "$stage/agon" "$tmp/second" || die "two builds of $name differ"
		rm -rf "$tmp/cache-$arch" "$tmp/second"
	fi
	cp LICENSE README.md CHANGELOG.md "$stage/"
	cp -r deploy "$stage/deploy"
	# Completions and manual pages are the same for all: those of a binary that runs here.
	if [ ! -d "$tmp/share" ]; then
		host=$stage/agon
		[ "$arch" = "$(go env GOHOSTARCH)" ] || { build "$tmp/one" "$(go env GOHOSTARCH)" "$tmp/host" && host=$tmp/host; }
		"$host" man "$tmp/share/man/man1"
		for s in bash/bash-completion/completions/agon zsh/zsh/site-functions/_agon fish/fish/vendor_completions.d/agon.fish; do
			f=$tmp/share/${s#*/}
			mkdir -p "$(dirname "$f")"
			"$host" completion "${s%%/*}" >"$f"
		done
		gzip -9nf "$tmp"/share/man/man1/*
	fi
	cp -r "$tmp/share" "$stage/share"
	tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -C "$tmp/stage" -cf - "$name" | gzip -9n >"dist/$name.tar.gz"

	if command -v dpkg-deb >/dev/null 2>&1; then
		deb=$tmp/deb-$arch
		install -D -m 755 "$stage/agon" "$deb/usr/bin/agon"
		install -D -m 644 LICENSE "$deb/usr/share/doc/agon/copyright"
		cp -r "$tmp/share/." "$deb/usr/share/"
		# Units name /usr/local/bin, where make install puts the binary.
		mkdir -p "$deb/lib/systemd/system" "$deb/DEBIAN"
		for u in deploy/agon-*.service deploy/agon-*.timer; do
			sed 's#/usr/local/bin/agon#/usr/bin/agon#; /^\# install -m/d' "$u" >"$deb/lib/systemd/system/$(basename "$u")"
		done
		cat >"$deb/DEBIAN/control" <<CONTROL
Package: agon
Version: $version
Architecture: $arch
Maintainer: the agon authors <agon@agon.invalid>
Section: net
Priority: optional
Recommends: bubblewrap, runc, uidmap, ca-certificates
Homepage: https://github.com/agon-arena/agon
Description: arenas of agents
 Server, gateway, validator and the tools of miners in one binary.
CONTROL
		# The times of files are the commit's, and so are those of the archive (SOURCE_DATE_EPOCH).
		find "$deb" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
		dpkg-deb --root-owner-group -Zxz --build "$deb" "dist/$name.deb" >/dev/null
	else
		say "no Debian package: dpkg-deb is not installed"
	fi

	go run "$cyclonedx" bin -json -noserial -output "dist/$name.cdx.json" "$stage/agon" 2>"$tmp/sbom.log" || die "no SBOM: $(cat "$tmp/sbom.log")"
	if [ -n "${AGON_VULNDB:-}" ]; then
		say "asking govulncheck about $name"
		go run "$govulncheck" -db "$AGON_VULNDB" -mode binary "$stage/agon" || die "govulncheck found something in $name"
	fi
done
[ -n "${AGON_VULNDB:-}" ] || say "not checked for known vulnerabilities: AGON_VULNDB names no database"
(cd dist && sha256sum -- agon_* >SHA256SUMS)
if [ -n "${AGON_RELEASE_KEY:-}" ]; then
	ssh-keygen -q -Y sign -f "$AGON_RELEASE_KEY" -n agon-release dist/SHA256SUMS
else
	say "not signed: AGON_RELEASE_KEY names no key"
fi
cat dist/SHA256SUMS
