package kit

import (
	"errors"
	"fmt"
	"os"

	"github.com/agon-arena/agon/auth"
)

// Party is a demo key pair: a hotkey that signs here, and the address of its
// coldkey, whose secret is thrown away at birth (it owns nothing).
type Party struct {
	Name    string
	Hotkey  *auth.Key
	Coldkey string
}

// LoadParty opens the wallet name below dir and makes it if it is absent.
func LoadParty(dir, name string) (*Party, error) {
	w := auth.Wallet{Path: dir, Name: name, Hotkey: "default"}
	if _, err := os.Stat(w.HotkeyPath()); errors.Is(err, os.ErrNotExist) {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("make wallets: %w", err)
		}
		if _, err := os.Stat(w.ColdkeyPubPath()); errors.Is(err, os.ErrNotExist) {
			cold, err := auth.NewKey()
			if err != nil {
				return nil, fmt.Errorf("make key: %w", err)
			}
			if err := w.CreateColdkeyPub(cold.SS58()); err != nil {
				return nil, fmt.Errorf("write wallet %s: %w", name, err)
			}
		}
		hot, err := auth.NewKey()
		if err != nil {
			return nil, fmt.Errorf("make key: %w", err)
		}
		if err := w.CreateHotkey(hot); err != nil {
			return nil, fmt.Errorf("write wallet %s: %w", name, err)
		}
	}
	hot, err := w.LoadHotkey()
	if err != nil {
		return nil, fmt.Errorf("open wallet %s: %w", name, err)
	}
	cold, err := w.ColdkeyAddress()
	if err != nil {
		return nil, fmt.Errorf("open wallet %s: %w", name, err)
	}
	return &Party{Name: name, Hotkey: hot, Coldkey: cold}, nil
}
