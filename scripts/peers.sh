#!/usr/bin/env bash
# Beside programs of others that do a part of the same work, in one run: leases of agon on
# SQLite and jobs of River on PostgreSQL; agon's gateway, a bare proxy, bifrost and LiteLLM;
# boxes of agon, bwrap and go-judge. FOR is the time of each measurement; PEERS=leases, gateway
# or boxes takes one table. go-judge and its go-sandbox are in no package index: they are built
# from checkouts below AGON_STRANGERS. Harnyx's sandbox is a container of Docker and needs its daemon.
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
if [[ ${PEERS:-boxes} = boxes ]]; then
	judge=
	if [ -d "${AGON_STRANGERS:-}/go-judge" ] && [ -d "$AGON_STRANGERS/go-sandbox" ]; then
		judge=$PWD/.cache/peers/go-judge
		work=$(mktemp -d)
		trap 'rm -rf "$work"' EXIT
		cp -r "$AGON_STRANGERS/go-judge" "$AGON_STRANGERS/go-sandbox" "$work"
		(cd "$work/go-judge" && go mod edit -replace github.com/criyle/go-sandbox=../go-sandbox -replace github.com/criyle/go-judge/pb=./pb &&
			GOFLAGS=-mod=mod go build -o "$judge" ./cmd/go-judge)
	else
		say "go-judge is left out: AGON_STRANGERS has no go-judge and go-sandbox"
	fi
	go run ./bench/boxes ${judge:+-judge "$judge"}
fi
