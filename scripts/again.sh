#!/usr/bin/env bash
# again.sh LOG: says whether the tests that failed in LOG, an output of
# `go test`, failed by chance. Up to three of them run alone, three times each, and are named
# aloud with how they went: a test of real boxes and servers on a busy machine can fail of the
# machine. A race, a panic, a package that ran out of time or does not build is never tried
# again, nor is anything when more than three failed.
set -euo pipefail
log=$1
[ -s "$log" ] || { echo "again: $log: no output of tests" >&2; exit 2; }
if grep -qE '^(WARNING: DATA RACE|panic: |fatal error: )|\[(build|setup) failed\]' "$log"; then
	echo "again: a race, a panic or a package that does not build is not tried again" >&2
	exit 1
fi
# The names of a package's failed tests stand before its own line.
mapfile -t failed < <(awk '/^--- FAIL: / { names[n++] = $3 }
	/^(FAIL|ok) *\t/ { if ($1 == "FAIL") for (i = 0; i < n; i++) print $2, names[i]; n = 0 }' "$log")
packages=$(awk '/^FAIL\t/ { n++ } END { print n + 0 }' "$log")
if [ "${#failed[@]}" -eq 0 ] || [ "${#failed[@]}" -gt 3 ]; then
	echo "again: ${#failed[@]} tests of $packages packages failed: that is not chance" >&2
	exit 1
fi
[ "$(printf '%s\n' "${failed[@]}" | cut -d' ' -f1 | sort -u | wc -l)" = "$packages" ] || {
	echo "again: a package failed without a test's name" >&2
	exit 1
}
for f in "${failed[@]}"; do
	read -r package name <<<"$f"
	if ! go test -vet=off -timeout 20m -count 3 -run "^$name\$" "$package" >&2; then
		echo "again: $package $name fails alone too" >&2
		exit 1
	fi
done
echo "again: UNSTABLE, failed once and passed three times alone: ${failed[*]}" >&2
