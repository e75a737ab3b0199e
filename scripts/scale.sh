#!/usr/bin/env bash
# What years of history cost: a claim and a result with FINISHED (10,000,000) ended runs in SQLite
# and in PostgreSQL against none, in turns in one run, and agon gc over BLOBS (1,000,000) blobs
# beside a server that writes. Needs about 60 GB of disk and hours at the full size.
set -euo pipefail
cd "$(dirname "$0")/.."
say() { printf 'scale: %s\n' "$*" >&2; }
bin=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -n 1)
[ -x "$bin/initdb" ] || { say "PostgreSQL is not installed (Debian: apt-get install postgresql)"; exit 1; }
dir=$(mktemp -d "${TMPDIR:-/var/tmp}/agon-scale-XXXXXX")
export TMPDIR=$dir # what is measured stands on the same disk
chmod 711 "$dir"
mkdir "$dir/pg"
as=
if [ "$(id -u)" = 0 ]; then as="runuser -u postgres --" && chown postgres "$dir/pg"; fi
end() { $as "$bin/pg_ctl" -D "$dir/pg/data" -m immediate stop >/dev/null 2>&1 || say "PostgreSQL had ended"; rm -rf "$dir"; }
trap end EXIT
port=${PGPORT:-54328}
(cd "$dir/pg" && $as "$bin/initdb" -D "$dir/pg/data" -U agon -A trust -E UTF8 --locale=C.UTF-8 >/dev/null)
(cd "$dir/pg" && $as "$bin/pg_ctl" -D "$dir/pg/data" -l "$dir/pg/log" -w start -o "-p $port -k $dir/pg -c listen_addresses=127.0.0.1 -c max_connections=300 -c max_wal_size=4GB -c shared_buffers=1GB" >/dev/null)
(cd "$dir/pg" && $as "$bin/createdb" -h "$dir/pg" -p "$port" -U agon agon)
go run ./bench/lease -store "postgres://agon@127.0.0.1:$port/agon" -finished "${FINISHED:-10000000}" -rounds "${ROUNDS:-3}" -queued "${QUEUED:-12000}"
go run ./bench/collect -blobs "${BLOBS:-1000000}"
