#!/bin/sh
# Three rounds in about ten minutes: reader.py takes the seat, and after each round enters
# who knows all published claims by heart. AGON names the program (default: agon).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
agon=${AGON:-agon}
work=$(mktemp -d)
chmod 755 "$work" # boxes enter it
export AGON_LLM_SCRIPT="$here/script.json" AGON_WALLET_PATH="$work/keys" AGON_URL="http://127.0.0.1:${PORT:-8791}"

"$agon" up --arena "$here/arena.toml" --data "$work/data" --listen "127.0.0.1:${PORT:-8791}" 2>"$work/up.log" &
up=$!
# It ends by the signal, which wait tells as a status of its own.
trap 'kill $up; wait $up || [ $? -gt 128 ]; rm -rf "$work"' EXIT

round() { "$agon" arena view rounds --jq .seeds.period.period 2>/dev/null || echo -1; }

enter() { # NAME FILE: with a key of its own
	"$agon" key new --wallet.name "$1" -o id >/dev/null
	"$agon" ledger register --arena rounds --wallet.name "$1" -o id >/dev/null
	mkdir "$work/$1" && cp "$2" "$work/$1/agent.py"
	"$agon" submission submit "$work/$1/agent.py" --arena rounds --name "$1" --wallet.name "$1" --wait \
		--jq '"\(.name): \(.score), \(.decision.sentence // .decision.outcome)"'
}

for r in 0 1 2; do
	until [ "$(round)" -ge "$r" ]; do
		kill -0 "$up" || { cat "$work/up.log"; exit 1; }
		sleep 2
	done
	echo "round $r"
	if [ "$r" = 0 ]; then
		enter reader "$here/reader.py"
	else
		python3 "$here/memorise.py" "$AGON_URL" rounds >"$work/heart.py"
		head -n 1 "$work/heart.py"
		enter "heart-$r" "$work/heart.py"
	fi
	grep 'is drawn: ' "$work/up.log" | tail -n 1
done
"$agon" board rounds -o table
