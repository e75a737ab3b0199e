#!/usr/bin/env bash
# Fails where no program of this module reaches a function that scripts/deadcode.keep does
# not name. Packages of help for tests are left out.
set -euo pipefail
cd "$(dirname "$0")/.."
GOFLAGS="$(go env GOFLAGS) -trimpath"
export GOFLAGS
format='{{range .Funcs}}{{$.Path}} {{.Name}}{{println}}{{end}}'
found=$(go run golang.org/x/tools/cmd/deadcode@v0.30.0 -f "$format" ./... |
	sed 's|^github.com/agon-arena/agon/||' | grep -vE '^[^ ]*test(/[^ ]*)? |^$' | sort -u)
kept=$(grep -vE '^(#|$)' scripts/deadcode.keep | sort -u)
new=$(comm -13 <(printf '%s\n' "$kept") <(printf '%s\n' "$found"))
if [ -n "$new" ]; then
	printf 'deadcode: no program reaches these; use them, delete them, or name them in scripts/deadcode.keep:\n%s\n' "$new" >&2
	exit 1
fi
comm -23 <(printf '%s\n' "$kept") <(printf '%s\n' "$found") | sed 's/^/deadcode: named in vain: /' >&2
echo "deadcode: none but the $(wc -l <<<"$kept") that scripts/deadcode.keep names"
