//go:build interop

package interop

import (
	"path/filepath"
	"strings"
	"testing"
)

// storesTask is a task with the two servers that tasks name most often, by their usual images.
var storesTask = map[string]string{
	"task.toml":      "version = \"1.0\"\n[metadata]\nlicence = \"MIT\"\n[agent]\ntimeout_sec = 120.0\n[verifier]\ntimeout_sec = 60.0\n",
	"instruction.md": "Count the hits in Redis at redis:6379 to four. Put the items pen and ink into PostgreSQL at db:5432 (user app, password s3cret, database shop). Write both to answer.txt.\n",
	"environment/Dockerfile": `FROM debian:12
RUN apt-get update && apt-get install -y --no-install-recommends redis-tools postgresql-client
WORKDIR /app
`,
	"environment/docker-compose.yaml": `services:
  main:
    depends_on: [redis, db]
  redis:
    image: redis:7-alpine
  db:
    image: postgres:15
    environment: {POSTGRES_USER: app, POSTGRES_PASSWORD: s3cret, POSTGRES_DB: shop}
    healthcheck:
      test: ["CMD-SHELL", "pg_isready -h 127.0.0.1 -U app -d shop"]
      interval: 200ms
      start_period: 1m
      start_interval: 200ms
`,
	"tests/test.sh": "#!/bin/bash\n[ \"$(cat /app/answer.txt)\" = '4 ink,pen' ] && echo 1 > /logs/verifier/reward.txt || echo 0 > /logs/verifier/reward.txt\n",
	"solution/solve.sh": `#!/bin/bash
set -e
export PGPASSWORD=s3cret
for i in 1 2 3 4; do n=$(redis-cli -h redis incr hits); done
psql -q -h db -U app -d shop -c "create table item(name text)" -c "insert into item values ('pen'), ('ink')"
if PGPASSWORD=wrong psql -q -h db -U app -d shop -c 'select 1' 2>/dev/null; then exit 1; fi
echo "$n $(psql -At -h db -U app -d shop -c "select string_agg(name, ',' order by name) from item")" > /app/answer.txt
`,
}

// A task with Redis and PostgreSQL beside its own container comes over with both built of
// Debian's packages; their own clients speak to them, and a wrong password is refused.
func TestStores(t *testing.T) {
	dir := t.TempDir()
	for name, text := range storesTask {
		writeText(t, filepath.Join(dir, "stores", filepath.FromSlash(name)), text)
	}
	data, to := filepath.Join(dir, "data"), filepath.Join(dir, "tasks")
	var list []struct {
		OK     bool
		Reason string
	}
	agonJSON(t, data, nil, &list, "task", "import", "harbor", filepath.Join(dir, "stores"), to, "--build", "--from", "debian:12=apt:bookworm")
	if len(list) != 1 || !list[0].OK || list[0].Reason != "" {
		t.Fatalf("%+v", list)
	}
	var again []struct{ Cached bool }
	agonJSON(t, data, nil, &again, "task", "import", "harbor", filepath.Join(dir, "stores"), to)
	if len(again) != 1 || !again[0].Cached {
		t.Errorf("imported again: %+v", again)
	}
	var checked struct {
		OK          bool
		Oracle, Nop float64
		Reason      string
	}
	agonJSON(t, data, nil, &checked, "task", "check", filepath.Join(to, "stores"))
	if !checked.OK || checked.Oracle != 1 || checked.Nop != 0 || strings.TrimSpace(checked.Reason) != "" {
		t.Errorf("%+v", checked)
	}
}
