package platform

import (
	"context"
	"errors"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
)

// silent is a place of blobs that does not answer.
type silent struct{ blob.Store }

func (silent) Has(context.Context, agon.Digest) (bool, error) { return false, errors.New("no route") }

func TestStorage(t *testing.T) {
	f := newFixture(t, 1)
	if s := f.Storage(bg); s.Blobs != nil || s.LowDisk() || s.DiskTotal != 0 {
		t.Errorf("%+v", s)
	}
	f.cfg.Disk = func() (int64, int64, error) { return 4, 100, nil }
	if s := f.Storage(bg); s.DiskFree != 4 || !s.LowDisk() {
		t.Errorf("%+v", s)
	}
	f.cfg.Disk = func() (int64, int64, error) { return 0, 0, errors.New("gone") }
	f.cfg.Blobs = silent{f.cfg.Blobs}
	if s := f.Storage(bg); s.Blobs == nil || s.LowDisk() {
		t.Errorf("%+v", s)
	}
}
