package roles

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	blobfs "github.com/agon-arena/agon/blob/fs"
	"github.com/agon-arena/agon/engine/audit"
	"github.com/agon-arena/agon/engine/gc"
	"github.com/agon-arena/agon/engine/store"
	"github.com/agon-arena/agon/engine/store/sqlite"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/ui/cli"
)

// agon gc runs beside a server at work that has its rows in SQLite and its bytes in a
// folder: what nothing names goes, evidence of old runs is released, all else stays, and
// the server's books are sound.
func TestCollectBesideServer(t *testing.T) {
	c := &cluster{t: t, dir: t.TempDir(), arena: claimArena(t, 2), acked: map[string]bool{}, results: map[string]int{}}
	var err error
	if c.file, err = kit.LoadArenaFile(c.arena, testOptions("").Kits); err != nil {
		t.Fatal(err)
	}
	srv := startServer(t, "", c.dir, c.arena)
	c.show(srv)
	val := c.party("val")
	c.register(val, true)
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer func() { stop(); wg.Wait() }()
	wg.Go(func() { c.validate(ctx, val.Hotkey) })

	folder := filepath.Join(c.dir, "blobs")
	beside, err := blobfs.Open(folder, blobfs.Options{Beside: true})
	if err != nil {
		t.Fatal(err)
	}
	rows, err := sqlite.OpenBeside(t.Context(), filepath.Join(c.dir, "agon.db"))
	if err != nil {
		t.Fatal(err)
	}
	named := func(fn func(agon.Digest)) {
		t.Helper()
		if err := rows.Read(t.Context(), func(tx *store.Tx) error { return tx.EachRef(fn) }); err != nil {
			t.Fatal(err)
		}
	}
	age := func(d agon.Digest) {
		old := time.Now().Add(-48 * time.Hour)
		if err := os.Chtimes(filepath.Join(folder, d.Hex()[:2], d.Hex()[2:]), old, old); err != nil {
			t.Error(err)
		}
	}
	o := kit.Options{Data: c.dir, Log: testOptions("").Log, Getenv: os.Getenv}
	sweep := func(co cli.CollectOptions) *gc.Report {
		t.Helper()
		co.Grace = 24 * time.Hour
		r, err := collect(t.Context(), o, co)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	var e *agon.Error
	if _, err := collect(t.Context(), o, cli.CollectOptions{Grace: time.Hour}); !errors.As(err, &e) || e.Status != http.StatusUnprocessableEntity || e.Field != "grace" {
		t.Errorf("a short grace beside a server: %v", err)
	}
	for n := 0; n < 6 || c.played.Load() < 6; n++ {
		if n > 400 {
			t.Fatal("nothing is played any more")
		}
		c.submit(n)
		if n >= 6 {
			continue
		}
		orphan, err := beside.Put(t.Context(), []byte("an orphan"))
		if err != nil {
			t.Fatal(err)
		}
		named(age)
		age(orphan)
		if r := sweep(cli.CollectOptions{DryRun: true}); r.Removed != 1 || !r.DryRun {
			t.Errorf("dry run: %+v", r)
		}
		if r := sweep(cli.CollectOptions{}); r.Removed != 1 || r.Referenced == 0 {
			t.Errorf("beside a server: %+v", r)
		}
		if ok, err := beside.Has(t.Context(), orphan); ok || err != nil {
			t.Errorf("an orphan stays: %v", err)
		}
	}
	c.settle(ctx)
	if r := sweep(cli.CollectOptions{KeepEvidence: time.Nanosecond}); r.EvidenceRuns == 0 {
		t.Errorf("evidence of old runs: %+v", r)
	}
	op, err := kit.LoadParty(filepath.Join(c.dir, "wallets"), "operator")
	if err != nil {
		t.Fatal(err)
	}
	before := c.trails(srv.url, op)
	if r := sweep(cli.CollectOptions{Archive: time.Nanosecond}); r.Archived == nil || r.Archived.Runs < 5 || r.Archived.Events < r.Archived.Runs || r.Archived.Kept != 0 {
		t.Errorf("archived: %+v", r.Archived)
	}
	if r := sweep(cli.CollectOptions{}); r.Removed != 0 {
		t.Errorf("after the archive: %+v", r)
	}
	if after := c.trails(srv.url, op); !reflect.DeepEqual(after, before) {
		t.Errorf("from the archive:\n%+v\nwas\n%+v", after, before)
	}
	if r := sweep(cli.CollectOptions{DropArchive: time.Nanosecond}); r.Dropped == nil || r.Dropped.Runs < 5 || r.Dropped.Files == 0 {
		t.Errorf("dropped: %+v", r.Dropped)
	}
	c.gone(srv.url, op)
	stop()
	wg.Wait()
	named(func(d agon.Digest) {
		if ok, err := beside.Has(t.Context(), d); !ok || err != nil {
			t.Errorf("%s is named and gone: %v", d, err)
		}
	})
	if err := errors.Join(rows.Close(), srv.end(syscall.SIGTERM)); err != nil {
		t.Fatal(err)
	}
	sound(t, o)
}

// gone reads all runs after their steps and files have gone: who sits has both, of the
// others pages and checks say what is missing, and nothing is wrong.
func (c *cluster) gone(at string, op *kit.Party) {
	c.t.Helper()
	cl := c.balancer.client(c.t, op.Hotkey)
	dropped := 0
	for id := range c.acked {
		b, err := audit.Collect(c.t.Context(), cl, audit.Want{Submission: id})
		if err != nil {
			c.t.Fatal(err)
		}
		if r := audit.Check(c.t.Context(), b, audit.Options{}); !r.OK {
			c.t.Errorf("submission %s without its steps: %+v", id, r.Wrong)
		}
		for _, x := range b.Runs {
			if slices.Contains(x.Run.Gone, agon.GoneSteps) != (len(x.Events) == 0) {
				c.t.Errorf("run %s has %d events, gone: %v", x.Run.RunSpec.Run, len(x.Events), x.Run.Gone)
			}
			if len(x.Events) > 0 {
				continue
			}
			dropped++
			page, err := http.Get(at + "/runs/" + x.Run.RunSpec.Run)
			if err != nil {
				c.t.Fatal(err)
			}
			body, err := io.ReadAll(page.Body)
			_ = page.Body.Close()
			if page.StatusCode != http.StatusOK || err != nil || !bytes.Contains(body, []byte(`data-gone="steps"`)) || !bytes.Contains(body, []byte(`data-gone="evidence"`)) {
				c.t.Errorf("the page of run %s: %s, %v, or it does not say what is gone", x.Run.RunSpec.Run, page.Status, err)
			}
		}
	}
	if dropped == 0 {
		c.t.Error("all runs have their steps")
	}
}

// trails is what a verifier and the pages are given of every run: its events and
// receipts, what the check of the submission says, and the kinds of steps on its page.
func (c *cluster) trails(at string, op *kit.Party) map[string]string {
	c.t.Helper()
	cl := c.balancer.client(c.t, op.Hotkey)
	out := map[string]string{}
	for id := range c.acked {
		b, err := audit.Collect(c.t.Context(), cl, audit.Want{Submission: id})
		if err != nil {
			c.t.Fatal(err)
		}
		if r := audit.Check(c.t.Context(), b, audit.Options{}); !r.OK {
			c.t.Errorf("submission %s: %+v", id, r.Wrong)
		}
		for _, x := range b.Runs {
			if len(x.Events) == 0 {
				c.t.Errorf("run %s has no events", x.Run.RunSpec.Run)
			}
			text, err := json.Marshal([]any{x.Events, x.Receipts})
			if err != nil {
				c.t.Fatal(err)
			}
			page, err := http.Get(at + "/runs/" + x.Run.RunSpec.Run)
			if err != nil {
				c.t.Fatal(err)
			}
			body, err := io.ReadAll(page.Body)
			if page.StatusCode != http.StatusOK || err != nil {
				c.t.Errorf("the page of run %s: %s, %v", x.Run.RunSpec.Run, page.Status, err)
			}
			_ = page.Body.Close()
			out[x.Run.RunSpec.Run] = fmt.Sprint(string(text), bytes.Count(body, []byte("plays")))
		}
	}
	return out
}
