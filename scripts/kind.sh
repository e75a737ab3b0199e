#!/usr/bin/env bash
# The walks of docs/kinds.md, in a clean clone and in a folder elsewhere: a kind
# is written, built into a binary, tested, and plays an arena in real boxes.
# Slow; not part of CI. AGON_CACHE may name a cache of root file systems.
set -euo pipefail
cd "$(dirname "$0")/.."
say() { printf 'kind: %s\n' "$*" >&2; }
die() { printf 'kind: %s\n' "$*" >&2; exit 1; }
top=$PWD
dir=$(mktemp -d "${TMPDIR:-/tmp}/agon-kinds.XXXXXX")
finish() {
	local code=$?
	chmod -R u+w "$dir" 2>/dev/null || true
	if [ $code = 0 ]; then rm -rf "$dir"; else say "failed; everything stands in $dir"; fi
}
trap finish EXIT
export AGON_LISTEN=127.0.0.1:0

# scores BINARY DATA ARENA: plays the arena until all is decided.
scores() {
	local out
	out=$("$1" up --once --data "$2" --arena "$3" -o json --jq '.runs.scored' 2>>"$dir/log") || { tail -n 20 "$dir/log" >&2; die "up --arena $3 failed"; }
	[ "$out" -gt 0 ] || die "$3: $out runs scored"
	say "$3: $out runs scored"
}

say "in a clone"
git clone -q "$top" "$dir/agon"
cd "$dir/agon"
if [ -x "$top/.cache/go/bin/go" ]; then mkdir .cache && ln -s "$top/.cache/go" .cache/go; fi
make -s build
bin/agon kind new golf kinds/golf >/dev/null
# The one entry of the list, and its import.
sed -i 's|^	"github.com/agon-arena/agon/kinds/kit"|	"github.com/agon-arena/agon/kinds/golf"\n&|; s|^		research.Kit(),|&\n		golf.Kit(),|' kinds/kits.go
changed=$(git status --porcelain)
[ "$changed" = "$(printf ' M kinds/kits.go\n?? kinds/golf/')" ] || die "more than the folder and the list has changed: $changed"
[ "$(git diff --numstat)" = "$(printf '2\t0\tkinds/kits.go')" ] || die "the list: $(git diff --numstat)"
make -s build
scores bin/agon "$dir/in" golf.toml
[ "$(git status --porcelain)" = "$changed" ] || die "playing changed the clone"
go test -count=1 ./kinds ./kinds/golf ./internal/law ./cmd/agon || die "tests of the clone fail with a sixth kind"
go test -run TestKits ./cmd/agon/roles || die "the sixth kit is not whole"
{ go vet ./kinds/golf && go run honnef.co/go/tools/cmd/staticcheck@v0.6.1 ./kinds/golf && [ -z "$(go run mvdan.cc/gofumpt@v0.9.1 -l kinds/golf)" ]; } || die "what was written is not clean"
git checkout -q kinds/kits.go && rm -rf kinds/golf && make -s build

say "in a module elsewhere"
mkdir "$dir/out"
cd "$dir/out"
"$dir/agon/bin/agon" kind new --module example.org/golf golf ./golf >/dev/null
"$dir/agon/bin/agon" kind new chess ./chess >/dev/null # a second one, beside it
"$dir/agon/bin/agon" build --with example.org/golf="$dir/out/golf" -o ./agon-golf >/dev/null
scores ./agon-golf "$dir/outside" golf.toml
(cd golf && go test -count=1 .) || die "tests of the module fail"
# The binary builds others: it knows where agon is.
./agon-golf build --with example.org/golf=./golf --with example.org/chess=./chess -o ./agon-both >/dev/null
[ "$(./agon-both kind list -o id | tail -n 2 | paste -sd, -)" = golf,chess ] || die "agon-both has not both kinds: $(./agon-both kind list -o id)"

say "what cannot be built is refused"
refused() { # WANT COMMAND…
	local want=$1 out
	shift
	if out=$("$@" 2>&1); then die "not refused: $*"; fi
	case $out in *"$want"*) ;; *) die "$*: $out" ;; esac
}
agon=$dir/agon/bin/agon
rm -rf "$dir/agon/.cache"
refused "there is no \`go\` on the PATH" env PATH=/nowhere "$agon" build --with example.org/golf=./golf -o ./x
sed -i 's/^func Kit()/func Set()/' chess/kit.go
refused "Kit" "$agon" build --with example.org/chess=./chess -o ./x
sed -i 's/^func Set()/func Kit()/; ' chess/kit.go
sed -i 's/name = "chess"/name = "golf"/' chess/play.go
refused "two kits have this name" "$agon" build --with example.org/golf=./golf --with example.org/chess=./chess -o ./x
[ ! -e x ] || die "a binary was written"
say "both walks work"
