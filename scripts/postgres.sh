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
AGON_STORE="$pg_url/agon" ./bin/agon up --once --data "$pg_dir/agon" --listen 127.0.0.1:0 -o json
