#!/usr/bin/env bash
# Installs what agon needs and is not here: system parts, a Go toolchain of
# the right version, the binary, the boxes' root file system, the task set made
# from published packages. Safe to run again; prints only what it does.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'setup: %s\n' "$*" >&2; }
die() { printf 'setup: %s\n' "$*" >&2; exit 1; }

sudo=
if [ "$(id -u)" != 0 ] && command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then sudo=sudo; fi

# --- system parts ---------------------------------------------------------
missing=()
need() { command -v "$1" >/dev/null 2>&1 || [ -x "/usr/sbin/$1" ] || missing+=("$2"); }
need runc runc
need bwrap bubblewrap
need mmdebstrap mmdebstrap
need newuidmap uidmap
need git git
need python3 python3 # the tests of the Python package run it
need curl curl
need unzip unzip
need gcc gcc # the race detector of the tests links with it
[ -f /usr/include/stdlib.h ] || missing+=(libc6-dev)
[ -e /etc/ssl/certs/ca-certificates.crt ] || missing+=(ca-certificates)
if [ ${#missing[@]} -gt 0 ]; then
	if command -v apt-get >/dev/null 2>&1 && { [ "$(id -u)" = 0 ] || [ -n "$sudo" ]; }; then
		say "installing ${missing[*]}"
		export DEBIAN_FRONTEND=noninteractive
		$sudo apt-get update -qq
		$sudo apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
	else
		die "these parts are missing: ${missing[*]}. Install them (Debian or Ubuntu: apt-get install ${missing[*]}), or run make setup as root."
	fi
fi

# --- Go -------------------------------------------------------------------
want=1.26.0
have=
if command -v go >/dev/null 2>&1; then have=$(cd / && GOTOOLCHAIN=local go env GOVERSION | sed 's/^go//; s/[ -].*//'); fi
older() { [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n1)" != "$2" ]; } # is $1 < $2
if [ -z "$have" ] || older "$have" "$want"; then
	fetch=1.26.8
	case "$(uname -m)" in x86_64) arch=amd64 ;; aarch64) arch=arm64 ;; *) die "no Go $want here, and no toolchain is known for $(uname -m)" ;; esac
	dir=.cache/go
	if [ ! -x "$dir/bin/go" ]; then
		# Any Go knows the module proxy that this machine is configured for.
		if [ -z "${GOPROXY:-}" ] && ! command -v go >/dev/null 2>&1 && command -v apt-get >/dev/null 2>&1; then
			say "installing the distribution's Go, to ask it for the module proxy"
			$sudo apt-get install -y -qq --no-install-recommends golang-go >/dev/null
		fi
		list=${GOPROXY:-}
		if [ -z "$list" ] && command -v go >/dev/null 2>&1; then list=$(cd / && GOTOOLCHAIN=local go env GOPROXY); fi
		proxy=
		for p in ${list//[,|]/ }; do
			case $p in http://* | https://*) proxy=$p && break ;; esac
		done
		[ -n "$proxy" ] || die "Go $want or newer is needed (found: ${have:-none}) and GOPROXY names no proxy to fetch it from"
		say "fetching Go $fetch (found: ${have:-none})"
		scripts/toolchain.sh "$proxy" "$fetch" "$arch" "$dir" ||
			die "Go $fetch could not be fetched from the module proxy; install Go $want or newer and run make setup again"
	fi
	export PATH="$PWD/$dir/bin:$PATH" GOTOOLCHAIN=local
fi

# --- agon itself ----------------------------------------------------------
say "building bin/agon"
make -s --no-print-directory build GO="$(command -v go)"
./bin/agon setup "$@"
