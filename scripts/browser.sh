#!/usr/bin/env bash
# Plays the demo arenas, then clicks through every page in a real Chromium:
# axe finds nothing serious, nothing leaves the machine, nothing errs. Pictures
# stay in .cache/browser/shots. Slow; not part of CI.
# AGON_BROWSER_URL and AGON_BROWSER_DATA name a server that runs already instead.
# AGON_BROWSER_ONLY: only pages of these arenas, a regular expression (server: those of none).
# AGON_BROWSER_PICTURES: only take README's pictures, into that directory.
set -euo pipefail
cd "$(dirname "$0")/.."
die() { printf 'browser: %s\n' "$*" >&2; exit 1; }
dir=$PWD/.cache/browser
mkdir -p "$dir"
find_chromium() { type -P chromium || type -P chromium-browser; }
if ! chromium=$(find_chromium); then
	[ "$(id -u)" = 0 ] || die "install chromium (Debian: apt-get install chromium)"
	apt-get install -y --no-install-recommends chromium >"$dir/apt.log" 2>&1 || die "chromium does not install: see $dir/apt.log"
	chromium=$(find_chromium) || die "chromium was installed and is not to be found"
fi
if [ ! -f "$dir/package/axe.min.js" ]; then
	command -v npm >/dev/null || die "npm is needed to fetch axe-core (Debian: apt-get install npm)"
	(cd "$dir" && npm pack --silent axe-core@4.11.0 >/dev/null && tar xzf axe-core-4.11.0.tgz package/axe.min.js) || die "axe-core cannot be fetched"
fi
if [ -z "${AGON_BROWSER_URL:-}" ]; then
	AGON_BROWSER_DATA=$dir/data
	./bin/agon up --data "$AGON_BROWSER_DATA" --listen 127.0.0.1:8989 2>"$dir/up.log" &
	up=$!
	stop() {
		# It may have ended by itself; how it ended is looked at above, its log stays.
		if kill -0 "$up" 2>/dev/null; then kill "$up"; wait "$up" || printf 'browser: agon up ended with %s\n' "$?" >&2; fi
	}
	trap stop EXIT
	echo "browser: playing the demo arenas (log: $dir/up.log)" >&2
	for i in $(seq 1 1200); do
		if grep -q 'nothing is left to play' "$dir/up.log"; then break; fi
		kill -0 "$up" 2>/dev/null || die "agon up ended: see $dir/up.log"
		[ "$i" -lt 1200 ] || die "the demo arenas are not decided after 20 minutes: see $dir/up.log"
		sleep 1
	done
	AGON_BROWSER_URL=http://127.0.0.1:8989
fi
[ -n "${AGON_BROWSER_DATA:-}" ] || die "AGON_BROWSER_DATA must name the data directory of AGON_BROWSER_URL, for the operator's key"
rm -rf "$dir/shots"
export AGON_BROWSER_URL AGON_BROWSER_DATA AGON_BROWSER_SHOTS="$dir/shots" AGON_AXE="$dir/package/axe.min.js" AGON_CHROMIUM="$chromium" AGON_BIN="$PWD/bin/agon"
only=.
if [ -n "${AGON_BROWSER_PICTURES:-}" ]; then only=TestReadme; fi
${GO:-go} test -tags browser -count=1 -timeout 60m -v -run "$only" ./ui/web/browsertest
