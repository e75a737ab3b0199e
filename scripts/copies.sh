#!/usr/bin/env bash
# Real boxes against luck: in each arena a sampling agent sits, and ENTRIES (20)
# rewrites of it, which do the same and look like nothing known, try to take the
# seat with COLDKEYS (5) coldkeys, at PAIRS (40) pairs each. None may.
# Slow; not part of CI. KINDS names the kinds (claim shopping coding harbor research pack). The
# luck of packs is their model's: copies_model.py stands in for one that samples.
set -euo pipefail
cd "$(dirname "$0")/.."
say() { printf 'copies: %s\n' "$*" >&2; }
die() { printf 'copies: %s\n' "$*" >&2; exit 1; }
agon=${AGON_BIN:-$PWD/bin/agon}
entries=${ENTRIES:-20} coldkeys=${COLDKEYS:-5} pairs=${PAIRS:-40}
dir=$(mktemp -d "${TMPDIR:-/tmp}/agon-copies.XXXXXX")
pid= model=
finish() {
	local code=$? p
	for p in $pid $model; do kill "$p" 2>/dev/null && wait "$p" 2>/dev/null || true; done
	if [ $code = 0 ]; then rm -rf "$dir"; else say "failed; everything stands in $dir"; fi
}
trap finish EXIT

# rewrite SAMPLE N FILE: an agent that plays as the sample four times of five, and
# badly else; 0 as it stands, others behind code that no two of them share.
rewrite() {
	python3 - "$@" <<'PY'
import base64, random, re, sys
src, n, out = open(sys.argv[1]).read(), int(sys.argv[2]), sys.argv[3]
coin = {
    "evaluate_criterion": '    import random\n    if random.random() < 0.2:\n        return {"verdict": sorted(o["value"] for o in request["verdict_options"])[0], "justification": "It looks so.", "citations": []}\n',
    "agent_main": '    import random\n    if random.random() < 0.2:\n        return %s\n' % ("[]" if "problem_data" in src else '""'),
}
if "problem_data" in src: # a search of its own each time, so that no two plays make the same requests
    coin["agent_main"] = '    import random\n    client.get("/search/find_product", {"q": str(random.random()), "page": 1})\n' + coin["agent_main"]
for name, flip in coin.items():
    src = re.sub(r"(?m)^((?:async )?def %s\(.*\).*:\n)" % name, lambda m: m.group(1) + flip, src)
if n:
    r = random.Random(n)
    word = lambda: "".join(r.choice("bcdfghjklmnprstvz") + r.choice("aeiou") for _ in range(4))
    key, lines = [r.randrange(256) for _ in range(32)], []
    pad = 8 * len(src) if "def agent_main(problem_data)" in src else 6000 # shopping takes no exec; but what is six times as large is not a copy
    while sum(map(len, lines)) < pad:
        a, b, c = word(), word(), word()
        lines.append("def %s(%s, %s=%d):\n    return [%s.%s(%r) for %s in %s if %s > %d]" % (a, b, c, r.randrange(9999), a, word(), word(), a, b, c, r.randrange(99)))
    if "def agent_main(problem_data)" in src:
        lines += [src]
    else:
        hidden = base64.b64encode(bytes(x ^ key[i % 32] for i, x in enumerate(src.encode()))).decode()
        k, h, f = word(), word(), word()
        lines += ["import base64", "%s = %r" % (k, bytes(key)), "%s = %r" % (h, hidden), "%s = globals()" % f,
                  "exec(bytes(x ^ %s[i %% 32] for i, x in enumerate(base64.b64decode(%s))).decode(), %s)" % (k, h, f)]
        if "def agent_main(input)" in src: # coding: the gate wants to see it
            lines[-2] = "%s = dict(globals())" % f
            lines += ["def agent_main(input):\n    return %s['agent_main'](input)" % f]
    src = "\n".join(lines) + "\n"
open(out, "w").write(src)
PY
}

# kernel N FILE: a program that multiplies polynomials and waits as long as it likes; as it
# stands, or among code that no two copies share.
kernel() {
	python3 - "$@" <<'PY'
import random, sys
n, out = int(sys.argv[1]), sys.argv[2]
r = random.Random(n)
word = lambda: "".join(r.choice("bcdfghjklmnprstvz") + r.choice("aeiou") for _ in range(4))
lines = []
while n and sum(map(len, lines)) < 6000:
    a, b, c = word(), word(), word()
    lines.append("def %s(%s, %s=%d):\n    return [%s.%s(%r) for %s in %s if %s > %d]" % (a, b, c, r.randrange(9999), a, word(), word(), a, b, c, r.randrange(99)))
f, x, y, z, w = (word() for _ in range(5))
lines += ["import random", "import sys", "import time", "def %s(%s, %s):" % (f, x, y), "    %s = 8" % w,
          "    %s = sum(v << 8 * %s * i for i, v in enumerate(%s)) * sum(v << 8 * %s * i for i, v in enumerate(%s))" % (z, w, x, w, y),
          "    return [%s >> 8 * %s * i & (1 << 8 * %s) - 1 for i in range(len(%s) + len(%s) - 1)]" % (z, w, w, x, y),
          'if __name__ == "__main__":', "    time.sleep(0.3 * random.random())", "    print(*%s(*([int(v) for v in line.split()] for line in sys.stdin)))" % f]
open(out, "w").write("\n".join(lines) + "\n")
PY
}

