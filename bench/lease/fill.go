package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // empty goes around the store,
	_ "modernc.org/sqlite"             // and so do bulk inserts

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/platform"
	"github.com/agon-arena/agon/engine/store"
	"github.com/agon-arena/agon/engine/store/postgres"
	"github.com/agon-arena/agon/engine/store/sqlite"
)

const (
	arenaID = "demo-coding"
	netuid  = 1
)

// arenaFile is the arena: nothing is played, so its results carry nothing that
// another could judge again.
const arenaFile = `id = %q
kind = "coding"
title = "leases"
licence = "MIT"
netuid = %d
incentive = "winner_takes_all"
sets = ["small"]
evidence = "foreign"
`

// fill queues submissions of a run for each task, as the platform does, and
// puts so many finished runs before them: in a file, or in the database at.
func fill(ctx context.Context, path, at string, finished, queued int) error {
	var st *store.Store
	var err error
	if at != "" {
		st, err = postgres.Open(ctx, at)
	} else {
		st, err = sqlite.Open(ctx, path)
	}
	if err != nil {
		return err
	}
	var arena agon.Arena
	err = st.Read(ctx, func(tx *store.Tx) (err error) {
		arena, err = tx.Arena(arenaID)
		return err
	})
	if err != nil {
		return errors.Join(err, st.Close())
	}
	pd, err := platform.PolicyDigest(arena.Policy)
	if err != nil {
		return errors.Join(err, st.Close())
	}
	now := time.Now()
	for done := 0; done < queued && err == nil; {
		n := min(200, queued-done)
		err = st.Write(ctx, func(tx *store.Tx) error {
			if err := tx.PutPolicy(pd, arena.Policy); err != nil {
				return err
			}
			for i := range n {
				if err := enter(tx, arena, pd, done+i, now); err != nil {
					return err
				}
			}
			return nil
		})
		done += n
	}
	if err := errors.Join(err, st.Close()); err != nil || finished == 0 {
		return err
	}
	fmt.Fprintf(os.Stderr, "lease: storing %d finished runs\n", finished)
	if at != "" {
		return historyIn(ctx, at, finished, len(arena.Tasks))
	}
	return history(ctx, path, finished, len(arena.Tasks))
}

