package roles

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
	blobfs "github.com/agon-arena/agon/blob/fs"
	"github.com/agon-arena/agon/blob/s3"
	"github.com/agon-arena/agon/engine/gc"
	"github.com/agon-arena/agon/engine/store"
	"github.com/agon-arena/agon/engine/store/postgres"
	"github.com/agon-arena/agon/engine/store/sqlite"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/ui/cli"
)

// collect removes what the server of o no longer needs. Where its rows and its
// bytes are elsewhere, servers may be at work; else none may use the data directory.
func collect(ctx context.Context, o kit.Options, c cli.CollectOptions) (r *gc.Report, err error) {
	shared := o.Store != "" && o.Blobs != ""
	if shared && !c.DryRun && c.Grace < gc.LeastGrace {
		return nil, &agon.Error{
			Code: "bad_setting", Status: http.StatusUnprocessableEntity, Field: "grace", Message: fmt.Sprintf("a grace of %s is too short beside servers: bytes are put before the rows that name them", c.Grace),
			Limit: gc.LeastGrace.String(), Mend: "give --grace 2h or more",
		}
	}
	var d *kit.Data
	if !shared {
		if _, err := os.Stat(filepath.Join(o.Data, cli.MarkerFile)); err != nil {
			return nil, &agon.Error{Code: "not_found", Status: http.StatusNotFound, Field: "data", Message: o.Data + " is not a data directory of agon", Mend: "name it with --data"}
		}
		if d, err = kit.OpenData(o.Data); err != nil {
			return nil, err
		}
		defer d.Close()
	}
	st, err := openStore(ctx, d, o, false)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	at := d
	if o.Blobs != "" {
		at = nil // no cache
	}
	blobs, err := openBlobs(ctx, at, o)
	if err != nil {
		return nil, err
	}
	return gc.Collect(ctx, gc.Config{Store: st, Blobs: blobs, Now: time.Now(), Grace: c.Grace, Evidence: c.KeepEvidence, DryRun: c.DryRun})
}

// end is one side of a copy.
type end struct {
	name string
	rows *store.Store   // or
	byts blob.Collector // bytes
	data *kit.Data      // the locked data directory that it is part of; nil: of none
}

func (e *end) close() error {
	var err error
	if e.rows != nil {
		err = e.rows.Close()
	}
	if e.data != nil {
		err = errors.Join(err, e.data.Close())
	}
	return err
}

// openEnd opens what a name says: a postgres:// URL, an s3:// URL, a file of
// SQLite (*.db), or a folder of blobs. A data directory that it is part of is locked.
func openEnd(ctx context.Context, o kit.Options, name, field string, must bool) (e *end, err error) {
	e = &end{name: name}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.close())
		}
	}()
	switch {
	case postgres.IsURL(name):
		e.name = postgres.Redact(name)
		e.rows, err = postgres.Open(ctx, name)
		return e, err
	case s3.IsURL(name):
		o.Blobs = name
		e.byts, err = openBlobs(ctx, nil, o)
		return e, err
	case strings.Contains(name, "://"):
		return e, &agon.Error{Code: "bad_setting", Status: http.StatusUnprocessableEntity, Field: field, Message: "the URL is neither postgres:// nor s3://", Mend: "give one of them, a file named *.db, or a folder of blobs"}
	}
	if _, err := os.Stat(name); must && err != nil {
		return e, &agon.Error{Code: "not_found", Status: http.StatusNotFound, Field: field, Message: "there is no " + name, Mend: "name agon.db or blobs of a data directory"}
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(name), cli.MarkerFile)); err == nil {
		if e.data, err = kit.OpenData(filepath.Dir(name)); err != nil {
			return e, err
		}
	}
	if strings.HasSuffix(name, ".db") {
		e.rows, err = sqlite.Open(ctx, name)
		return e, err
	}
	e.byts, err = blobfs.Open(name, blobfs.Options{})
	return e, err
}

// copyStore copies rows to rows or blobs to blobs.
func copyStore(ctx context.Context, o kit.Options, from, to string) (out *cli.StoreCopied, err error) {
	f, err := openEnd(ctx, o, from, "from", true)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	t, err := openEnd(ctx, o, to, "to", false)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	out = &cli.StoreCopied{From: f.name, To: t.name}
	switch {
	case f.rows != nil && t.rows != nil:
		err = store.Copy(ctx, f.rows, t.rows, func(c store.CopiedTable) {
			out.Tables = append(out.Tables, c)
			out.Rows += c.Rows
			out.Copied += c.Copied
			if c.Copied > 0 {
				o.Sayf("%s: %d rows, %d copied", c.Table, c.Rows, c.Copied)
			}
		})
	case f.byts != nil && t.byts != nil:
		var c blob.Copied
		c, err = blob.Copy(ctx, f.byts, t.byts)
		out.Blobs, out.Copied = &c, c.Copied
	default:
		return nil, &agon.Error{Code: "bad_setting", Status: http.StatusUnprocessableEntity, Field: "to", Message: "one side holds rows, the other bytes", Mend: "copy agon.db to a database, and blobs to a bucket, one after the other"}
	}
	if err != nil {
		return nil, err
	}
	out.Verified = true
	return out, nil
}
