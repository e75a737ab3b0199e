package gateway

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth"
)

// maxSuccessions bounds how often a gateway's key has changed.
const maxSuccessions = 100

func successionText(s agon.Succession) []byte {
	return []byte("agon-gateway-succession-v1\n" + s.Old + "\n" + s.New + "\n" + strconv.FormatInt(s.At.UnixMilli(), 10))
}

// Succeed makes the statement that next signs from now on: old says so, and
// next shows that its holder has it.
func Succeed(old, next *auth.Key, at time.Time) (agon.Succession, error) {
	s := agon.Succession{Old: old.SS58(), New: next.SS58(), At: at.UTC().Truncate(time.Millisecond)}
	one, err1 := old.Sign(successionText(s))
	two, err2 := next.Sign(successionText(s))
	if err := errors.Join(err1, err2); err != nil {
		return s, fmt.Errorf("sign succession: %w", err)
	}
	s.OldSig, s.NewSig = hex.EncodeToString(one), hex.EncodeToString(two)
	return s, nil
}

// CheckSuccession checks both signatures.
func CheckSuccession(s agon.Succession) error {
	if s.Old == s.New {
		return errors.New("the succession names one key twice")
	}
	for _, x := range []struct{ field, key, sig string }{{"old", s.Old, s.OldSig}, {"new", s.New, s.NewSig}} {
		pub, err := auth.ParseSS58(x.key)
		if err != nil {
			return fmt.Errorf("%s: %w", x.field, err)
		}
		sig, err := hex.DecodeString(x.sig)
		if err != nil || len(sig) != auth.SignatureSize {
			return fmt.Errorf("%s_sig is not 128 hex digits", x.field)
		}
		if err := auth.VerifyPublic(auth.Ed25519, pub, successionText(s), sig); err != nil {
			return fmt.Errorf("%s_sig: %w", x.field, err)
		}
	}
	return nil
}

// Follows reports whether signed successions lead from one key to another.
func Follows(from, to string, list []agon.Succession) bool {
	for range min(len(list), maxSuccessions) + 1 {
		if from == to {
			return true
		}
		i := slices.IndexFunc(list, func(s agon.Succession) bool { return s.Old == from && CheckSuccession(s) == nil })
		if i < 0 {
			return false
		}
		from = list[i].New
	}
	return false
}

// KeyFile is the gateway's key in its directory.
const KeyFile = "gateway.key"

const (
	nextFile        = "gateway.key.next"
	successionsFile = "gateway.successions"
)

// Successions reads how the key in dir came about, oldest first.
func Successions(dir string) ([]agon.Succession, error) {
	b, err := os.ReadFile(filepath.Join(dir, successionsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read successions: %w", err)
	}
	var list []agon.Succession
	if err := json.Unmarshal(b, &list); err != nil {
		return nil, fmt.Errorf("read successions: %s: %w", successionsFile, err)
	}
	if len(list) > maxSuccessions {
		return nil, fmt.Errorf("read successions: %s holds %d: at most %d", successionsFile, len(list), maxSuccessions)
	}
	for i, s := range list {
		if err := CheckSuccession(s); err != nil {
			return nil, fmt.Errorf("read successions: number %d: %w", i+1, err)
		}
	}
	return list, nil
}

// OpenKey is LoadKey in dir; a rotation that was cut short is finished first.
func OpenKey(dir string) (*auth.Key, []agon.Succession, error) {
	list, err := Successions(dir)
	if err != nil {
		return nil, nil, err
	}
	if err := finish(dir, list); err != nil {
		return nil, nil, err
	}
	k, err := LoadKey(filepath.Join(dir, KeyFile))
	if err != nil {
		return nil, nil, err
	}
	if n := len(list); n > 0 && list[n-1].New != k.SS58() {
		return nil, nil, fmt.Errorf("read gateway key: %s is %s, the last succession names %s", KeyFile, k.SS58(), list[n-1].New)
	}
	return k, list, nil
}

// RotateKey gives the gateway in dir a new key; it must not run. What the old
// key signed stays good. The new key is on disk before the old one names it,
// and the succession before the new key is in force: a crash loses neither.
func RotateKey(dir string, now time.Time) (agon.Succession, error) {
	old, list, err := OpenKey(dir)
	if err != nil {
		return agon.Succession{}, err
	}
	if len(list) == maxSuccessions {
		return agon.Succession{}, fmt.Errorf("rotate gateway key: it has changed %d times, which is the most", maxSuccessions)
	}
	if err := os.Remove(filepath.Join(dir, nextFile)); err != nil && !errors.Is(err, fs.ErrNotExist) { // of a rotation that nobody has heard of
		return agon.Succession{}, fmt.Errorf("rotate gateway key: %w", err)
	}
	next, err := makeKey(filepath.Join(dir, nextFile))
	if err != nil {
		return agon.Succession{}, err
	}
	s, err := Succeed(old, next, now)
	if err != nil {
		return s, err
	}
	b, err := json.MarshalIndent(append(list, s), "", " ")
	if err != nil {
		return s, fmt.Errorf("rotate gateway key: %w", err)
	}
	if err := replace(filepath.Join(dir, successionsFile), b); err != nil {
		return s, fmt.Errorf("rotate gateway key: %w", err)
	}
	return s, finish(dir, append(list, s))
}

// finish puts the next key in force if the last succession names it.
func finish(dir string, list []agon.Succession) error {
	at := filepath.Join(dir, nextFile)
	if _, err := os.Lstat(at); errors.Is(err, fs.ErrNotExist) || len(list) == 0 {
		return nil
	}
	next, err := LoadKey(at)
	if err != nil || next.SS58() != list[len(list)-1].New {
		return err
	}
	if err := os.Rename(at, filepath.Join(dir, KeyFile)); err != nil {
		return fmt.Errorf("rotate gateway key: %w", err)
	}
	return syncDir(dir)
}

// replace writes a small file whole or not at all, 0600.
func replace(path string, b []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // gone after the rename
	_, err = f.Write(append(b, '\n'))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
