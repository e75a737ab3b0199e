// Command collect measures `agon gc` beside a server that writes: a data directory with
// so many blobs, half of which nothing names, and a writer that stores blobs and rows as a
// server does, alone and while agon gc runs as its own process.
//
//	make build && go run ./bench/collect [-blobs 1000000]
package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
	blobfs "github.com/agon-arena/agon/blob/fs"
	"github.com/agon-arena/agon/engine/gc"
	"github.com/agon-arena/agon/engine/store"
	"github.com/agon-arena/agon/engine/store/sqlite"
	"github.com/agon-arena/agon/kinds/kit"
)

const (
	// atOnce bounds the rows of a transaction.
	atOnce = 2000
	// every is the pace of the writer, alone is how long it is watched without agon gc.
	every, alone = 20 * time.Millisecond, 10 * time.Second
)

func main() {
	bin := flag.String("bin", "bin/agon", "the program under measurement")
	blobs := flag.Int("blobs", 1_000_000, "blobs in the folder; nothing names every second one")
	flag.Parse()
	if err := measure(context.Background(), *bin, *blobs); err != nil {
		fmt.Fprintln(os.Stderr, "collect:", err)
		os.Exit(1)
	}
}

// content is what blob n holds.
func content(n int) []byte { return binary.BigEndian.AppendUint64([]byte("blob "), uint64(n)) }

func measure(ctx context.Context, bin string, n int) error {
	dir, err := os.MkdirTemp("", "agon-bench-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	d, err := kit.OpenData(dir) // held, as a server holds it
	if err != nil {
		return err
	}
	defer d.Close()
	st, err := sqlite.Open(ctx, d.Path("agon.db"))
	if err != nil {
		return err
	}
	defer st.Close()
	blobs, err := blobfs.Open(d.Path("blobs"), blobfs.Options{})
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "collect: storing %d blobs\n", n)
	if err := fill(ctx, st, d.Path("blobs"), n); err != nil {
		return err
	}
	w := &writer{st: st, blobs: blobs}
	before, err := w.during(ctx, func() error { time.Sleep(alone); return nil })
	if err != nil {
		return err
	}
	var r gc.Report
	var took, used time.Duration
	while, err := w.during(ctx, func() error {
		began := time.Now()
		cmd := exec.CommandContext(ctx, bin, "gc", "--data", dir, "-o", "json")
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, os.Stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("agon gc: %w", err)
		}
		took, used = time.Since(began), cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime()
		return json.Unmarshal(out.Bytes(), &r)
	})
	if err != nil {
		return err
	}
	if want := int64(n / 2); r.Removed != want {
		return fmt.Errorf("agon gc removed %d of %d blobs that nothing names: %+v", r.Removed, want, r)
	}
	fmt.Println("| blobs | removed | agon gc takes, CPU time | writes alone: p50, p99, worst | beside agon gc: p50, p99, worst |")
	fmt.Println("|---|---|---|---|---|")
	fmt.Printf("| %d | %d | %.1f s, %.1f s | %s | %s |\n", r.Blobs, r.Removed, took.Seconds(), used.Seconds(), before, while)
	return nil
}

// fill writes n old blobs as files, and a row for every second one.
func fill(ctx context.Context, st *store.Store, dir string, n int) error {
	old := time.Now().Add(-48 * time.Hour)
	for i := range 256 {
		if err := os.MkdirAll(filepath.Join(dir, fmt.Sprintf("%02x", i)), 0o700); err != nil {
			return err
		}
	}
	for done := 0; done < n; done += atOnce {
		last := min(n, done+atOnce)
		err := st.Write(ctx, func(tx *store.Tx) error {
			for i := done; i < last; i += 2 {
				if err := tx.AddRef(store.BlobRef{Digest: agon.Sum(content(i)), What: store.RefCode, Owner: "s"}); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		for i := done; i < last; i++ {
			h := agon.Sum(content(i)).Hex()
			path := filepath.Join(dir, h[:2], h[2:])
			if err := os.WriteFile(path, content(i), 0o400); err != nil {
				return err
			}
			if err := os.Chtimes(path, old, old); err != nil {
				return err
			}
		}
	}
	return nil
}

// writer stores a blob and its row at a pace.
type writer struct {
	st    *store.Store
	blobs blob.Store
	n     int
}

// during writes while fn runs, and tells how long a write took.
func (w *writer) during(ctx context.Context, fn func() error) (string, error) {
	stop := make(chan struct{})
	var times []time.Duration
	var failed error
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
			}
			w.n++
			began := time.Now()
			d, err := w.blobs.Put(ctx, fmt.Appendf(nil, "written meanwhile %d", w.n))
			if err == nil {
				err = w.st.Write(ctx, func(tx *store.Tx) error {
					return tx.AddRef(store.BlobRef{Digest: d, What: store.RefCode, Owner: "meanwhile"})
				})
			}
			if err != nil {
				failed = err
				return
			}
			times = append(times, time.Since(began))
		}
	})
	err := fn()
	close(stop)
	wg.Wait()
	if err := errors.Join(err, failed); err != nil {
		return "", err
	}
	if len(times) == 0 {
		return "", errors.New("nothing was written")
	}
	slices.Sort(times)
	at := func(percent int) time.Duration {
		return times[min(len(times)-1, len(times)*percent/100)].Round(100 * time.Microsecond)
	}
	return fmt.Sprintf("%s, %s, %s", at(50), at(99), at(100)), nil
}
