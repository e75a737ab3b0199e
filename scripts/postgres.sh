#!/usr/bin/env bash
# The tests of the platform and of all wires with their rows in PostgreSQL, and a whole
# arena (agon up --once) on it. Starts a server of its own below a temporary directory, in
# memory where there is room: each test makes a database and waits for the disk.
set -euo pipefail
cd "$(dirname "$0")/.."
say() { printf 'postgres: %s\n' "$*" >&2; }
bin=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -n 1)
[ -x "$bin/initdb" ] || { say "PostgreSQL is not installed (Debian: apt-get install postgresql)"; exit 1; }
at=/tmp
if [ -w /dev/shm ] && [ "$(df --output=avail -k /dev/shm | tail -n 1)" -gt 3000000 ]; then at=/dev/shm; fi
dir=$(mktemp -d $at/agon-pg-XXXXXX)
as=
if [ "$(id -u)" = 0 ]; then as="runuser -u postgres --" && chown postgres "$dir"; fi
end() { $as "$bin/pg_ctl" -D "$dir/data" -m immediate stop >/dev/null 2>&1 || say "the server had ended"; rm -rf "$dir"; }
trap end EXIT
port=${PGPORT:-54329}
(cd "$dir" && $as "$bin/initdb" -D "$dir/data" -U agon -A trust -E UTF8 --locale=C.UTF-8 >"$dir/initdb.log")
(cd "$dir" && $as "$bin/pg_ctl" -D "$dir/data" -l "$dir/log" -w start -o "-p $port -k $dir -c listen_addresses=127.0.0.1 -c max_connections=300 -c max_wal_size=256MB" >/dev/null)
url="postgres://agon@127.0.0.1:$port"
packages=(./engine/platform ./ui/api ./ui/web ./ui/webhook ./kinds/shopping/wire ./kinds/research/wire ./kinds/claim/wire ./kinds/pack/wire)
[ $# = 0 ] || packages=("$@")
# TestBudgets fills a file of SQLite with a million runs.
AGON_TEST_STORE="$url/postgres" go test -p 1 -timeout 90m -skip '^TestBudgets$' "${packages[@]}"
[ $# = 0 ] || exit 0
(cd "$dir" && $as "$bin/createdb" -h "$dir" -p "$port" -U agon agon)
AGON_STORE="$url/agon" ./bin/agon up --once --data "$dir/agon" --listen 127.0.0.1:0 -o json
