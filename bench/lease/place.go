package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"github.com/agon-arena/agon/auth"
)

// place is a server's data: a folder, and a PostgreSQL database where at says so.
type place struct {
	dir, at string
	keys    []*auth.Key // of the validators
	remove  func(context.Context) error
}

// prepare makes the arena, the validators, a queue and so many finished runs: in a file, or
// in a new database beside the one that store names.
func prepare(ctx context.Context, o options, store string, finished, servers int) (p *place, err error) {
	p = &place{}
	if p.dir, err = os.MkdirTemp("", "agon-bench-"); err != nil {
		return nil, err
	}
	p.remove = func(context.Context) error { return os.RemoveAll(p.dir) }
	defer func() {
		if err != nil {
			err = errors.Join(err, p.remove(context.WithoutCancel(ctx)))
		}
	}()
	if store != "" {
		if err := p.database(ctx, store, fmt.Sprintf("agon_bench_%d_%d", finished, servers)); err != nil {
			return nil, err
		}
	}
	stop, _, err := serve(ctx, o, p.dir, p.at) // makes the arena, the ledger and the operator's key
	if err != nil {
		return nil, err
	}
	p.keys, err = register(ctx, o, p.dir)
	if err == nil {
		err = stop()
	}
	if err != nil {
		return nil, err
	}
	if err := fill(ctx, filepath.Join(p.dir, "agon.db"), p.at, finished, o.queued); err != nil {
		return nil, fmt.Errorf("fill the store: %w", err)
	}
	return p, nil
}

// database makes a database for p, which ends with p.
func (p *place) database(ctx context.Context, store, name string) error {
	u, err := url.Parse(store)
	if err != nil {
		return err
	}
	do := func(ctx context.Context, text string) error {
		db, err := sql.Open("pgx", store)
		if err != nil {
			return err
		}
		_, err = db.ExecContext(ctx, text)
		return errors.Join(err, db.Close())
	}
	if err := do(ctx, `CREATE DATABASE `+name); err != nil {
		return err
	}
	u.Path = "/" + name
	p.at = u.String()
	p.remove = func(ctx context.Context) error {
		return errors.Join(os.RemoveAll(p.dir), do(ctx, `DROP DATABASE `+name+` WITH (FORCE)`))
	}
	return nil
}
