#!/usr/bin/env bash
# Every fuzz target of the tree for FUZZTIME (10s) each; arguments take targets or packages with
# a word of theirs in the name. The targets are what `git grep` finds: none can be left out of
# a list. `make test` runs their seeds. A finding is written below the package's testdata.
set -euo pipefail
cd "$(dirname "$0")/.."
GOFLAGS="$(go env GOFLAGS) -trimpath"
export GOFLAGS
time=${FUZZTIME:-10s}
once() { go test -vet=off -run '^$' -fuzz "^$2\$" -fuzztime "$time" "./$1" 2>&1; }
mapfile -t targets < <(git grep -oE '^func Fuzz[A-Za-z0-9_]+' -- '*_test.go' | sed -E 's|/[^/]*_test.go:func | |' | sort -u)
failed=0 done=0
for t in "${targets[@]}"; do
	package=${t% *} name=${t#* }
	for word in "$@"; do [[ "$t" != *"$word"* ]] || break; done
	[ $# = 0 ] || [[ "$t" = *"$word"* ]] || continue
	done=$((done + 1))
	# At the end of its time the tool sometimes calls an input that is under way a failure, and
	# writes none: then the target runs once more.
	if out=$(once "$package" "$name") || { grep -q 'context deadline exceeded' <<<"$out" && ! grep -q 'Failing input' <<<"$out" && out=$(once "$package" "$name"); }; then
		printf '%-60s %s\n' "$package $name" "$(grep -oE 'execs: [0-9]+ \([0-9]+/sec\)' <<<"$out" | tail -n 1)"
	else
		failed=$((failed + 1))
		printf '%s %s failed:\n%s\n' "$package" "$name" "$out"
	fi
done
echo "fuzz: $done targets, $failed failed"
[ "$failed" = 0 ]
