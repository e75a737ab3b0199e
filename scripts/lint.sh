#!/usr/bin/env bash
# Formatting, vet, staticcheck, dead code, prose, and a few changes of rules that tests must
# see; golangci-lint with .golangci.yml, which is built once into .cache/tools.
set -euo pipefail
cd "$(dirname "$0")/.."
# No path of a checkout in what is built: clones share the build cache.
GOFLAGS="$(go env GOFLAGS) -trimpath"
export GOFLAGS
# Analysis of all dependencies spends a quarter of its time in the collector otherwise.
export GOGC=400 GOMEMLIMIT=4GiB
bad=$(go run mvdan.cc/gofumpt@v0.9.1 -l $(git ls-files '*.go'))
[ -z "$bad" ] || { printf 'not formatted (make fmt):\n%s\n' "$bad"; exit 1; }
go vet ./...
# Tests that CI does not run are compiled all the same.
go vet -tags interop,browser $(git grep -lE '^//go:build (interop|browser)' -- '*.go' | xargs -n1 dirname | sort -u | sed 's|^|./|')
go run honnef.co/go/tools/cmd/staticcheck@v0.6.1 ./...
./scripts/deadcode.sh
go run ./bench/prose
go run ./bench/mutants -short
version=v2.15.0
golangci=.cache/tools/golangci-lint-$version
if [ ! -x "$golangci" ]; then
	mkdir -p .cache/tools
	GOBIN=$PWD/.cache/tools go install -ldflags='-s -w' "github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$version"
	mv .cache/tools/golangci-lint "$golangci"
fi
"$golangci" run
