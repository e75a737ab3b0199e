#!/usr/bin/env bash
# The tests of the platform and of all wires with their rows in PostgreSQL, and a whole
# arena (agon up --once) on it. Each test makes a database and waits for the disk: the server
# is in memory where there is room.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/pg.sh
start_postgres
trap stop_postgres EXIT
packages=(./engine/platform ./ui/api ./ui/web ./ui/webhook ./kinds/shopping/wire ./kinds/research/wire ./kinds/claim/wire ./kinds/pack/wire)
[ $# = 0 ] || packages=("$@")
# TestBudgets fills a file of SQLite with a million runs.
AGON_TEST_STORE="$pg_url/postgres" go test -p 1 -timeout 90m -skip '^TestBudgets$' "${packages[@]}"
[ $# = 0 ] || exit 0
make_database agon
spent() { cut -d' ' -f14-17 "/proc/$(head -n 1 "$pg_dir/data/postmaster.pid")/stat"; } # of the server and its ended children, in ticks
before=$(spent)
TIMEFORMAT='%U %S'
exec 3>&2
used=$({ time AGON_STORE="$pg_url/agon" ./bin/agon up --once --data "$pg_dir/agon" --listen 127.0.0.1:0 ${ARENA:+--arena "$ARENA"} -o json >"$pg_dir/outcome.json" 2>&3; } 2>&1)
cat "$pg_dir/outcome.json"
ask() { (cd "$pg_dir" && $pg_as "$pg_tools/psql" -h "$pg_dir" -p "$pg_port" -U agon -d agon -Atc "$1"); }
awk -v runs="$(ask 'SELECT count(*) FROM runs WHERE ended_at > 0')" -v rows="$(ask "SELECT pg_database_size('agon')")" -v events="$(ask 'SELECT count(*) FROM events')" \
	-v bytes="$(du -sb "$pg_dir/agon/blobs" | cut -f1)" -v used="$used" -v was="$before" -v now="$(spent)" 'BEGIN {
	split(used, u, " "); split(was, a, " "); split(now, b, " ")
	for (i = 1; i <= 4; i++) pg += (b[i] - a[i]) / 100
	k = 1000 / runs
	printf "a thousand runs, by %d: %.1f MB of rows (%.0f events), %.1f MB of blobs, %.0f s of processor of agon and its boxes, %.0f s of PostgreSQL\n", runs, rows * k / 1e6, events * k, bytes * k / 1e6, (u[1] + u[2]) * k, pg * k
}' >&2
