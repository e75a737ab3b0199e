// Command queue measures River, a job queue of Go programs on PostgreSQL, as what claim and
// complete cost elsewhere: jobs that do nothing, inserted before, are fetched, worked by 200
// workers in this process and marked complete. Nothing is signed, and no HTTP lies between.
//
//	go run -mod=mod . -database postgres://… [-for 5s] [-workers 200]
//
// The database has to be empty; its tables stay.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// nothing is a job's arguments.
type nothing struct {
	N int `json:"n"`
}

// Kind implements river.JobArgs.
func (nothing) Kind() string { return "nothing" }

type worker struct {
	river.WorkerDefaults[nothing]
	worked *atomic.Int64
}

// Work implements river.Worker.
func (w *worker) Work(context.Context, *river.Job[nothing]) error {
	w.worked.Add(1)
	return nil
}

func main() {
	database := flag.String("database", "", "an empty PostgreSQL `database`")
	runFor := flag.Duration("for", 5*time.Second, "time of the measurement, after a third of it to warm up")
	workers := flag.Int("workers", 200, "jobs at once")
	jobs := flag.Int("jobs", 150_000, "jobs in the queue at the start")
	flag.Parse()
	if err := measure(context.Background(), *database, *runFor, *workers, *jobs); err != nil {
		fmt.Fprintln(os.Stderr, "queue:", err)
		os.Exit(1)
	}
}

func measure(ctx context.Context, database string, runFor time.Duration, workers, jobs int) error {
	pool, err := pgxpool.New(ctx, database)
	if err != nil {
		return err
	}
	defer pool.Close()
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), nil)
	if err != nil {
		return err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return fmt.Errorf("make River's tables: %w", err)
	}
	var worked atomic.Int64
	list := river.NewWorkers()
	river.AddWorker(list, &worker{worked: &worked})
	c, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
		FetchCooldown: 2 * time.Millisecond, // as its own benchmark has it; 100 ms by default
		Queues:        map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: workers}},
		Workers:       list,
	})
	if err != nil {
		return err
	}
	const batch = 5000
	for done := 0; done < jobs; done += batch {
		many := make([]river.InsertManyParams, min(batch, jobs-done))
		for i := range many {
			many[i].Args = nothing{done + i}
		}
		if _, err := c.InsertManyFast(ctx, many); err != nil {
			return fmt.Errorf("fill the queue: %w", err)
		}
	}
	if _, err := pool.Exec(ctx, "VACUUM ANALYZE river_job"); err != nil {
		return err
	}
	if err := c.Start(ctx); err != nil {
		return err
	}
	time.Sleep(runFor / 3)
	before, from := worked.Load(), time.Now()
	time.Sleep(runFor)
	n, took := worked.Load()-before, time.Since(from)
	if err := c.Stop(ctx); err != nil {
		return err
	}
	var completed int64
	if err := pool.QueryRow(ctx, "SELECT count(*) FROM river_job WHERE state = 'completed'").Scan(&completed); err != nil {
		return err
	}
	if all := worked.Load(); completed != all {
		return fmt.Errorf("%d jobs were worked and %d are complete", all, completed)
	}
	if worked.Load() == int64(jobs) {
		return errors.New("the queue ran empty: take more -jobs")
	}
	fmt.Printf("BenchmarkRiver/%d 1 %.0f jobs/s\n", workers, float64(n)/took.Seconds())
	return nil
}
