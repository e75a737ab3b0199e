package judge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
)

// BlobCache keeps replies as blobs, and for each question a small file that
// names its blob. The blob is durable before the name is; a name whose blob is
// gone or wrong is as if it were not there.
type BlobCache struct {
	Blobs blob.Store
	Dir   string // of the names; made on first use
}

type cacheName struct {
	Reply agon.Digest `json:"reply"`
}

var keyForm = regexp.MustCompile(`^[0-9a-f]{64}$`)

func (c BlobCache) path(key string) (string, error) {
	if !keyForm.MatchString(key) {
		return "", fmt.Errorf("judge cache: bad key %.80q", key)
	}
	return filepath.Join(c.Dir, key[:2], key+".json"), nil
}

// Get implements Cache.
func (c BlobCache) Get(ctx context.Context, key string) (string, bool, error) {
	p, err := c.path(key)
	if err != nil {
		return "", false, err
	}
	b, err := os.ReadFile(p)
	if errors.Is(err, os.ErrNotExist) {
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	var n cacheName
	if len(b) > 1024 || json.Unmarshal(b, &n) != nil || n.Reply.Validate() != nil {
		return "", false, nil
	}
	text, err := c.Blobs.Get(ctx, n.Reply)
	if errors.Is(err, blob.ErrNotFound) {
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	return string(text), true, nil
}

// Put implements Cache.
func (c BlobCache) Put(ctx context.Context, key, reply string) error {
	p, err := c.path(key)
	if err != nil {
		return err
	}
	d, err := c.Blobs.Put(ctx, []byte(reply))
	if err != nil {
		return err
	}
	b, err := json.Marshal(cacheName{d})
	if err != nil {
		return err
	}
	dir := filepath.Dir(p)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".new-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // gone after the rename
	_, err = f.Write(b)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), p); err != nil {
		return err
	}
	h, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(h.Sync(), h.Close())
}
