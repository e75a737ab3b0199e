package run

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/agon-arena/agon/gateway"
	"github.com/agon-arena/agon/store/sqlite"
)

// openBooks gives a gateway durable books and its key, both in dir. What a
// crash left reserved is released here.
func openBooks(ctx context.Context, c *gateway.Config, dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the gateway's directory: %w", err)
	}
	key, err := gateway.LoadKey(filepath.Join(dir, "gateway.key"))
	if err != nil {
		return err
	}
	s, err := sqlite.Open(ctx, filepath.Join(dir, "gateway.db"))
	if err != nil {
		return err
	}
	c.AfterStop = s.Close
	c.Books, err = gateway.NewBooks(ctx, gateway.BooksConfig{Journal: s, Key: key})
	if err != nil {
		_ = s.Close() // the error before says more
	}
	return err
}
