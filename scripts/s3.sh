#!/usr/bin/env bash
# The tests of blobs in a bucket, on a real S3 server (versitygw) that is built from
# the module proxy.
set -euo pipefail
cd "$(dirname "$0")/.."
version=v1.8.0
dir=$PWD/.cache/tools/versitygw-$version
if [ ! -x "$dir/versitygw" ]; then
	printf 's3: building versitygw %s\n' "$version" >&2
	(cd / && GOBIN="$dir" GOFLAGS="-trimpath" go install "github.com/versity/versitygw/cmd/versitygw@$version")
fi
AGON_TEST_S3="$dir/versitygw" exec go test -count=1 -timeout 20m -v -run "${RUN:-^Test(Server|URLs|BlobsInABucket)}" ./blob/s3 ./cmd/agon/roles "$@"
