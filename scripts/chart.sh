#!/usr/bin/env bash
# What helm template makes of deploy/chart, for the API versions 1.30 to 1.34, read as
# strictly as a server of Kubernetes can. Helm is built from the module proxy.
set -euo pipefail
cd "$(dirname "$0")/../interop/chart"
GOFLAGS="-trimpath" exec go test -count=1 -timeout 30m -v "$@" ./...
