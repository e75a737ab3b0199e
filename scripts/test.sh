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
# system, reads every page, route and command of an arena, or plays whole agents of every
# kind, takes longer with the race detector, up to six times. Here it runs without: `make
# race` runs it with.
mapfile -t plain < <(go list ./... | grep -E '/agon/(cmd/agon|cmd/agon/roles|engine/incentive|engine/task/leak|kinds/shopping|kinds/shopping/problem)$')
mapfile -t others < <(go list ./... | grep -vxFf <(printf '%s\n' "${plain[@]}"))
# SQLite in Go and its C library are left out of the detector: they work on memory of
# their own, which it does not know, and take five times as long in it. So is the search
# for hidden bytes.
race=(-race -gcflags=modernc.org/sqlite/lib=-race=false -gcflags=modernc.org/libc/...=-race=false
	-gcflags=modernc.org/memory=-race=false -gcflags=github.com/agon-arena/agon/engine/task/leak=-race=false)
# Two packages at a time: the boxes of more would only wait for each other.
run() { go test -vet=off -timeout 40m -p 2 "$@"; }
if [ "${AGON_RACE:-}" = all ]; then
	run "${race[@]}" ./...
	exit
fi
run "${plain[@]}"
run "${race[@]}" "${others[@]}"
