#!/usr/bin/env bash
# All tests. AGON_RACE=all: all of them with the race detector.
set -euo pipefail
cd "$(dirname "$0")/.."
# No path of a checkout in what is built: clones share the build cache.
GOFLAGS="$(go env GOFLAGS) -trimpath"
export GOFLAGS
# The store's tests run on a real PostgreSQL.
if ! ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1; then
	sudo=
	[ "$(id -u)" = 0 ] || sudo="sudo -n"
	echo "test: installing postgresql" >&2
	$sudo apt-get update -qq && DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends postgresql >/dev/null
fi
go vet ./...
# What draws millions of pairs or a whole catalogue, slides over every byte of a root file
# system, reads or builds the whole project, or plays in whole servers takes longer with the
# race detector, up to seven times. Here it runs without: `make race` runs it with.
mapfile -t plain < <(go list ./... | grep -E '/agon/(cmd/agon|cmd/agon/scaffold|engine/incentive|engine/task/leak|internal/law|kinds/harbor|kinds/pack|kinds/coding/play|kinds/research|kinds/research/play|kinds/shopping|kinds/shopping/problem)$')
mapfile -t others < <(go list ./... | grep -vxFf <(printf '%s\n' "${plain[@]}" github.com/agon-arena/agon/cmd/agon/roles))
# The longest package by far is cmd/agon/roles: these tests of it run beside the rest of it.
apart='^(TestCanaryWalk|TestCanaryRotation|TestPreflightOfEveryKind)$'
# SQLite in Go and its C library are left out of the detector: they work on memory of
# their own, which it does not know, and take five times as long in it. So is the search
# for hidden bytes.
race=(-race -gcflags=modernc.org/sqlite/lib=-race=false -gcflags=modernc.org/libc/...=-race=false
	-gcflags=modernc.org/memory=-race=false -gcflags=github.com/agon-arena/agon/engine/task/leak=-race=false)
# run N ARGS: N packages at a time. In all three are at work: with two, a quarter of both cores
# waits for boxes and events.
run() { go test -vet=off -timeout 40m -p "$@"; }
# kept ARGS: as run, and what it says is kept for the end.
kept() { run "$@" | tee -a "$log"; }
log=$(mktemp)
said=$(mktemp)
trap 'rm -f "$said" "$log"' EXIT
# ended STATUS: what go test ended with, other than 0. Only failed tests, 1, may be tried
# again: a run that was killed or did not start has left tests out.
ended() {
	[ "$1" = 1 ] || exit "$1"
	./scripts/again.sh "$log"
}
if [ "${AGON_RACE:-}" = all ]; then
	kept 2 "${race[@]}" ./... || ended $?
	exit
fi
run 1 -skip "$apart" ./cmd/agon/roles >"$said" 2>&1 &
beside=$!
status=0
# worst keeps the greatest status.
worst() { [ "$1" -le "$status" ] || status=$1; }
kept 2 "${plain[@]}" || worst $?
kept 1 -run "$apart" ./cmd/agon/roles || worst $?
wait "$beside" || worst $?
tee -a "$log" <"$said"
kept 3 "${race[@]}" "${others[@]}" || worst $?
[ "$status" = 0 ] || ended "$status"
