#!/usr/bin/env bash
# Beside programs of others that do a part of the same work, in one run: leases of agon on
# SQLite and jobs of River on PostgreSQL; agon's gateway, a bare proxy, bifrost and LiteLLM.
# FOR is the time of each measurement; PEERS=leases or PEERS=gateway takes one table.
set -euo pipefail
cd "$(dirname "$0")/.."
say() { printf 'peers: %s\n' "$*" >&2; }
for=${FOR:-4s}
if [[ ${PEERS:-leases} = leases ]]; then
	. scripts/pg.sh
	start_postgres disk # both wait for the same disk
	trap stop_postgres EXIT
	make_database river
	go run ./bench/lease -for "$for"
	go run -C bench/queue -mod=mod . -for "$for" -database "$pg_url/river"
	stop_postgres
	trap - EXIT
fi
if [[ ${PEERS:-gateway} = gateway ]]; then
	version=1.80.0
	venv=$PWD/.cache/peers/litellm-$version
	if [ ! -x "$venv/bin/litellm" ]; then
		say "installing LiteLLM $version (some minutes, once)"
		rm -rf "$venv"
		python3 -m venv "$venv.new"
		"$venv.new/bin/pip" install -q "litellm[proxy]==$version"
		mv "$venv.new" "$venv"
		# What pip writes names the place that it was installed to.
		sed -i "1s|^#!.*|#!$venv/bin/python3|" "$venv/bin/litellm"
	fi
	go run -C bench/gateway -mod=mod . -for "$for" -litellm "$venv/bin/litellm"
fi
