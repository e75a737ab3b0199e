#!/usr/bin/env bash
# All tests with the race detector. Prints what could not be exercised here.
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
# What draws millions of pairs, or slides over every byte of a root file system, shares
# nothing and takes minutes with the detector.
go test -vet=off ./engine/incentive ./engine/task/leak
# SQLite in Go and its C library are left out of the detector: they work on memory of
# their own, which it does not know, and take five times as long in it. The search for
# hidden bytes takes six times as long; its own tests ran above.
# Two packages at a time: the boxes of more would only wait for each other.
exec go test -vet=off -race -gcflags=modernc.org/sqlite/lib=-race=false -gcflags=modernc.org/libc/...=-race=false \
	-gcflags=github.com/agon-arena/agon/engine/task/leak=-race=false -timeout 40m -p 2 ./... "$@"