func enter(tx *store.Tx, arena agon.Arena, pd agon.Digest, n int, now time.Time) error {
	id := fmt.Sprintf("sub%029d", n)
	e, err := tx.InsertEntry(store.Entry{Submission: agon.Submission{
		ID: id, Arena: arena.ID, Netuid: netuid, Miner: fmt.Sprintf("miner-%d", n), Coldkey: fmt.Sprintf("cold-%d", n),
		Digest: agon.Sum([]byte(id)), Licence: arena.Licence, State: agon.SubmissionQueued, CreatedAt: now,
	}})
	if err != nil {
		return err
	}
	for i, t := range arena.Tasks {
		err := tx.InsertRun(store.Run{
			Run: agon.Run{
				RunSpec:    agon.RunSpec{Run: agon.Sum(fmt.Appendf(nil, "%s-%d", id, i)).Hex()[:32], Arena: arena.ID, Tasks: []agon.TaskRef{t}},
				Submission: id, Deadline: now.Add(24 * time.Hour), CreatedAt: now,
			},
			SubSeq: e.Seq, PolicyDigest: pd, MaxHold: time.Hour,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// history multiplies the first submission into finished ones, each run with
// its attempt, score and evidence, as an arena that has been open for years has them.
func history(ctx context.Context, path string, runs, tasks int) error {
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)&_pragma=cache_size(-1000000)&_pragma=synchronous(OFF)&_pragma=temp_store(FILE)")
	if err != nil {
		return err
	}
	db.SetMaxOpenConns(1)
	subs := max(1, runs/tasks)
	args := []any{sql.Named("subs", subs), sql.Named("runs", subs*tasks), sql.Named("tasks", tasks), sql.Named("now", time.Now().UnixMicro())}
	const (
		count = `WITH RECURSIVE c(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM c WHERE i + 1 < @subs) `
		each  = `WITH RECURSIVE c(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM c WHERE i + 1 < @runs) `
		runID = `substr('00000000', 1 + length(hex(i))) || printf('%024x', i * 2654435761)`
	)
	indexes, err := takeIndexes(ctx, db)
	if err != nil {
		return errors.Join(err, db.Close())
	}
	for _, q := range append([]string{
		count + `INSERT INTO submissions (id, arena, miner, coldkey, netuid, name, digest, licence, state, scripted, created_at, score, solved, total)
			SELECT printf('old%029d', i), arena, 'old-miner-' || (i % 500), 'old-cold-' || (i % 500), netuid, '', 'sha256:' || lower(hex(randomblob(32))), licence,
			'scored', 0, @now, 0.5, 13, 27 FROM c, (SELECT arena, netuid, licence FROM submissions WHERE seq = 1)`,
		each + `INSERT INTO runs (id, arena, submission, sub_seq, tasks, replica, seed, policy, driver, max_hold_us, state, attempts, deadline, created_at, ended_at)
			SELECT ` + runID + `, r.arena, printf('old%029d', i / @tasks), (SELECT seq FROM submissions WHERE id = 'old00000000000000000000000000000') + i / @tasks,
			r.tasks, 0, i, r.policy, r.driver, r.max_hold_us, 'scored', 1, @now, @now, @now
			FROM c JOIN runs r ON r.n = 1 + i % @tasks`,
		each + `INSERT INTO attempts (run, n, lease, token_hash, arena, submission, validator, state, outcome, driver, counted, leased_at, lease_until, seen_at, ended_at, result_hash, reply)
			SELECT ` + runID + `, 1, lower(hex(randomblob(16))), lower(hex(randomblob(32))), '` + arenaID + `', printf('old%029d', i / @tasks), 'old-validator-' || (i % 20), 'done', 'ok',
			'{"name":"runsc"}', 1, @now, @now, @now, @now, lower(hex(randomblob(32))), '{"state":"scored","counted":true,"late":false}' FROM c`,
		each + `INSERT INTO scores (run, task, attempt, score_key, value, solved, metrics, scorer, detail)
			SELECT ` + runID + `, 'small/t', 1, 'sha256:' || lower(hex(randomblob(32))), 1, 1, '{}', 'coding-1', '12 of 12 tests passed' FROM c`,
		count + `INSERT INTO decisions (arena, challenger, incumbent, score, outcome, rule, numbers, at)
			SELECT '` + arenaID + `', printf('old%029d', i), '', 0.5, 'kept', 'winner_takes_all', '{}', @now FROM c`,
	}, indexes...) {
		if _, err := db.ExecContext(ctx, q, args...); err != nil {
			return errors.Join(err, db.Close())
		}
	}
	return db.Close()
}

// takeIndexes drops the indexes of the tables that history fills, and returns what makes
// them again: row by row, millions would go to places all over the file.
func takeIndexes(ctx context.Context, db *sql.DB) (again []string, err error) {
	rows, err := db.QueryContext(ctx, `SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL AND tbl_name IN ('submissions', 'runs', 'attempts', 'scores', 'decisions')`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var names []string
	for rows.Next() {
		var name, text string
		if err := rows.Scan(&name, &text); err != nil {
			return nil, err
		}
		names, again = append(names, name), append(again, text)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return nil, err
	}
	for _, name := range names {
		if _, err := db.ExecContext(ctx, `DROP INDEX "`+name+`"`); err != nil {
			return nil, err
		}
	}
	return again, nil
}

// historyIn is history in a PostgreSQL database, which then looks at its tables as its own
// housekeeping would.
func historyIn(ctx context.Context, at string, runs, tasks int) error {
	db, err := sql.Open("pgx", at)
	if err != nil {
		return err
	}
	subs := max(1, runs/tasks)
	const (
		sub   = `'old' || lpad(i::text, 29, '0')`
		ofRun = `'old' || lpad((i / $2::bigint)::text, 29, '0')`
	)
	word := func(salt string) string { return fmt.Sprintf(`encode(sha256(('%s' || i)::bytea), 'hex')`, salt) }
	now := time.Now().UnixMicro()
	for _, q := range []struct {
		text string
		args []any
	}{
		{`INSERT INTO submissions (id, arena, miner, coldkey, netuid, name, digest, licence, state, scripted, created_at, score, solved, total)
			SELECT ` + sub + `, arena, 'old-miner-' || (i % 500), 'old-cold-' || (i % 500), netuid, '', 'sha256:' || ` + word("s") + `, licence,
			'scored', 0, $2::bigint, 0.5, 13, 27 FROM generate_series(0, $1::bigint - 1) c(i), (SELECT arena, netuid, licence FROM submissions WHERE seq = 1) x`, []any{subs, now}},
		{`INSERT INTO runs (id, arena, submission, sub_seq, tasks, replica, seed, policy, driver, max_hold_us, state, attempts, deadline, created_at, ended_at)
			SELECT md5(i::text), r.arena, ` + ofRun + `, (SELECT seq FROM submissions WHERE id = 'old' || repeat('0', 29)) + i / $2::bigint,
			r.tasks, 0, i, r.policy, r.driver, r.max_hold_us, 'scored', 1, $3::bigint, $3::bigint, $3::bigint
			FROM generate_series(0, $1::bigint - 1) c(i) JOIN (SELECT * FROM runs WHERE n <= $2::bigint) r ON r.n = 1 + i % $2::bigint`, []any{subs * tasks, tasks, now}},
		{`INSERT INTO attempts (run, n, lease, token_hash, arena, submission, validator, state, outcome, driver, counted, leased_at, lease_until, seen_at, ended_at, result_hash, reply)
			SELECT md5(i::text), 1, md5('l' || i), ` + word("t") + `, '` + arenaID + `', ` + ofRun + `, 'old-validator-' || (i % 20), 'done', 'ok',
			'{"name":"runsc"}', 1, $3::bigint, $3::bigint, $3::bigint, $3::bigint, ` + word("r") + `, '{"state":"scored","counted":true,"late":false}'
			FROM generate_series(0, $1::bigint - 1) c(i)`, []any{subs * tasks, tasks, now}},
		{`INSERT INTO scores (run, task, attempt, score_key, value, solved, metrics, scorer, detail)
			SELECT md5(i::text), 'small/t', 1, 'sha256:' || ` + word("k") + `, 1, 1, '{}', 'coding-1', '12 of 12 tests passed' FROM generate_series(0, $1::bigint - 1) c(i)`, []any{subs * tasks}},
		{`INSERT INTO decisions (arena, challenger, incumbent, score, outcome, rule, numbers, at)
			SELECT '` + arenaID + `', ` + sub + `, '', 0.5, 'kept', 'winner_takes_all', '{}', $2::bigint FROM generate_series(0, $1::bigint - 1) c(i)`, []any{subs, now}},
		{`ANALYZE`, nil},
	} {
		if _, err := db.ExecContext(ctx, q.text, q.args...); err != nil {
			return errors.Join(err, db.Close())
		}
	}
	return db.Close()
}
