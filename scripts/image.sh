#!/usr/bin/env bash
# Makes dist/agon-image.tar without Docker: an OCI image for this machine's architecture with
# agon, gVisor and the boxes' root file system on a small Debian, that runs as uid 1000.
# The times of its files are the commit's, but for those of the boxes.
#
#   skopeo copy oci-archive:dist/agon-image.tar docker://registry.example/agon:1
#   podman load -i dist/agon-image.tar; ctr -n k8s.io images import dist/agon-image.tar
#
#   TAG=NAME      the image's name (default agon:VERSION)
#   BOXES=0       leave out gVisor and the root file system: servers and gateways need neither
#   CHECK=1       run it with runc: agon doctor as uid 1000, with no capability on a read-only root
set -euo pipefail
cd "$(dirname "$0")/.."
say() { printf 'image: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }
for tool in mmdebstrap jq git; do
	command -v $tool >/dev/null || die "$tool is missing (Debian: apt-get install mmdebstrap jq git)"
done
[ "$(id -u)" = 0 ] || die "run it as root: the files of the boxes' root file system keep their owners"
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH CGO_ENABLED=0 LC_ALL=C TZ=UTC GOFLAGS="-trimpath -buildvcs=false"
arch=$(go env GOHOSTARCH)
version=$(sed -n 's/^const Version = "\(.*\)"$/\1/p' agon.go)
tag=${TAG:-agon:$version}
commit=$(git rev-parse HEAD)
umask 022
tmp=$(mktemp -d)
trap 'chmod -R u+w "$tmp" 2>/dev/null; rm -rf "$tmp"' EXIT
out=$tmp/oci
blobs=$out/blobs/sha256
mkdir -p "$blobs" dist

# pack DIR ARCHIVE [OPTION...]: what DIR holds as an archive.
pack() {
	local dir=$1 to=$2
	shift 2
	tar --sort=name --numeric-owner --format=posix --pax-option=delete=atime,delete=ctime "$@" -C "$dir" -cf "$to" .
}
# put FILE TYPE: stores a file as a blob and prints its descriptor.
put() {
	local sum
	sum=$(sha256sum <"$1" | cut -d' ' -f1)
	cp "$1" "$blobs/$sum"
	jq -nc --arg t "$2" --arg d "sha256:$sum" --argjson n "$(stat -c %s "$1")" '{mediaType: $t, digest: $d, size: $n}'
}
layers=() ids=()
# layer ARCHIVE: compresses it and adds it to the image.
layer() {
	ids+=("sha256:$(sha256sum <"$1" | cut -d' ' -f1)")
	gzip -6n <"$1" >"$tmp/layer.gz"
	layers+=("$(put "$tmp/layer.gz" application/vnd.oci.image.layer.v1.tar+gzip)")
	rm "$1" "$tmp/layer.gz"
}

say "Debian"
mmdebstrap --quiet --variant=essential --format=tar --include=bubblewrap,ca-certificates,mount,runc,uidmap \
	--aptopt='APT::Install-Recommends "false"' \
	--dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
	--customize-hook='echo "agon:x:1000:1000::/home/agon:/bin/sh" >>"$1/etc/passwd"' \
	--customize-hook='echo "agon:x:1000:" >>"$1/etc/group"' \
	--customize-hook='rm -rf "$1"/etc/hostname "$1"/etc/resolv.conf "$1"/var/lib/apt/lists/* "$1"/var/cache/apt/* "$1"/var/log/*' \
	--customize-hook='install -d -o 1000 -g 1000 -m 755 "$1/home/agon" && install -d -o 1000 -g 1000 -m 700 "$1/data"' \
	bookworm "$tmp/base.tar" ${MIRROR:+"$MIRROR"} || die "mmdebstrap failed"
layer "$tmp/base.tar"

if [ "${BOXES:-1}" != 0 ]; then
	say "gVisor and the boxes' root file system"
	cache=$tmp/boxes/var/cache/agon
	mkdir -p "$cache/rootfs"
	programs=$(scripts/runsc.sh -all) && root=$(scripts/rootfs.sh)
	for program in $programs; do cp -a "$(dirname "$program")" "$cache/"; done
	cp -a "$root" "$cache/rootfs/"
	touch -d "@$SOURCE_DATE_EPOCH" "$tmp/boxes" "$tmp/boxes/var" "$tmp/boxes/var/cache" "$cache" "$cache/rootfs"
	pack "$tmp/boxes" "$tmp/boxes.tar" # its files keep their times: Python's compiled files name them
	rm -rf "$tmp/boxes"
	layer "$tmp/boxes.tar"
fi

say "agon"
mkdir -p "$tmp/app/usr/local/bin"
go build -ldflags "-s -w -buildid= -X main.commit=${commit:0:12}" -o "$tmp/app/usr/local/bin/agon" ./cmd/agon
pack "$tmp/app" "$tmp/app.tar" --owner=0 --group=0 --mtime="@$SOURCE_DATE_EPOCH"
layer "$tmp/app.tar"

created=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)
printf '%s\n' "${ids[@]}" | jq -R . | jq -s --arg a "$arch" --arg at "$created" --arg v "$version" --arg c "$commit" '{
	architecture: $a, os: "linux", created: $at,
	config: {
		User: "1000:1000", WorkingDir: "/data", Entrypoint: ["agon"], Cmd: ["doctor"], Volumes: {"/data": {}},
		Env: ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/home/agon", "AGON_DATA=/data"],
		Labels: {"org.opencontainers.image.version": $v, "org.opencontainers.image.revision": $c}
	},
	rootfs: {type: "layers", diff_ids: .},
	history: [range(length) | {created: $at, created_by: "scripts/image.sh"}]
}' >"$tmp/config.json"
config=$(put "$tmp/config.json" application/vnd.oci.image.config.v1+json)
printf '%s\n' "${layers[@]}" | jq -s --argjson c "$config" \
	'{schemaVersion: 2, mediaType: "application/vnd.oci.image.manifest.v1+json", config: $c, layers: .}' >"$tmp/manifest.json"
