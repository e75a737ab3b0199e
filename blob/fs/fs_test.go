package fs

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
	"github.com/agon-arena/agon/blob/blobtest"
)

func TestConformance(t *testing.T) {
	blobtest.Run(t, 1<<16, func(t *testing.T) blob.Store { return open(t, t.TempDir()) })
}

func open(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Open(dir, Options{MaxBytes: 1 << 16})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestDamageIsFoundAndMended(t *testing.T) {
	ctx := context.Background()
	s := open(t, t.TempDir())
	d, err := s.Put(ctx, []byte("the truth"))
	if err != nil {
		t.Fatal(err)
	}
	path := s.path(d)
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("the trutH"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(ctx, d); !errors.Is(err, blob.ErrCorrupt) {
		t.Fatalf("get of damaged blob: %v, want ErrCorrupt", err)
	}
	if _, err := s.Put(ctx, []byte("the truth")); err != nil {
		t.Fatal(err)
	}
	if b, err := s.Get(ctx, d); err != nil || string(b) != "the truth" {
		t.Fatalf("after mending: %q, %v", b, err)
	}
}

func TestOpenClearsHalfWrittenFiles(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	s := open(t, dir)
	d, err := s.Put(ctx, []byte("kept"))
	if err != nil {
		t.Fatal(err)
	}
	half := filepath.Join(dir, tempDir, "put-123")
	if err := os.WriteFile(half, []byte("ha"), 0o600); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir)
	if _, err := os.Stat(half); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("half-written file: %v, want it gone", err)
	}
	var got []agon.Digest
	if err := s.Each(ctx, func(d agon.Digest) error { got = append(got, d); return nil }); err != nil {
		t.Fatal(err)
	}
	if len(got) != 1 || got[0] != d {
		t.Fatalf("each: %v, want %s", got, d)
	}
}
