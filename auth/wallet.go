package auth

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Wallet names one hotkey of one wallet in the layout of the Bittensor tools:
//
//	PATH/NAME/coldkey, PATH/NAME/coldkeypub.txt,
//	PATH/NAME/hotkeys/HOTKEY, PATH/NAME/hotkeys/HOTKEYpub.txt
type Wallet struct {
	Path   string // directory of all wallets
	Name   string
	Hotkey string
}

// WalletFromEnv returns the wallet that the environment names. AGON_WALLET_*
// goes before BT_WALLET_* (PATH, NAME, HOTKEY), then before the short names
// WALLET_NAME and WALLET_HOTKEY; the default is ~/.bittensor/wallets, default,
// default. A leading ~ is the home directory.
func WalletFromEnv(getenv func(string) string) Wallet {
	first := func(def string, names ...string) string {
		for _, n := range names {
			if v := getenv(n); v != "" {
				return v
			}
		}
		return def
	}
	path := first("~/.bittensor/wallets", "AGON_WALLET_PATH", "BT_WALLET_PATH")
	if rest, ok := strings.CutPrefix(path, "~"); ok && (rest == "" || rest[0] == '/') {
		if home := getenv("HOME"); home != "" {
			path = home + rest
		}
	}
	return Wallet{
		Path:   filepath.Clean(path),
		Name:   first("default", "AGON_WALLET_NAME", "BT_WALLET_NAME", "WALLET_NAME"),
		Hotkey: first("default", "AGON_WALLET_HOTKEY", "BT_WALLET_HOTKEY", "WALLET_HOTKEY"),
	}
}

// Dir is the wallet's directory.
func (w Wallet) Dir() string { return filepath.Join(w.Path, w.Name) }

// HotkeyPath is the secret hotkey file.
func (w Wallet) HotkeyPath() string { return filepath.Join(w.Dir(), hotkeysDir, w.Hotkey) }

// HotkeyPubPath is the public hotkey file, which older wallets do not have.
func (w Wallet) HotkeyPubPath() string { return w.HotkeyPath() + "pub.txt" }

// Names that every wallet has.
const (
	coldkeyFile    = "coldkey" // secret
	coldkeyPubFile = "coldkeypub.txt"
	hotkeysDir     = "hotkeys"
)

// ColdkeyPath is the secret coldkey file.
func (w Wallet) ColdkeyPath() string { return filepath.Join(w.Dir(), coldkeyFile) }

// ColdkeyPubPath is the public coldkey file.
func (w Wallet) ColdkeyPubPath() string { return filepath.Join(w.Dir(), coldkeyPubFile) }

// Validate refuses names that would leave the wallet's directory.
func (w Wallet) Validate() error {
	if w.Path == "" {
		return errors.New("wallet path is empty")
	}
	for _, n := range []struct{ what, name string }{{"wallet name", w.Name}, {"hotkey name", w.Hotkey}} {
		switch {
		case n.name == "" || len(n.name) > 64:
			return fmt.Errorf("%s %q: want 1 to 64 bytes", n.what, n.name)
		case strings.ContainsAny(n.name, "/\\\x00") || strings.HasPrefix(n.name, "."):
			return fmt.Errorf("%s %q: no slash, and no dot in front", n.what, n.name)
		}
	}
	if w.Hotkey == coldkeyFile {
		return fmt.Errorf("hotkey name %q: that is the name of coldkey files", w.Hotkey)
	}
	if strings.HasSuffix(w.Hotkey, "pub.txt") {
		return fmt.Errorf("hotkey name %q: names that end in pub.txt are public files", w.Hotkey)
	}
	return nil
}

// LoadHotkey reads the secret hotkey. The errors are ErrKeyfileMissing,
// ErrKeyfileOpen (with the mend), ErrKeyfileEncrypted, ErrPublicOnly, or say
// what is wrong with the file.
func (w Wallet) LoadHotkey() (*Key, error) {
	if err := w.Validate(); err != nil {
		return nil, err
	}
	return LoadKeyfile(w.HotkeyPath())
}

