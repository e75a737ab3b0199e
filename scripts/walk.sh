#!/usr/bin/env bash
# A stranger's walk: clones this repository, goes to a home that is empty, and
# types the commands of docs/first.md as they stand there. Slow;
# not part of CI. AGON_CACHE may name a cache of root file systems, else all are
# made anew.
set -euo pipefail
cd "$(dirname "$0")/.."
say() { printf 'walk: %s\n' "$*" >&2; }
die() { printf 'walk: %s\n' "$*" >&2; exit 1; }
top=$PWD
dir=$(mktemp -d "${TMPDIR:-/tmp}/agon-walk.XXXXXX")
log=$dir/log
pids=()
stop() { # ends what the walk has started, as Ctrl-C does, newest first
	local i
	for ((i = ${#pids[@]} - 1; i >= 0; i--)); do
		if kill -INT -- "-${pids[$i]}" 2>/dev/null; then
			for _ in $(seq 1 60); do kill -0 -- "-${pids[$i]}" 2>/dev/null || break; sleep 1; done
			if kill -KILL -- "-${pids[$i]}" 2>/dev/null; then say "had to be killed: see $log"; fi
		fi
	done
	pids=()
}
finish() {
	local code=$?
	stop
	if [ $code = 0 ]; then rm -rf "$dir"; else say "failed; what was printed stands in $log"; tail -n 20 "$log" >&2; fi
}
trap finish EXIT

git clone -q "$top" "$dir/agon"
cd "$dir/agon"
if [ -z "${AGON_CACHE:-}" ]; then say "no AGON_CACHE: root file systems are made anew"; fi
# Go's own caches are the machine's, not the stranger's.
if command -v go >/dev/null 2>&1; then GOMODCACHE=$(go env GOMODCACHE) GOCACHE=$(go env GOCACHE) GOPROXY=$(go env GOPROXY); export GOMODCACHE GOCACHE GOPROXY; fi
port=${WALK_PORT:-8997}
export HOME=$dir/home AGON_LISTEN=127.0.0.1:$port AGON_URL=http://127.0.0.1:$port
mkdir "$HOME"

# commands SECTION: the lines of the fenced block below the heading, without remarks.
commands() {
	awk -v want="## $1" '
		/^## / { on = ($0 == want) }
		on && /^```/ { inside = !inside; next }
		on && inside { sub(/ +#.*/, ""); if ($0 != "") print }' docs/first.md
}

background() {
	set -m
	bash -c "$1" >>"$log" 2>&1 &
	pids+=($!)
	set +m
}

answers() { # it prints its address when all is open
	local before=$2
	for _ in $(seq 1 1800); do
		if tail -n "+$before" "$log" | grep -qE 'agon (is up|serves) at'; then return; fi
		kill -0 "${pids[-1]}" 2>/dev/null || die "it ended: $1"
		sleep 1
	done
	die "no answer from $AGON_URL: $1"
}

count=0
for section in 'The first ten minutes of a miner' 'The first ten minutes of an operator' 'The first ten minutes of a validator'; do
	list=$(commands "$section")
	[ -n "$list" ] || die "docs/first.md has no commands below: $section"
	while IFS= read -r cmd; do
		say "$cmd"
		printf '\n$ %s\n' "$cmd" >>"$log"
		count=$((count + 1))
		case $cmd in
		'make up'* | 'bin/agon up'* | 'bin/agon serve'*) # one server at a time
			stop
			before=$(wc -l <"$log")
			background "$cmd"
			answers "$cmd" "$before"
			;;
		'bin/agon validator'*)
			before=$(wc -l <"$log")
			background "$cmd"
			for i in $(seq 1 120); do
				if tail -n "+$before" "$log" | grep -q 'plays for'; then break; fi
				kill -0 "${pids[-1]}" 2>/dev/null || die "it ended: $cmd"
				[ "$i" -lt 120 ] || die "it does not play: $cmd"
				sleep 1
			done
			;;
		'bin/agon try'*) # 3: it was played, and some tasks are unsolved
			code=0
			bash -c "$cmd" >>"$log" 2>&1 </dev/null || code=$?
			if [ "$code" != 0 ] && [ "$code" != 3 ]; then die "exit code $code: $cmd"; fi
			;;
		*) bash -c "$cmd" >>"$log" 2>&1 </dev/null || die "exit code $?: $cmd" ;;
		esac
	done <<<"$list"
	if [ "$section" = 'The first ten minutes of a miner' ]; then # the page of what was entered
		id=$(./bin/agon submission list --arena demo-claim -o id --limit 1)
		curl -fsS -H 'Accept: text/html' -o "$dir/page" "$AGON_URL/submissions/$id" && grep -q 'Gates and decision' "$dir/page" || die "no page of submission $id"
	fi
done
[ "$count" -ge 12 ] || die "only $count commands were found"
say "$count commands of docs/first.md work as they stand"
