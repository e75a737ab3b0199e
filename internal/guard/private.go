package guard

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Private makes the SQLite database at path, with its write-ahead log and shared
// memory, readable by its owner only. It is called before the database is
// opened: SQLite makes what is missing with the mode of the database's file.
func Private(path string) error {
	// A database that is there is not opened here: closing the descriptor would
	// end the locks that this process already holds on the file.
	switch f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600); {
	case errors.Is(err, fs.ErrExist):
	case err != nil:
		return fmt.Errorf("make database: %w", err)
	default:
		if err := f.Close(); err != nil {
			return fmt.Errorf("make database: %w", err)
		}
	}
	for _, name := range []string{path, path + "-wal", path + "-shm"} {
		if err := os.Chmod(name, 0o600); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("make database private: %w", err)
		}
	}
	return nil
}