manifest=$(put "$tmp/manifest.json" application/vnd.oci.image.manifest.v1+json)
jq -n --argjson m "$manifest" --arg t "$tag" --arg a "$arch" '{schemaVersion: 2, mediaType: "application/vnd.oci.image.index.v1+json", manifests: [
	$m + {platform: {architecture: $a, os: "linux"}, annotations: {"org.opencontainers.image.ref.name": $t, "io.containerd.image.name": $t}}
]}' >"$out/index.json"
printf '{"imageLayoutVersion":"1.0.0"}' >"$out/oci-layout"
tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -C "$out" -cf dist/agon-image.tar oci-layout index.json blobs
say "dist/agon-image.tar is $tag, $(du -h dist/agon-image.tar | cut -f1)"
jq -r .digest <<<"$manifest"
[ "${CHECK:-0}" != 0 ] || exit 0

root=$tmp/root
mkdir -p "$root" "$tmp/bundle"
for l in $(jq -r '.layers[].digest' "$tmp/manifest.json"); do
	tar --numeric-owner -C "$root" -xzf "$blobs/${l#sha256:}"
done
(cd "$tmp/bundle" && runc spec)
jq --arg root "$root" --slurpfile c "$tmp/config.json" '$c[0].config as $i | .root = {path: $root, readonly: true}
	| .process += {terminal: false, user: {uid: 1000, gid: 1000}, cwd: $i.WorkingDir, env: $i.Env, args: ($i.Entrypoint + ["doctor", "-o", "json"]), capabilities: {}}
	| .mounts += [{destination: "/data", type: "tmpfs", source: "tmpfs", options: ["uid=1000", "gid=1000", "mode=700"]},
		{destination: "/home/agon", type: "tmpfs", source: "tmpfs", options: ["uid=1000", "gid=1000"]}, {destination: "/tmp", type: "tmpfs", source: "tmpfs", options: ["mode=1777"]}]
	| .linux.maskedPaths = [] | .linux.readonlyPaths = []' "$tmp/bundle/config.json" >"$tmp/spec.json"
mv "$tmp/spec.json" "$tmp/bundle/config.json"
# The doctor exits with an error where a check fails: what it says is read below.
said=$(runc run --bundle "$tmp/bundle" "agon-image-$$" || true)
jq -r '.[] | "\(.status)\t\(.name): \(.detail)"' <<<"$said" >&2 || die "agon doctor said $said"
jq -e '[.[] | select(.status == "fail")] | length == 0' <<<"$said" >/dev/null || [ "${BOXES:-1}" = 0 ] || die "agon doctor finds something wrong in the image"
