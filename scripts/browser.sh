#!/usr/bin/env bash
# Plays the demo arenas, then clicks through every page in a real Chromium:
# axe finds nothing serious, nothing leaves the machine, nothing errs. Pictures
# stay in .cache/browser/shots. Slow; not part of CI.
# AGON_BROWSER_URL names a server that runs already instead.
set -euo pipefail
cd "$(dirname "$0")/.."
die() { printf 'browser: %s\n' "$*" >&2; exit 1; }
dir=$PWD/.cache/browser
mkdir -p "$dir"
chromium=$(command -v chromium || command -v chromium-browser || true)
if [ -z "$chromium" ]; then
	if [ "$(id -u)" = 0 ]; then apt-get install -y --no-install-recommends chromium >"$dir/apt.log" 2>&1 || die "chromium does not install: see $dir/apt.log"; else die "install chromium (Debian: apt-get install chromium)"; fi
	chromium=$(command -v chromium)
fi
if [ ! -f "$dir/package/axe.min.js" ]; then
	command -v npm >/dev/null || die "npm is needed to fetch axe-core (Debian: apt-get install npm)"
	(cd "$dir" && npm pack --silent axe-core@4.11.0 >/dev/null && tar xzf axe-core-4.11.0.tgz package/axe.min.js) || die "axe-core cannot be fetched"
fi
if [ -z "${AGON_BROWSER_URL:-}" ]; then
	./bin/agon up --data "$dir/data" --listen 127.0.0.1:8989 2>"$dir/up.log" &
	up=$!
	trap 'kill $up 2>/dev/null; wait $up 2>/dev/null || true' EXIT
	echo "browser: playing the demo arenas (log: $dir/up.log)" >&2
	for _ in $(seq 1 1200); do
		grep -q 'every submission is decided' "$dir/up.log" && break
		kill -0 $up 2>/dev/null || die "agon up ended: see $dir/up.log"
		sleep 1
	done
	AGON_BROWSER_URL=http://127.0.0.1:8989
fi
export AGON_BROWSER_URL AGON_BROWSER_SHOTS="$dir/shots" AGON_AXE="$dir/package/axe.min.js" AGON_CHROMIUM="$chromium"
${GO:-go} test -tags browser -count=1 -timeout 20m -v -run TestPages ./web/browsertest
