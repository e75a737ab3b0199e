#!/usr/bin/env bash
# The tests of blobs in a bucket, on real S3 servers (versitygw, SeaweedFS) that are built
# from the module proxy. SEAWEEDFS=0 leaves the second out: its first build takes many minutes.
set -euo pipefail
cd "$(dirname "$0")/.."
AGON_TEST_S3=$(scripts/s3servers.sh versitygw)
export AGON_TEST_S3
tests=TestServer
if [ "${SEAWEEDFS:-1}" != 0 ]; then
	AGON_TEST_S3_SEAWEEDFS=$(scripts/s3servers.sh seaweedfs)
	export AGON_TEST_S3_SEAWEEDFS
	tests="$tests|TestSeaweedFS"
fi
exec go test -count=1 -timeout 20m -v -run "${RUN:-^($tests|TestServerTLS|TestURLs|TestBlobsInABucket|TestLogInABucket|TestCorpusInABucket)$}" ./blob/s3 ./cmd/agon/roles "$@"
