package roles

import (
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/agon-arena/agon/ui/webhook"
)

// openWebhooks starts to tell hooks. The key that signs what they are told is
// made once, 0600, beside the store.
func (s *server) openWebhooks() error {
	path := s.Data.Path("webhook.key")
	var key ed25519.PrivateKey
	b, err := os.ReadFile(path)
	switch {
	case err == nil:
		seed, err := hex.DecodeString(strings.TrimSpace(string(b)))
		if err != nil || len(seed) != ed25519.SeedSize {
			return fmt.Errorf("read %s: it is not a key", path)
		}
		key = ed25519.NewKeyFromSeed(seed)
	case errors.Is(err, fs.ErrNotExist):
		if _, key, err = ed25519.GenerateKey(nil); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(hex.EncodeToString(key.Seed())+"\n"), 0o600); err != nil {
			return fmt.Errorf("write webhook key: %w", err)
		}
	default:
		return err
	}
	s.hooks = webhook.New(webhook.Config{
		Store: s.Store, Key: key, Now: time.Now, Log: s.Options.Log, AllowPrivate: s.Options.Getenv != nil && s.Options.Getenv("AGON_WEBHOOK_PRIVATE") == "1",
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.hooks.Run(ctx, func(ctx context.Context) error { return s.Platform.Wait(ctx, "") })
	}()
	s.unhook = func() { cancel(); <-done }
	return nil
}
