#!/usr/bin/env bash
# s3servers.sh NAME prints the path of a real S3 server for tests, versitygw or seaweedfs,
# and builds it from the module proxy where it is not there yet.
set -euo pipefail
cd "$(dirname "$0")/.."
tools=$PWD/.cache/tools
case "${1:-}" in
versitygw)
	version=v1.8.0 bin=versitygw
	;;
seaweedfs)
	version=v0.0.0-20261109003541-7506e5f91cd6 bin=weed
	;;
*)
	printf 's3servers: give versitygw or seaweedfs\n' >&2
	exit 2
	;;
esac
dir=$tools/$1-$version
if [ ! -x "$dir/$bin" ]; then
	printf 's3: building %s %s\n' "$1" "$version" >&2
	if [ "$1" = versitygw ]; then
		(cd / && GOBIN="$dir" GOFLAGS=-trimpath go install "github.com/versity/versitygw/cmd/versitygw@$version") >&2
	else # its go.mod replaces a module, so that it builds as the main module alone
		src=$(cd / && GOFLAGS='' go mod download -json "github.com/seaweedfs/seaweedfs@$version" | sed -n 's/^\t"Dir": "\(.*\)",\?$/\1/p')
		(cd "$src" && CGO_ENABLED=0 GOFLAGS=-trimpath go build -ldflags '-s -w' -o "$dir/$bin" ./weed) >&2
	fi
fi
printf '%s\n' "$dir/$bin"
