#!/usr/bin/env bash
# Every fuzz target of the tree for FUZZTIME (10s) each; arguments take targets or packages with
# a word of theirs in the name. The targets are what `git grep` finds: none can be left out of
# a list. `make test` runs their seeds. A finding is written below the package's testdata.
set -euo pipefail
cd "$(dirname "$0")/.."
GOFLAGS="$(go env GOFLAGS) -trimpath"
export GOFLAGS
time=${FUZZTIME:-10s}
mapfile -t targets < <(git grep -oE '^func Fuzz[A-Za-z0-9_]+' -- '*_test.go' | sed -E 's|/[^/]*_test.go:func | |' | sort -u)
failed=0 done=0
for t in "${targets[@]}"; do
	package=${t% *} name=${t#* }
	for word in "$@"; do [[ "$t" != *"$word"* ]] || break; done
	[ $# = 0 ] || [[ "$t" = *"$word"* ]] || continue
	done=$((done + 1))
	if out=$(go test -vet=off -run '^$' -fuzz "^$name\$" -fuzztime "$time" "./$package" 2>&1); then
		printf '%-60s %s\n' "$package $name" "$(grep -oE 'execs: [0-9]+ \([0-9]+/sec\)' <<<"$out" | tail -n 1)"
	else
		failed=$((failed + 1))
		printf '%s %s failed:\n%s\n' "$package" "$name" "$out"
	fi
done
echo "fuzz: $done targets, $failed failed"
[ "$failed" = 0 ]
