package validator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
	blobfs "github.com/agon-arena/agon/blob/fs"
	"github.com/agon-arena/agon/sandbox/sandboxtest/fake"
)

// treeBytes is what one tree of newTrees takes on the disk, more or less.
const treeBytes = 256 << 10

// newTrees makes a cache that may hold limit trees, and a source with n trees,
// each one file of treeBytes.
func newTrees(t *testing.T, limit, n int) (*TreeCache, []agon.Digest) {
	t.Helper()
	source, err := blobfs.Open(t.TempDir(), blobfs.Options{Cache: true})
	if err != nil {
		t.Fatal(err)
	}
	var list []agon.Digest
	for i := range n {
		content := bytes.Repeat([]byte{byte(i)}, treeBytes)
		d, err := blob.PutFiles(t.Context(), source, []blob.File{{Path: "dir/file", Content: content}}, blob.TreeLimits{})
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, d)
	}
	clock := time.Unix(1_700_000_000, 0)
	var mu sync.Mutex
	return &TreeCache{
		Dir: filepath.Join(t.TempDir(), "trees"), Source: source, Limit: int64(limit) * treeBytes,
		Now: func() time.Time {
			mu.Lock()
			defer mu.Unlock()
			clock = clock.Add(time.Minute)
			return clock
		},
	}, list
}

// have returns which trees are on the disk, by index.
func have(t *testing.T, c *TreeCache, list []agon.Digest) (out []int) {
	t.Helper()
	for i, d := range list {
		if b, err := os.ReadFile(filepath.Join(c.Dir, d.Hex(), "dir", "file")); err == nil {
			if len(b) != treeBytes || b[0] != byte(i) {
				t.Errorf("tree %d is not whole", i)
			}
			out = append(out, i)
		}
	}
	return out
}

// use holds a tree for a moment.
func use(t *testing.T, c *TreeCache, d agon.Digest) {
	t.Helper()
	_, release, err := c.Hold(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	release()
	release() // more than once changes nothing
}

// The least recently used trees go when there is no room; what an attempt holds
// stays, whatever it takes.
func TestTreesArePruned(t *testing.T) {
	c, list := newTrees(t, 4, 8)
	for i := range 3 {
		use(t, c, list[i])
	}
	if got := have(t, c, list); !slices.Equal(got, []int{0, 1, 2}) {
		t.Fatalf("have %v", got)
	}
	use(t, c, list[0]) // now 1 is the oldest
	use(t, c, list[3])
	use(t, c, list[4])
	if got := have(t, c, list); !slices.Equal(got, []int{0, 3, 4}) {
		t.Errorf("have %v, want the three that were used last", got)
	}
	_, release, err := c.Hold(t.Context(), list[0])
	if err != nil {
		t.Fatal(err)
	}
	for i := 5; i < 8; i++ {
		use(t, c, list[i])
	}
	if got := have(t, c, list); !slices.Equal(got, []int{0, 6, 7}) {
		t.Errorf("have %v, want the tree in use and the last two", got)
	}
	release()
	use(t, c, list[1])
	use(t, c, list[2])
	if got := have(t, c, list); !slices.Equal(got, []int{1, 2, 7}) {
		t.Errorf("have %v: a tree that was let go stays", got)
	}
	if len(c.held) != 0 {
		t.Errorf("%d trees are kept in memory", len(c.held))
	}
	ents, err := os.ReadDir(c.Dir)
	if err != nil || len(ents) != 6 { // three trees with their marks of use
		t.Errorf("left %v, %v", ents, err)
	}
}

// Whatever is asked for at once, the cache ends up within its limit and no
// holder loses its tree.
func TestTreesTogether(t *testing.T) {
	c, list := newTrees(t, 3, 10)
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for n := range 30 {
				i := (w*7 + n*3) % len(list)
				dir, release, err := c.Hold(context.Background(), list[i])
				if err != nil {
					t.Error(err)
					return
				}
				if b, err := os.ReadFile(filepath.Join(dir, "dir", "file")); err != nil || len(b) != treeBytes || b[0] != byte(i) {
					t.Errorf("tree %d while it is held: %d bytes, %v", i, len(b), err)
				}
				release()
			}
		})
	}
	wg.Wait()
	use(t, c, list[0])
	if err := c.prune(3 * treeBytes); err != nil {
		t.Fatal(err)
	}
	if got := have(t, c, list); len(got) > 3 || !slices.Contains(got, 0) {
		t.Errorf("have %v", got)
	}
	if len(c.held) != 0 {
		t.Errorf("%d trees are kept in memory", len(c.held))
	}
}