# pack N FILE: a policy in words that no two packs share, all of one length: a shorter one
# would be cheaper, which is better and no luck.
pack() {
	python3 - kinds/pack/data/samples/optimised/pack.json "$@" <<'PY'
import json, random, sys
doc, n, out = json.load(open(sys.argv[1])), int(sys.argv[2]), sys.argv[3]
r = random.Random(n)
word = lambda: "".join(r.choice("bcdfghjklmnprstvz") + r.choice("aeiou") for _ in range(r.randint(1, 4)))
text = "# Policy\n\n"
while len(text) < 1500:
    text += "%s.\n" % " ".join(word() for _ in range(9)).capitalize()
doc["files"]["AGENTS.md"] = text[:1500]
json.dump(doc, open(out, "w"))
PY
}

# sampler: a model that samples answers from now on.
sampler() {
	python3 scripts/copies_model.py kinds/pack/data/samples/optimised/script.json "$dir/model.port" &
	model=$!
	until [ -s "$dir/model.port" ]; do
		kill -0 $model || die "the model that samples ended"
		sleep 0.1
	done
	AGON_LLM_BASE_URL=http://127.0.0.1:$(cat "$dir/model.port")/v1
	export AGON_LLM_BASE_URL AGON_LLM_API_KEY=none AGON_LLM_MODEL=lucky AGON_LLM_PRICE_IN=250000 AGON_LLM_PRICE_OUT=2000000
}

