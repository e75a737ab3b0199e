package kit

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/ui/cli"
)

// marker is the content of cli.MarkerFile, which names a directory as ours:
// agon reset removes no other.
type marker struct {
	Format   int    `json:"format"`
	Audience string `json:"audience"` // of this server's signatures; made once
}

// Data is an open data directory, locked against a second process.
type Data struct {
	Dir      string
	Audience string
	lock     *os.File
}

// OpenData opens or makes dir and locks it.
func OpenData(dir string) (*Data, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make data directory: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, cli.LockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open data directory: %w", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		lock.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, &agon.Error{
				Code: "data_in_use", Status: 409, Field: "data", Message: "another agon uses " + dir,
				Mend: "stop it, or give this one its own directory with --data",
			}
		}
		return nil, fmt.Errorf("lock data directory: %w", err)
	}
	d := &Data{Dir: dir, lock: lock}
	if err := d.mark(); err != nil {
		lock.Close()
		return nil, err
	}
	// Keys, hidden tasks and traces of undecided runs are below it: whoever made it,
	// other users of the machine have no way in.
	if err := os.Chmod(dir, 0o700); err != nil {
		lock.Close()
		return nil, fmt.Errorf("make data directory private: %w", err)
	}
	return d, nil
}

// ShareData opens a data directory beside the server that has locked it: only
// what nobody changes may be read there. os.ErrNotExist where none was made yet.
func ShareData(dir string) (*Data, error) {
	if _, err := os.Stat(filepath.Join(dir, cli.MarkerFile)); err != nil {
		return nil, fmt.Errorf("share data directory: %w", err)
	}
	d := &Data{Dir: dir}
	return d, d.mark()
}

func (d *Data) mark() error {
	path := d.Path(cli.MarkerFile)
	b, err := os.ReadFile(path)
	if err == nil {
		var m marker
		if err := json.Unmarshal(b, &m); err != nil || m.Audience == "" {
			return fmt.Errorf("data directory %s: %s is damaged", d.Dir, cli.MarkerFile)
		}
		if m.Format != 1 {
			return fmt.Errorf("data directory %s has format %d, this agon reads 1", d.Dir, m.Format)
		}
		d.Audience = m.Audience
		return nil
	}
	if !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("read data directory: %w", err)
	}
	var id [12]byte
	_, _ = rand.Read(id[:]) // never fails (crypto/rand)
	d.Audience = "agon:" + hex.EncodeToString(id[:])
	b, err = json.Marshal(marker{Format: 1, Audience: d.Audience})
	if err != nil {
		return err
	}
	return writeFile(path, b, 0o600)
}

// Path joins below the data directory.
func (d *Data) Path(elem ...string) string {
	return filepath.Join(append([]string{d.Dir}, elem...)...)
}

// Close unlocks the directory.
func (d *Data) Close() error {
	if d.lock == nil {
		return nil
	}
	return d.lock.Close()
}

// writeFile writes atomically: temp, fsync, rename, fsync of the directory.
func writeFile(path string, b []byte, mode os.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".tmp-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(b)
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}
