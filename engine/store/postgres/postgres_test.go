package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/store"
	"github.com/agon-arena/agon/engine/store/postgres/pgtest"
	"github.com/agon-arena/agon/engine/store/storetest"
)

func TestConformance(t *testing.T) {
	server := pgtest.Start(t)
	var mu sync.Mutex
	urls := map[string]string{} // a database for each directory
	storetest.Run(t, func(t *testing.T, dir string) *store.Store {
		mu.Lock()
		defer mu.Unlock()
		if urls[filepath.Clean(dir)] == "" {
			urls[filepath.Clean(dir)] = server.Database(t)
		}
		s, err := Open(context.Background(), urls[filepath.Clean(dir)])
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}

// rounds is how often the tests below break something.
func rounds(t *testing.T) int {
	if n, err := strconv.Atoi(os.Getenv("AGON_FAULT_ROUNDS")); err == nil && n > 0 {
		return n
	}
	return 3
}

// TestFaults: two processes write notes while the server is killed or their
// connections are ended. What was acknowledged is there once, what failed at
// most once, and the facts of all are numbered without a gap.
func TestFaults(t *testing.T) {
	server := pgtest.Start(t)
	at := server.Database(t)
	ctx := context.Background()
	var stores []*store.Store
	for range 2 {
		s, err := Open(ctx, at)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		stores = append(stores, s)
	}
	stop := make(chan struct{})
	var once sync.Once
	end := func() { once.Do(func() { close(stop) }) }
	var wg sync.WaitGroup
	var mu sync.Mutex
	acked, failed := map[string]bool{}, map[string]bool{}
	wrote := make(chan struct{}, 1<<16)
	defer func() { end(); wg.Wait() }()
	for i, s := range stores {
		for w := range 4 {
			wg.Go(func() {
				for n := 0; ; n++ {
					select {
					case <-stop:
						return
					default:
					}
					id := fmt.Sprintf("%d/%d/%d", i, w, n)
					before := fmt.Sprintf("%d/%d/%d", i, w, n-1)
					mu.Lock()
					there := acked[before]
					mu.Unlock()
					err := s.Write(ctx, func(tx *store.Tx) error {
						if n%5 == 4 && there { // a rule refuses it, the transaction goes on
							if err := tx.InsertNote(store.Note{Type: "test", ID: before}); err == nil {
								return errors.New("a note could be stored twice")
							}
						}
						return tx.InsertNote(store.Note{Type: "test", ID: id, Body: []byte("{}")})
					})
					mu.Lock()
					if err == nil {
						acked[id] = true
					} else {
						failed[id] = true
						if !passing(err) && !errors.Is(err, errUnknown) && !errors.Is(err, store.ErrConflict) {
							t.Errorf("%s: %v", id, err)
						}
					}
					mu.Unlock()
					select {
					case wrote <- struct{}{}:
					default:
					}
				}
			})
		}
	}
	some := func(n int) {
		for range n {
			<-wrote
		}
	}
	for i := range rounds(t) {
		some(20 + i%7)
		if i%2 == 1 {
			server.Exec(t, strings.TrimPrefix(at[strings.LastIndexByte(at, '/'):], "/"),
				`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'agon'`)
			continue
		}
		server.Kill(t)
		server.Up(t)
	}
	some(50)
	end()
	wg.Wait()
	t.Logf("%d acknowledged, %d failed, %d faults", len(acked), len(failed), rounds(t))
	err := stores[0].Read(ctx, func(tx *store.Tx) error {
		for id := range acked {
			if _, err := tx.Note(id); err != nil {
				t.Errorf("acknowledged %s: %v", id, err)
			}
		}
		seen := map[string]bool{}
		for from := int64(0); ; {
			facts, err := tx.Facts(from, 1000)
			if err != nil || len(facts) == 0 {
				if len(seen) < len(acked) {
					t.Errorf("%d facts for %d notes", len(seen), len(acked))
				}
				return err
			}
			for _, f := range facts {
				if f.Index != from {
					t.Fatalf("fact %d where %d is due", f.Index, from)
				}
				if seen[f.ID] {
					t.Errorf("the fact of %s stands twice", f.ID)
				}
				if !acked[f.ID] && !failed[f.ID] {
					t.Errorf("a fact of %s, which nobody wrote", f.ID)
				}
				seen[f.ID] = true
				from++
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestOpenRefuses: a URL that cannot work is one clear error, without the password.
func TestOpenRefuses(t *testing.T) {
	for _, raw := range []string{"postgres://u:secret@[::1", "postgres://u:secret@h:notaport/db", "postgres://u:secret@h/db?sslmode=perhaps"} {
		_, err := Open(context.Background(), raw)
		var e *agon.Error
		if !errors.As(err, &e) || e.Field != "store" || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", raw, err)
		}
	}
	if got := Redact("postgres://u:secret@h/db?password=secret"); strings.Contains(got, "secret") {
		t.Error(got)
	}
}
