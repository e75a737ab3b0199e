#!/usr/bin/env bash
# ROUNDS faults at two servers over one PostgreSQL and one bucket (docs/servers.md). Needs root
# and iproute2.
set -euo pipefail
cd "$(dirname "$0")/.."
AGON_TEST_S3=$(scripts/s3servers.sh versitygw)
export AGON_TEST_S3 AGON_SERVER_FAULTS="${ROUNDS:-200}"
go test -count=1 -timeout 240m -v -run '^TestServerFaults$' ./cmd/agon/roles | grep -E '^(---|ok|FAIL|    )' | tee /dev/stderr | grep -q '^ok'
