package roles

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
	"github.com/agon-arena/agon/engine/archive"
	"github.com/agon-arena/agon/internal/guard"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/ui/cli"
)

// maxNamedDamage bounds how many damages of one kind are named.
const maxNamedDamage = 20

// inspect reads all that a data directory holds: databases and their
// write-ahead logs, blobs, and the transparency log against the store. No
// server may run over it.
func inspect(ctx context.Context, o kit.Options) (out []cli.Check) {
	add := func(name, status, mend, format string, args ...any) {
		out = append(out, cli.Check{Name: name, Status: status, Detail: fmt.Sprintf(format, args...), Mend: mend})
	}
	const restore = "restore the directory from a backup of before the damage; AGON_ACCEPT_LOSS=1 starts without what is gone, and the log says so"
	if _, err := os.Stat(filepath.Join(o.Data, "agon.db")); o.Store == "" && errors.Is(err, os.ErrNotExist) {
		add("stored data", cli.CheckOK, "", "%s holds no server's data", o.Data)
		return out
	}
	d, err := kit.OpenData(o.Data)
	if err != nil {
		var e *agon.Error
		mend := ""
		if errors.As(err, &e) {
			mend = "stop the server, then run agon doctor --data " + o.Data + " again"
		}
		add("stored data", cli.CheckWarn, mend, "not read: %v", err)
		return out
	}
	defer d.Close()
	sound := true
	paths, err := filepath.Glob(d.Path("*.db"))
	if err == nil {
		var below []string // a validator's books
		below, err = filepath.Glob(d.Path("*/*.db"))
		paths = append(paths, below...)
	}
	if err != nil {
		add("stored data", cli.CheckFail, restore, "%v", err)
	}
	for _, path := range paths {
		name := strings.TrimPrefix(path, d.Dir+string(filepath.Separator))
		bad := examine(ctx, path)
		for _, b := range bad {
			add(name, cli.CheckFail, restore, "%s", b)
		}
		if len(bad) == 0 {
			add(name, cli.CheckOK, "", "every page reads, as many commits as were acknowledged")
		}
		sound = sound && len(bad) == 0
	}
	at := d
	if o.Blobs != "" {
		at = nil // no cache: what the bucket holds is read
	}
	blobs, err := openBlobs(ctx, at, o)
	if err != nil {
		add("blobs", cli.CheckFail, restore, "%v", err)
		blobs = nil
	} else {
		n, bad := 0, 0
		err := blobs.List(ctx, func(k blob.Kept) error {
			n++
			if _, err := blobs.Get(ctx, k.Digest); err != nil {
				if bad++; bad <= maxNamedDamage {
					add("blobs", cli.CheckFail, restore, "%s: %v", k.Digest, err)
				}
			}
			return ctx.Err()
		})
		switch {
		case err != nil:
			add("blobs", cli.CheckFail, restore, "%v", err)
		case bad == 0:
			add("blobs", cli.CheckOK, "", "%d blobs have their digests", n)
		default:
			add("blobs", cli.CheckFail, restore, "%d of %d blobs are damaged", bad, n)
		}
	}
	if !sound {
		add("log", cli.CheckWarn, restore, "not compared with the store, which is damaged")
		return out
	}
	inspectLog(ctx, d, o, blobs, func(status, format string, args ...any) { add("log", status, restore, format, args...) })
	return out
}

// inspectLog compares the published log with the store, entry by entry.
func inspectLog(ctx context.Context, d *kit.Data, o kit.Options, blobs blob.Store, add func(status, format string, args ...any)) {
	st, err := openStore(ctx, d, o, false)
	if err != nil {
		add(cli.CheckFail, "%v", err)
		return
	}
	defer st.Close()
	if blobs != nil {
		st.UseArchive(archive.NewReader(blobs))
	}
	l, err := openHistory(ctx, d, st, blobs, false, o.Log, nil)
	if err != nil {
		add(cli.CheckFail, "%v", err)
		return
	}
	n := 0
	err = l.Audit(ctx, func(what string) {
		if n++; n <= maxNamedDamage {
			add(cli.CheckFail, "%s", what)
		}
	})
	switch {
	case err != nil:
		add(cli.CheckFail, "%v", err)
	case n == 0:
		add(cli.CheckOK, "%d entries are what the store says, and give the signed root", l.Head().N)
	default:
		add(cli.CheckFail, "%d entries or tiles are not as they were published", n)
	}
}

// examine reads a SQLite database and its write-ahead log, and returns what is
// wrong with them.
func examine(ctx context.Context, path string) (bad []string) {
	say := func(format string, args ...any) { bad = append(bad, fmt.Sprintf(format, args...)) }
	w, err := guard.ReadWAL(path + "-wal") // first: opening the database may change it
	if err != nil {
		say("%v", err)
	}
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath()+"?_pragma=query_only(1)&_pragma=busy_timeout(1000)")
	if err != nil {
		return append(bad, err.Error())
	}
	defer db.Close()
	rows, err := db.QueryContext(ctx, fmt.Sprintf("PRAGMA integrity_check(%d)", maxNamedDamage))
	if err != nil {
		return append(bad, err.Error())
	}
	defer rows.Close()
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			return append(bad, err.Error())
		}
		if line != "ok" {
			say("%s", strings.ReplaceAll(line, "\n", "; "))
		}
	}
	if err := rows.Err(); err != nil {
		return append(bad, err.Error())
	}
	count := "SELECT n FROM commits WHERE one = 1"
	if filepath.Base(path) == "ledger.db" {
		count = "SELECT COALESCE(MAX(seq), 0) FROM log"
	}
	var have int64
	if err := db.QueryRowContext(ctx, count).Scan(&have); err != nil {
		if !strings.Contains(err.Error(), "no such table") { // of an older version
			say("%v", err)
		}
		return bad
	}
	g, err := guard.Open(path + "-commits")
	if err != nil {
		return append(bad, err.Error())
	}
	defer g.Close()
	m, ok, err := g.Read()
	switch {
	case err != nil:
		say("%v", err)
	case ok && m.Count > have && w.Beyond > 0:
		say("%d of %d acknowledged commits are gone: its write-ahead log is damaged after %d frames, and hides %d", m.Count-have, m.Count, w.Frames, w.Beyond)
	case ok && m.Count > have:
		say("%d of %d acknowledged commits are gone", m.Count-have, m.Count)
	}
	return bad
}