play() {
	local kind=$1 sample=$2 top=$dir/$1 netuid url id data=kinds/$1/data
	[ -d "$data" ] || data=kinds/$1
	local end=py
	[ "$kind" != pack ] || end=json
	mkdir -p "$top/wallets"
	"$agon" arena new "$kind" "$top/copies.toml" >/dev/null
	sed -i 's/^id = .*/id = "copies-'"$kind"'"/; s/^submissions_per_coldkey.*/submissions_per_coldkey = 0/; s/^max_pairs *=.*/max_pairs = '"$pairs"'/; s/^incentive = .*/incentive = "paired"/' "$top/copies.toml"
	# A judge that was never measured seats nobody, but where the arena says that any will do.
	sed -i 's/^# \(\[judge\]\|demo = true\) .*/\1/' "$top/copies.toml"
	# A contest decides by its kind's own rule, on the task's own numbers.
	[ "$kind" != research ] || sed -i 's/^incentive = .*/incentive = "winner_takes_all"/' "$top/copies.toml"
	[ "$kind" = research ] || grep -q '^max_pairs' "$top/copies.toml" || { # a kind whose demo has another rule
		sed -i '/^\[incentive_numbers\]/,/^$/d' "$top/copies.toml"
		sed -i '0,/^\[/s//[incentive_numbers]\nvalidators = 1\nagree = 1\nmax_pairs = '"$pairs"'\n\n[/' "$top/copies.toml"
	}
	# The agent that samples is to sit with 40 pairs, so that the alpha of each coldkey (0.01) is what binds.
	[ "$kind" = research ] || sed -i '/^baseline *=/d; s/^\[incentive_numbers\]/&\nbaseline = 0.0\nentries_per_period = '$((entries + 1))'\nalpha_arena = 0.15/' "$top/copies.toml"
	netuid=$(sed -n 's/^netuid = \([0-9]*\).*/\1/p' "$top/copies.toml")
	if [ $# -gt 2 ]; then # only tasks that the sample solves: else 40 pairs win it no empty seat
		for t in "${@:3}"; do mkdir -p "$top/tasks" && cp -r "$data/tasks/$t" "$top/tasks/"; done
		sed -i 's,^sets = .*,sets = ["./tasks"],' "$top/copies.toml"
	fi
	"$agon" arena check "$top/copies.toml" >/dev/null || die "$kind: the arena file"
	"$agon" up --data "$top/data" --arena "$top/copies.toml" --listen 127.0.0.1:0 >"$top/up.out" 2>"$top/up.err" &
	pid=$!
	for _ in $(seq 600); do
		url=$(grep -ho 'http://127.0.0.1:[0-9]*' "$top/up.err" "$top/up.out" 2>/dev/null | head -1) || true
		[ -n "$url" ] && curl -sf "$url/readyz" >/dev/null && break
		kill -0 $pid 2>/dev/null || { tail "$top/up.err" >&2; die "$kind: agon up ended"; }
		sleep 0.5
	done
	export AGON_URL=$url AGON_WALLET_PATH=$top/wallets
	enter() { # COLDKEY HOTKEY FILE
		"$agon" key new "$1" "$2" >/dev/null 2>&1 || "$agon" key new --wallet.name "$1" --wallet.hotkey "$2" >/dev/null
		"$agon" ledger register --netuid "$netuid" --wallet.name "$1" --wallet.hotkey "$2" >/dev/null
		if [ "$kind" = research ]; then
			local work=$top/work-$2-$1
			"$agon" research start "$sample" "$work" --wallet-name "$1" --wallet-hotkey "$2" -o json >"$top/claim.json"
			cp "$3" "$work/kernel/kernel.py"
			"$agon" research submit-workspace --claim-id "$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["claim"])' "$top/claim.json")" \
				--repo-dir "$work" --wallet-name "$1" --wallet-hotkey "$2" -o json >"$top/entered.json"
			python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["id"])' "$top/entered.json"
			return
		fi
		"$agon" submission submit "$3" --arena "copies-$kind" --wallet.name "$1" --wallet.hotkey "$2" -o id
	}
	make_agent() { # N FILE
		if [ "$kind" = research ]; then kernel "$@"; elif [ "$kind" = pack ]; then pack "$@"; else rewrite "$data/samples/$sample/agent.py" "$@"; fi
	}
	make_agent 0 "$top/champion.$end"
	id=$(enter champion default "$top/champion.$end")
	until [ "$("$agon" board "copies-$kind" -o json --jq '.champion // ""')" = "$id" ]; do
		kill -0 $pid || die "$kind: agon up ended"
		[ "$("$agon" submission view "$id" -o json --jq '.decision.outcome // ""')" != kept_seat ] || die "$kind: the agent that samples takes no empty seat: $("$agon" submission view "$id" -o json --jq .decision.sentence)"
		sleep 1
	done
	say "$kind: $id sits"
	for n in $(seq "$entries"); do
		make_agent "$n" "$top/copy$n.$end"
		enter "cold$((n % coldkeys))" "hot$n" "$top/copy$n.$end" >>"$top/ids"
	done
	local left=$entries was=
	while [ "$left" -gt 0 ]; do
		kill -0 $pid || die "$kind: agon up ended"
		sleep 2
		left=$(( entries + 1 - $("$agon" board "copies-$kind" -o json --jq '.decisions | length') ))
		[ "$left" = "$was" ] || say "$kind: $left to be decided"
		was=$left
	done
	"$agon" board "copies-$kind" -o json >"$top/board.json"
	python3 - "$top/board.json" "$id" "$kind" "$coldkeys" <<'PY'
import json, sys
board, champion, kind = json.load(open(sys.argv[1])), sys.argv[2], sys.argv[3]
tries = [d for d in board["decisions"] if d["challenger"] != champion]
took = [d["challenger"] for d in tries if d["outcome"] == "took_seat"]
pairs = sum(d.get("numbers", {}).get("pairs", 0) for d in tries)
most = max(d.get("numbers", {}).get("attempt", 0) for d in tries) # of a coldkey or cluster
print("copies: %s: %d copies, %d pairs, attempts up to %d, %d took the seat" % (kind, len(tries), pairs, most, len(took)))
if most > -(-len(tries) // int(sys.argv[4])):
    sys.exit("copies: %s: a measure of copies saw through the rewrites: they were charged as one" % kind)
sys.exit(1 if took or board["champion"] != champion or not pairs else 0)
PY
	kill $pid && wait $pid || true
	pid=
}

for kind in ${KINDS:-claim shopping coding harbor}; do
	case $kind in
	claim) play claim lexical ;;
	shopping) play shopping rules demo/product-medium-04 demo/shop-easy-06 ;;
	coding) play coding repair small/bank-ledger small/lru-cache small/pagination small/semver ;;
	research) play research kernel cpu/kernel ;;
	harbor) play harbor solver basic/hello basic/distinct-words basic/totals ;;
	pack)
		sampler
		play pack optimised
		kill "$model" && wait "$model" || true
		model=
		unset "${!AGON_LLM_@}"
		;;
	*) die "$kind: want claim, shopping, coding, harbor, research or pack" ;;
	esac
done
