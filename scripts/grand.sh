#!/usr/bin/env bash
# The whole proof (docs/servers.md): three servers, two gateways, six validators, RUNS runs,
# FAULTS faults and an upgrade from the commit OLD. Needs root and iproute2.
set -euo pipefail
cd "$(dirname "$0")/.."
old=${OLD:-$(git log -1 --format=%H --diff-filter=A -- engine/store/migrations)^} # the newest schema is part of the upgrade
old=$(git rev-parse --short=12 "$old^{commit}")
before=$PWD/.cache/tools/agon-$old
if [ ! -x "$before" ]; then
	src=$(mktemp -d)
	trap 'git worktree remove --force "$src"' EXIT
	printf 'grand: building %s\n' "$old" >&2
	git worktree add --quiet --detach "$src" "$old"
	(cd "$src" && CGO_ENABLED=0 go build -trimpath -o "$before" ./cmd/agon)
fi
AGON_TEST_S3=$(scripts/s3servers.sh versitygw)
export AGON_TEST_S3 AGON_GRAND_OLD=$before AGON_GRAND_NEW=$PWD/bin/agon
export AGON_GRAND_RUNS="${RUNS:-1000}" AGON_GRAND_FAULTS="${FAULTS:-20}"
mkdir -p .cache/grand
export AGON_GRAND_LOG=$PWD/.cache/grand/log AGON_SERVER_HISTORY=$PWD/.cache/grand/history.jsonl
go test -count=1 -timeout 600m -v -run '^TestGrand$' ./cmd/agon/roles | grep -E '^(---|ok|FAIL|    )' | tee /dev/stderr | grep -q '^ok'
