#!/usr/bin/env bash
# All tests with the race detector. Prints what could not be exercised here.
set -euo pipefail
cd "$(dirname "$0")/.."
go vet ./...
# Two packages at a time: the boxes of more would only wait for each other.
exec go test -race -timeout 15m -p 2 ./... "$@"
