package keeper

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/agon-arena/agon/ledger"
)

// state is the keeper's file.
type state struct {
	Version  int       `json:"version"`
	Netuid   uint16    `json:"netuid"`
	Hotkey   string    `json:"hotkey"`
	Newest   uint64    `json:"newest"` // block
	Given    mark      `json:"given"`
	Tried    uint64    `json:"tried"` // block of a call whose answer is not known; 0 = none
	Promises []promise `json:"promises"`

	saved string // the bytes of the file
}

// mark names the last tempo that has weights, of one registration.
type mark struct {
	Epoch        uint64 `json:"epoch"`
	RegisteredAt uint64 `json:"registered_at"`
	Ever         bool   `json:"ever"`
}

// promise is committed weights in plain.
type promise struct {
	Hash    ledger.Hash    `json:"hash"`
	Weights ledger.Weights `json:"weights"`
	Salt    []uint16       `json:"salt"`
	Epoch   uint64         `json:"epoch"` // of the commit
	Tried   uint64         `json:"tried"` // block
	// Sealed is what was committed where the ledger opens it by itself.
	Sealed *ledger.Sealed `json:"sealed,omitempty"`
}

const (
	version  = 1
	maxState = 64 << 20 // bytes
)

func (k *Keeper) load() error {
	k.state = state{Version: version, Netuid: k.cfg.Netuid, Hotkey: k.cfg.Hotkey}
	f, err := os.Open(k.cfg.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open keeper: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxState+1))
	if err != nil {
		return fmt.Errorf("read keeper: %w", err)
	}
	var s state
	if len(b) > maxState {
		return fmt.Errorf("read keeper %s: over %d bytes", k.cfg.Path, maxState)
	}
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("read keeper %s: %w", k.cfg.Path, err)
	}
	switch {
	case s.Version != version:
		return fmt.Errorf("read keeper %s: version %d, this one knows %d", k.cfg.Path, s.Version, version)
	case s.Netuid != k.cfg.Netuid || s.Hotkey != k.cfg.Hotkey:
		return fmt.Errorf("read keeper %s: it is of %s on subnet %d", k.cfg.Path, s.Hotkey, s.Netuid)
	}
	s.saved = string(b)
	k.state = s
	return nil
}

// save writes the state if it says anything new: temp, sync, rename, sync of the directory.
func (k *Keeper) save(m *ledger.Metagraph) error {
	b, err := json.Marshal(k.state)
	if err != nil {
		return fmt.Errorf("encode keeper: %w", err)
	}
	if k.state.saved == string(b) {
		return nil
	}
	k.state.Newest = m.Block
	if b, err = json.Marshal(k.state); err != nil {
		return fmt.Errorf("encode keeper: %w", err)
	}
	if err := replace(k.cfg.Path, b); err != nil {
		return fmt.Errorf("save keeper: %w", err)
	}
	k.state.saved = string(b)
	return nil
}

func replace(path string, b []byte) (err error) {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	renamed := false
	defer func() {
		if !renamed {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	if _, err = f.Write(b); err != nil {
		return errors.Join(err, f.Close())
	}
	if err = f.Sync(); err != nil {
		return errors.Join(err, f.Close())
	}
	if err = f.Close(); err != nil {
		return err
	}
	if err = os.Rename(f.Name(), path); err != nil {
		return err
	}
	renamed = true
	d, derr := os.Open(dir)
	if derr != nil {
		return fmt.Errorf("sync directory: %w", derr) // the new file stands
	}
	return errors.Join(d.Sync(), d.Close())
}