// A new process finds the trees of the one before, within the limit, and clears
// what it left half done; what is not a tree is left alone.
func TestTreesOfEarlierProcess(t *testing.T) {
	old, list := newTrees(t, 8, 6)
	for i := range 5 {
		use(t, old, list[i])
	}
	long := time.Unix(1_600_000_000, 0)
	for _, name := range []string{".gone-" + list[0].Hex(), ".tree-1", "notes"} {
		dir := filepath.Join(old.Dir, name)
		if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "f"), []byte("x"), 0o644), os.Chtimes(dir, long, long)); err != nil {
			t.Fatal(err)
		}
	}
	young := filepath.Join(old.Dir, ".tree-2")
	if err := errors.Join(os.MkdirAll(young, 0o755), os.Chtimes(young, old.now(), old.now())); err != nil {
		t.Fatal(err)
	}
	c := &TreeCache{Dir: old.Dir, Source: old.Source, Limit: 3 * treeBytes, Now: old.Now}
	use(t, c, list[4])
	if got := have(t, c, list); !slices.Equal(got, []int{3, 4}) {
		t.Errorf("have %v", got)
	}
	ents, err := os.ReadDir(c.Dir)
	if err != nil {
		t.Fatal(err)
	}
	var rest []string
	for _, e := range ents {
		if !strings.HasPrefix(e.Name(), ".used-") && len(e.Name()) < 64 {
			rest = append(rest, e.Name())
		}
	}
	if !slices.Equal(rest, []string{".tree-2", "notes"}) {
		t.Errorf("left %v", rest)
	}
}

// A tree that cannot be had leaves nothing behind, on the disk or in memory.
func TestTreeMissing(t *testing.T) {
	c, _ := newTrees(t, 3, 0)
	for i := range 3 {
		if _, _, err := c.Hold(t.Context(), agon.Sum([]byte(fmt.Sprint(i)))); !errors.Is(err, blob.ErrNotFound) {
			t.Errorf("got %v", err)
		}
	}
	if _, _, err := c.Hold(t.Context(), "sha256:../../etc"); err == nil {
		t.Error("a digest that is none was taken")
	}
	ents, err := os.ReadDir(c.Dir)
	if err != nil || len(ents) != 0 || len(c.held) != 0 {
		t.Errorf("left %v %v, %d in memory", ents, err, len(c.held))
	}
}

// An attempt holds the trees that it asked for until it ends.
func TestAttemptHoldsTrees(t *testing.T) {
	c, list := newTrees(t, 2, 3)
	p := &Player{Driver: fake.New(fake.Config{}), Gateway: &sessions{}, Trees: c, Now: time.Now}
	e := &env{p: p, rec: &recorder{now: time.Now}}
	for range 2 { // asking again is not a second tree
		for i := range 3 {
			if _, err := e.Tree(t.Context(), list[i]); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := c.prune(0); err != nil {
		t.Fatal(err)
	}
	if got := have(t, c, list); len(got) != 3 {
		t.Errorf("have %v of an attempt under way", got)
	}
	e.close()
	if err := c.prune(0); err != nil {
		t.Fatal(err)
	}
	if got := have(t, c, list); len(got) != 0 || len(c.held) != 0 {
		t.Errorf("have %v after the attempt, %d in memory", got, len(c.held))
	}
	if _, err := e.Tree(t.Context(), list[0]); !errors.Is(err, errEnded) || len(c.held) != 0 {
		t.Errorf("got %v, %d in memory", err, len(c.held))
	}
}
