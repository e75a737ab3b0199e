# Starts PostgreSQL as the image of that name does: by POSTGRES_USER, POSTGRES_PASSWORD and POSTGRES_DB.
set -eu
umask 077
PATH=/usr/lib/postgresql/15/bin:$PATH
user=${POSTGRES_USER:-postgres}
base=${POSTGRES_DB:-$user}
data=/tmp/postgres
how=scram-sha-256
if [ "${POSTGRES_HOST_AUTH_METHOD:-}" = trust ]; then how=trust; elif [ -z "${POSTGRES_PASSWORD:-}" ]; then echo 'POSTGRES_PASSWORD is not set' >&2; exit 1; fi
printf '%s\n' "${POSTGRES_PASSWORD:-unused}" > /tmp/postgres.password
initdb -D "$data" -U "$user" --auth-local=trust --auth-host="$how" --pwfile=/tmp/postgres.password -E UTF8 --locale=C.UTF-8
rm /tmp/postgres.password
if [ "$base" != postgres ]; then
	printf 'CREATE DATABASE "%s"\n' "$(printf %s "$base" | sed 's/"/""/g')" | postgres --single -D "$data" postgres
fi
if [ "$1" = postgres ]; then shift; fi
exec postgres -D "$data" -c listen_addresses='*' -c unix_socket_directories=/tmp "$@"
