# Sourced by scripts that need a PostgreSQL: start_postgres starts a server of its own below
# a temporary directory, in memory where there is room, and sets pg_bin, pg_dir, pg_as
# (how to run as its user), pg_port and pg_url; stop_postgres ends and removes it. PG_BIN is the
# folder (from /) of another server's initdb, pg_ctl and postgres; clients are Debian's.
start_postgres() {
	pg_tools=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -n 1)
	pg_bin=${PG_BIN:-$pg_tools}
	[ -x "$pg_bin/initdb" ] || { echo "PostgreSQL is not installed (Debian: apt-get install postgresql)" >&2; exit 1; }
	local at=/tmp
	if [ "${1:-}" != disk ] && [ -w /dev/shm ] && [ "$(df --output=avail -k /dev/shm | tail -n 1)" -gt 3000000 ]; then at=/dev/shm; fi
	pg_dir=$(mktemp -d $at/agon-pg-XXXXXX)
	pg_as=
	if [ "$(id -u)" = 0 ]; then pg_as="runuser -u postgres --" && chown postgres "$pg_dir"; fi
	pg_port=${PGPORT:-54329}
	(cd "$pg_dir" && $pg_as "$pg_bin/initdb" -D "$pg_dir/data" -U agon -A trust -E UTF8 --locale=C.UTF-8 >"$pg_dir/initdb.log")
	(cd "$pg_dir" && $pg_as "$pg_bin/pg_ctl" -D "$pg_dir/data" -l "$pg_dir/log" -w start -o "-p $pg_port -k $pg_dir -c listen_addresses=127.0.0.1 -c max_connections=300 -c max_wal_size=256MB" >/dev/null)
	pg_url="postgres://agon@127.0.0.1:$pg_port"
}

stop_postgres() {
	(cd "$pg_dir" && $pg_as "$pg_bin/pg_ctl" -D "$pg_dir/data" -m immediate stop >/dev/null 2>&1) || echo "PostgreSQL had ended" >&2
	rm -rf "$pg_dir"
}

# make_database NAME: an empty one.
make_database() { (cd "$pg_dir" && $pg_as "$pg_tools/createdb" -h "$pg_dir" -p "$pg_port" -U agon "$1"); }