// HotkeyAddress returns the hotkey's address from the public file, or from the
// secret one where there is no public file.
func (w Wallet) HotkeyAddress() (string, error) {
	if err := w.Validate(); err != nil {
		return "", err
	}
	address, err := loadAddress(w.HotkeyPubPath())
	if !errors.Is(err, ErrKeyfileMissing) {
		return address, err
	}
	key, err := LoadKeyfile(w.HotkeyPath())
	if err != nil {
		return "", err
	}
	return key.SS58(), nil
}

// ColdkeyAddress returns the coldkey's address from coldkeypub.txt. The secret
// coldkey is never opened.
func (w Wallet) ColdkeyAddress() (string, error) {
	if err := w.Validate(); err != nil {
		return "", err
	}
	return loadAddress(w.ColdkeyPubPath())
}

// CreateHotkey writes the secret and the public hotkey file, durably. It
// refuses to replace another hotkey (ErrKeyfileExists).
func (w Wallet) CreateHotkey(k *Key) error {
	if err := w.Validate(); err != nil {
		return err
	}
	secret, err := secretJSON(k)
	if err != nil {
		return err
	}
	public, err := publicJSON(k.Public())
	if err != nil {
		return err
	}
	if err := createFile(w.HotkeyPath(), secret); err != nil {
		return err
	}
	// The secret file decides who the hotkey is: a stale public file is replaced.
	return replaceFile(w.HotkeyPubPath(), public)
}

// CreateColdkeyPub writes coldkeypub.txt, durably: all that a host which never
// moves funds needs. It refuses to replace another coldkey (ErrKeyfileExists).
func (w Wallet) CreateColdkeyPub(address string) error {
	if err := w.Validate(); err != nil {
		return err
	}
	pub, err := ParseSS58(address)
	if err != nil {
		return err
	}
	public, err := publicJSON(pub)
	if err != nil {
		return err
	}
	return createFile(w.ColdkeyPubPath(), public)
}

// CreateColdkey writes the coldkey without encryption and coldkeypub.txt. Ask
// before: a stolen file is a stolen wallet.
func (w Wallet) CreateColdkey(k *Key) error {
	secret, err := secretJSON(k)
	if err != nil {
		return err
	}
	if err := w.CreateColdkeyPub(k.SS58()); err != nil {
		return err
	}
	return createFile(w.ColdkeyPath(), secret)
}

// SubnetFromEnv returns the network and subnet that the environment names:
// AGON_NETWORK and AGON_NETUID, then NETWORK and NETUID. ok is false where no
// subnet is named; an empty network is up to the caller.
func SubnetFromEnv(getenv func(string) string) (network string, netuid uint16, ok bool, err error) {
	if network = getenv("AGON_NETWORK"); network == "" {
		network = getenv("NETWORK")
	}
	for _, name := range []string{"AGON_NETUID", "NETUID"} {
		if value := getenv(name); value != "" {
			n, err := strconv.ParseUint(value, 10, 16)
			if err != nil {
				return "", 0, false, fmt.Errorf("environment variable %s: want a number from 0 to 65535", name)
			}
			return network, uint16(n), true, nil
		}
	}
	return network, 0, false, nil
}

// ReadKeyfile reads the bytes of a secret keyfile, at most 64 KiB. A file that
// group or others may read is refused (ErrKeyfileOpen) before its content is looked at.
func ReadKeyfile(path string) ([]byte, error) { return readKeyfile(path, true) }

// LoadKeyfile reads a secret keyfile. A file that group or others may read is
// refused before its content is looked at, and so is a coldkey (ErrColdkey):
// package coldkey opens those, for people at a terminal.
func LoadKeyfile(path string) (*Key, error) {
	if err := refuseColdkey(path); err != nil {
		return nil, err
	}
	b, err := readKeyfile(path, true)
	if err != nil {
		return nil, err
	}
	f, err := ParseKeyfile(b)
	if err != nil {
		return nil, fmt.Errorf("read keyfile %s: %w", path, err)
	}
	if f.Key == nil {
		return nil, fmt.Errorf("read keyfile %s: %w", path, ErrPublicOnly)
	}
	if err := refuseCopy(path, f.Public); err != nil {
		return nil, err
	}
	return f.Key, nil
}

