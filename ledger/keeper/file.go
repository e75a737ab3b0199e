package keeper

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/ledger"
)

// state is the keeper's file.
type state struct {
	Version  int       `json:"version"`
	Genesis  string    `json:"genesis,omitempty"`
	Netuid   uint16    `json:"netuid"`
	Hotkey   string    `json:"hotkey"`
	Newest   uint64    `json:"newest"` // block
	Given    mark      `json:"given"`
	Tried    uint64    `json:"tried"` // block of a call whose answer is not known; 0 = none
	Promises []promise `json:"promises"`
	// Mechanism is that of the weights; files of before have the first.
	Mechanism uint8 `json:"mechanism,omitempty"`

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
	// Until is the first block that can hold its extrinsic no more.
	Until uint64 `json:"until,omitempty"`
	// Seen says that the ledger had it in a block that stays, Refused that its call was refused, Told
	// that its reveal was reported.
	Seen    bool `json:"seen,omitempty"`
	Refused bool `json:"refused,omitempty"`
	Told    bool `json:"told,omitempty"`
	// Gone is the block in which it was first seen to wait no more; 0 = it waits.
	Gone uint64 `json:"gone,omitempty"`
	// Revealed is the block at which it was revealed last; 0 = never.
	Revealed uint64 `json:"revealed,omitempty"`
	// Sealed is what was committed where the ledger opens it by itself.
	Sealed *ledger.Sealed `json:"sealed,omitempty"`
}

// until is Until; a file of an earlier version has none.
func (p *promise) until() uint64 {
	if p.Until == 0 {
		return p.Tried + oldLife
	}
	return p.Until
}

// has reports whether a promise of an epoch reached the ledger.
func (s *state) has(epoch uint64) bool {
	return slices.ContainsFunc(s.Promises, func(p promise) bool { return p.Epoch == epoch && p.Seen })
}

// forget drops the oldest refused promises above maxRefused.
func (s *state) forget() {
	over := -maxRefused
	for _, p := range s.Promises {
		if p.Refused {
			over++
		}
	}
	s.Promises = slices.DeleteFunc(s.Promises, func(p promise) bool {
		if !p.Refused || p.Seen || over <= 0 {
			return false
		}
		over--
		return true
	})
}

// File is the name of the file of a hotkey's state: promises of one chain,
// subnet, mechanism and hotkey belong nowhere else. genesis is the hash of the
// chain's block 0, or another name of the ledger.
func File(genesis string, netuid uint16, mechanism uint8, hotkey string) string {
	sum := sha256.Sum256([]byte(genesis))
	return fmt.Sprintf("%x-%d-%d-%s.json", sum[:8], netuid, mechanism, hotkey)
}

// lock keeps other processes from the file for one tick.
func (k *Keeper) lock() (unlock func() error, err error) {
	f, err := os.OpenFile(k.cfg.Path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock keeper: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		err = errors.Join(err, f.Close())
		return nil, &agon.Error{Code: "keeper_busy", Status: http.StatusConflict, Message: "another process gives the weights of " + k.cfg.Hotkey + " now", Mend: "wait for it and run this again", Err: err}
	}
	return func() error {
		// Closing alone leaves the lock to a child that another goroutine has just
		// forked and that has not yet become its program: the next tick would meet it.
		return errors.Join(unix.Flock(int(f.Fd()), unix.LOCK_UN), f.Close())
	}, nil
}

const (
	// oldLife is how many blocks an extrinsic of an earlier version could live.
	oldLife  = 128 + 32
	version  = 1
	maxState = 64 << 20 // bytes
)

func (k *Keeper) load() error {
	fresh := state{Version: version, Genesis: k.cfg.Genesis, Netuid: k.cfg.Netuid, Mechanism: k.cfg.Mechanism, Hotkey: k.cfg.Hotkey}
	s, err := k.read(k.cfg.Path)
	if errors.Is(err, fs.ErrNotExist) && k.cfg.Old != "" {
		// What the old file knows of blocks may be of another chain: only its promises count.
		var old *state
		if old, err = k.read(k.cfg.Old); err == nil {
			fresh.Promises = old.Promises
			k.state = fresh
			return nil
		}
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		k.state = fresh
		return nil
	case err != nil:
		return err
	case s.Genesis != "" && s.Genesis != k.cfg.Genesis:
		return fmt.Errorf("read keeper %s: it is of the chain with genesis %s", k.cfg.Path, s.Genesis)
	}
	s.Genesis = k.cfg.Genesis
	k.state = *s
	return nil
}

// read reads the state in a file of this keeper's subnet and hotkey.
func (k *Keeper) read(path string) (*state, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open keeper: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxState+1))
	if err != nil {
		return nil, fmt.Errorf("read keeper: %w", err)
	}
	var s state
	if len(b) > maxState {
		return nil, fmt.Errorf("read keeper %s: over %d bytes", path, maxState)
	}
	if err := json.Unmarshal(b, &s); err != nil {
		return nil, fmt.Errorf("read keeper %s: %w", path, err)
	}
	switch {
	case s.Version != version:
		return nil, fmt.Errorf("read keeper %s: version %d, this one knows %d", path, s.Version, version)
	case s.Netuid != k.cfg.Netuid || s.Mechanism != k.cfg.Mechanism || s.Hotkey != k.cfg.Hotkey:
		return nil, fmt.Errorf("read keeper %s: it is of %s on mechanism %d of subnet %d", path, s.Hotkey, s.Mechanism, s.Netuid)
	}
	s.saved = string(b)
	return &s, nil
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
