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

// collect removes what the server of o no longer needs. Servers may be at work.
func collect(ctx context.Context, o kit.Options, c cli.CollectOptions) (r *gc.Report, err error) {
	beside := o.Store != "" && o.Blobs != "" // nothing says whether servers are at work
	var d *kit.Data
	if !beside {
		if d, beside, err = openOrShare(o.Data); err != nil {
			return nil, err
		}
		defer d.Close()
	}
	if beside && !c.DryRun && c.Grace < gc.LeastGrace {
		return nil, &agon.Error{
			Code: "bad_setting", Status: http.StatusUnprocessableEntity, Field: "grace", Message: fmt.Sprintf("a grace of %s is too short beside servers: bytes are put before the rows that name them", c.Grace),
			Limit: gc.LeastGrace.String(), Mend: "give --grace 2h or more",
		}
	}
	var st *store.Store
	if beside && o.Store == "" {
		st, err = sqlite.OpenBeside(ctx, d.Path("agon.db"))
	} else {
		st, err = openStore(ctx, d, o, false)
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	var blobs blob.Collector
	switch {
	case o.Blobs != "":
		blobs, err = openBlobs(ctx, nil, o) // no cache
	case beside:
		blobs, err = blobfs.Open(d.Path("blobs"), blobfs.Options{Beside: true})
	default:
		blobs, err = openBlobs(ctx, d, o)
	}
	if err != nil {
		return nil, err
	}
	return gc.Collect(ctx, gc.Config{Store: st, Blobs: blobs, Now: time.Now(), Grace: c.Grace, Evidence: c.KeepEvidence, Output: c.KeepOutput, Archive: c.Archive, DropArchive: c.DropArchive, DryRun: c.DryRun})
}

// openOrShare locks a data directory, or shares it (beside) with the server that has it.
func openOrShare(dir string) (d *kit.Data, beside bool, err error) {
	if _, err := os.Stat(filepath.Join(dir, cli.MarkerFile)); err != nil {
		return nil, false, &agon.Error{Code: "not_found", Status: http.StatusNotFound, Field: "data", Message: dir + " is not a data directory of agon", Mend: "name it with --data"}
	}
	d, err = kit.OpenData(dir)
	var e *agon.Error
	if errors.As(err, &e) && e.Code == "data_in_use" {
		d, err = kit.ShareData(dir)
		return d, true, err
	}
	return d, false, err
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

// copyStore copies rows to rows, blobs to blobs, or a corpus to a bucket or from one.
func copyStore(ctx context.Context, o kit.Options, from, to string) (out *cli.StoreCopied, err error) {
	out = &cli.StoreCopied{}
	if is, err := copyCorpus(ctx, o, from, to, out); err != nil {
		return nil, err
	} else if is {
		return out, nil
	}
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