// refuseCopy refuses a key whose address is that of the wallet's coldkeypub.txt:
// a coldkey copied below hotkeys/ under another name, which would sign for
// funds where only a hotkey is expected. It looks beside the file as it is named
// and as it is stored. A wallet without a public coldkey file says nothing.
func refuseCopy(path string, public [32]byte) error {
	paths := []string{path}
	if real, err := filepath.EvalSymlinks(path); err == nil && real != path {
		paths = append(paths, real)
	}
	for _, p := range paths {
		dir := filepath.Dir(p)
		if filepath.Base(dir) != hotkeysDir {
			continue
		}
		file := filepath.Join(filepath.Dir(dir), coldkeyPubFile)
		b, err := readKeyfile(file, false)
		if errors.Is(err, ErrKeyfileMissing) {
			continue
		}
		if err != nil {
			return fmt.Errorf("compare with the wallet's coldkey: %w", err)
		}
		f, err := ParseKeyfile(b)
		if err != nil {
			return fmt.Errorf("compare with the wallet's coldkey: read keyfile %s: %w", file, err)
		}
		if f.Public == public {
			return fmt.Errorf("read keyfile %s: it holds the key of %s: %w", path, file, ErrColdkey)
		}
	}
	return nil
}

// refuseColdkey refuses a path that is, or leads to, a coldkey file.
func refuseColdkey(path string) error {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		real = path // reading it will say why
	}
	if filepath.Base(path) == coldkeyFile || filepath.Base(real) == coldkeyFile {
		return fmt.Errorf("read keyfile %s: %w", path, ErrColdkey)
	}
	return nil
}

func loadAddress(path string) (string, error) {
	b, err := readKeyfile(path, false)
	if err != nil {
		return "", err
	}
	f, err := ParseKeyfile(b)
	if err != nil {
		return "", fmt.Errorf("read keyfile %s: %w", path, err)
	}
	return f.Address, nil
}

func readKeyfile(path string, secret bool) ([]byte, error) {
	// Looked at before it is opened: opening a fifo would block.
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("read keyfile %s: %w", path, ErrKeyfileMissing)
	case err != nil:
		return nil, fmt.Errorf("read keyfile: %w", err)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("read keyfile %s: not a regular file", path)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read keyfile: %w", err)
	}
	defer file.Close()
	if info, err = file.Stat(); err != nil {
		return nil, fmt.Errorf("read keyfile: %w", err)
	}
	if mode := info.Mode().Perm(); secret && mode&0o077 != 0 {
		return nil, fmt.Errorf("%w: %s has mode %04o: run chmod 600 %s", ErrKeyfileOpen, path, mode, path)
	}
	b, err := io.ReadAll(io.LimitReader(file, maxKeyfile+1))
	if err != nil {
		return nil, fmt.Errorf("read keyfile: %w", err)
	}
	if len(b) > maxKeyfile {
		return nil, fmt.Errorf("read keyfile %s: larger than %d bytes", path, maxKeyfile)
	}
	return b, nil
}

// createFile writes a new file of mode 0600 with all its bytes or not at all.
// Link, unlike rename, never replaces what another process made meanwhile.
func createFile(path string, b []byte) error {
	return writeFile(path, b, func(temp string) error {
		err := os.Link(temp, path)
		if errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("%w: %s", ErrKeyfileExists, path)
		}
		return err
	})
}

// replaceFile writes a file of mode 0600; readers see the old or the new one.
func replaceFile(path string, b []byte) error {
	return writeFile(path, b, func(temp string) error { return os.Rename(temp, path) })
}

func writeFile(path string, b []byte, publish func(temp string) error) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make wallet directory: %w", err)
	}
	temp, err := os.CreateTemp(dir, ".agon-key-*") // mode 0600 from the start
	if err != nil {
		return fmt.Errorf("write keyfile: %w", err)
	}
	defer os.Remove(temp.Name()) // after a rename there is nothing left to remove
	_, err = temp.Write(b)
	if err == nil {
		err = temp.Sync()
	}
	if cerr := temp.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = publish(temp.Name())
	}
	if err != nil {
		return fmt.Errorf("write keyfile: %w", err)
	}
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync wallet directory: %w", err)
	}
	defer d.Close()
	if err := d.Sync(); err != nil {
		return fmt.Errorf("sync wallet directory: %w", err)
	}
	return nil
}
