package cli

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/internal/plain"
	"github.com/agon-arena/agon/ui/cli/config"
	"github.com/agon-arena/agon/ui/cli/output"
)

// Bounds on what is read to be signed or imported.
const (
	maxMessage = 16 << 20
	maxSecret  = 4 << 10
)

// keyInfo is a hotkey as `agon key` shows it. It holds no secret.
type keyInfo struct {
	Wallet    string `json:"wallet"`
	Hotkey    string `json:"hotkey"`
	SS58      string `json:"ss58"`
	PublicKey string `json:"public_key,omitempty"` // 64 hex digits
	Coldkey   string `json:"coldkey,omitempty"`
	Path      string `json:"path"`
	// Problem says why the key cannot be used.
	Problem string `json:"problem,omitempty"`
}

func (a *App) keyCmd() *cobra.Command {
	return a.noun(&cobra.Command{
		Use:   "key",
		Short: "Keys: the hotkeys that sign for you",
		Long: `Keys: the hotkeys that sign for you, in the wallet layout of the Bittensor tools
(~/.bittensor/wallets). No command here prints the secret of a stored key.`,
		Example: "  agon key new\n  agon key show",
	}, a.keyListCmd(), a.keyNewCmd(), a.keyImportCmd(), a.keyShowCmd(), a.keySignCmd(), a.keyVerifyCmd(), a.keyExportCmd(), a.keyAgentCmd())
}

// hotkeyNames lists the secret hotkey files of a wallet, sorted.
func hotkeyNames(w auth.Wallet) []string {
	entries, err := os.ReadDir(filepath.Dir(w.HotkeyPath()))
	if err != nil {
		return nil
	}
	var names []string
	for _, e := range entries {
		w.Hotkey = e.Name()
		if e.IsDir() || w.Validate() != nil {
			continue
		}
		names = append(names, e.Name())
	}
	sort.Strings(names)
	return names
}

func describeKey(w auth.Wallet) keyInfo {
	info := keyInfo{Wallet: w.Name, Hotkey: w.Hotkey, Path: w.HotkeyPath()}
	address, err := w.HotkeyAddress()
	if err != nil {
		info.Problem = err.Error()
		return info
	}
	info.SS58 = address
	if pub, err := auth.ParseSS58(address); err == nil {
		info.PublicKey = hex.EncodeToString(pub[:])
	}
	if cold, err := w.ColdkeyAddress(); err == nil {
		info.Coldkey = cold
	}
	return info
}

func keyHuman(h *output.Human, k keyInfo) {
	h.Fields([2]string{"wallet", k.Wallet}, [2]string{"hotkey", k.Hotkey}, [2]string{"address", k.SS58}, [2]string{"public key", k.PublicKey},
		[2]string{"coldkey", k.Coldkey}, [2]string{"file", k.Path}, [2]string{"problem", k.Problem})
}

func (a *App) keyListCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the hotkeys of every wallet",
		Long:    "List the hotkeys of every wallet. JSON: an array of {wallet, hotkey, ss58, public_key, coldkey, path}.",
		Example: "  agon key list\n  agon key list -o id",
		Args:    Args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.Config()
			if err != nil {
				return err
			}
			dir := c.Get(config.WalletPath)
			entries, err := os.ReadDir(dir)
			if err != nil && !os.IsNotExist(err) {
				return fmt.Errorf("read wallets: %w", err)
			}
			var keys []keyInfo
			for _, e := range entries {
				if !e.IsDir() {
					continue
				}
				w := auth.Wallet{Path: dir, Name: e.Name(), Hotkey: "default"}
				for _, name := range hotkeyNames(w) {
					w.Hotkey = name
					keys = append(keys, describeKey(w))
				}
			}
			return a.Printer.Print(cmd.Context(), output.List(keys, func(k keyInfo) string { return k.SS58 }, func(h *output.Human) {
				if len(keys) == 0 {
					h.Line("no hotkeys in %s; make one with `agon key new`", dir)
					return
				}
				rows := make([][]output.Cell, len(keys))
				for i, k := range keys {
					address := k.SS58
					if k.Problem != "" {
						address = k.Problem
					}
					rows[i] = []output.Cell{output.Text(k.Wallet), output.Text(k.Hotkey), output.Text(address)}
				}
				h.Table([]output.Column{{Title: "wallet", Min: 6}, {Title: "hotkey", Min: 6}, {Title: "address", Min: 8}}, rows)
			}))
		},
	}
}

type keyNewOptions struct {
	Hotkey      string
	Coldkey     string // address; "" = that of the wallet, or a new one
	Import      bool   // read the secret from stdin
	SaveColdkey bool
}

func (a *App) keyNewCmd() *cobra.Command {
	var o keyNewOptions
	cmd := &cobra.Command{
		Use:   "new [HOTKEY]",
		Short: "Make a hotkey, and the wallet around it",
		Long: `Make a hotkey of 12 words in the wallet in force; a key that is there is never replaced.

A wallet without a coldkey gets one. Its 12 words are shown once on a terminal and
only its address is kept, unless --save-coldkey writes it without a password.
A hotkey signs; it moves no funds. --import reads 12 to 24 words, a hex seed or a
URI such as //Alice from stdin.`,
		Example: "  agon key new\n  agon key new second --wallet.name me\n  agon key new alice --import <<< //Alice",
		Args:    Args(0, 1, "at most one hotkey name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				o.Hotkey = args[0]
			}
			return a.keyNew(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Coldkey, "coldkey", "", "`address` of the coldkey that owns it")
	f.BoolVar(&o.Import, "import", false, "read the hotkey's secret from stdin")
	f.BoolVar(&o.SaveColdkey, "save-coldkey", false, "write a new coldkey's secret too, without a password")
	cmd.MarkFlagsMutuallyExclusive("coldkey", "save-coldkey")
	return cmd
}

func (a *App) keyNew(ctx context.Context, o keyNewOptions) error {
	c, err := a.Config()
	if err != nil {
		return err
	}
	w := auth.Wallet{Path: c.Get(config.WalletPath), Name: c.Get(config.WalletName), Hotkey: c.Get(config.WalletHotkey)}
	if o.Hotkey != "" {
		w.Hotkey = o.Hotkey
	}
	if err := w.Validate(); err != nil {
		return output.Usage("", "choose another name", "%v", err)
	}
	if o.Coldkey != "" {
		if _, err := auth.ParseSS58(o.Coldkey); err != nil {
			return output.Usage("coldkey", "give an address such as 5Grw…", "--coldkey: %v", err)
		}
	}
	var key *auth.Key
	if o.Import {
		b, err := io.ReadAll(io.LimitReader(a.IO.In, maxSecret))
		if err != nil {
			return fmt.Errorf("read secret: %w", err)
		}
		if key, err = importKey(strings.TrimSpace(string(b))); err != nil {
			return err
		}
	} else if key, err = auth.NewKey(); err != nil {
		return err
	}
	// The hotkey first: if it is there already, nothing else may change.
	if err := w.CreateHotkey(key); err != nil {
		return err
	}
	if err := a.ensureColdkey(w, o); err != nil {
		return err
	}
	info := describeKey(w)
	return a.Printer.Print(ctx, output.Result{Value: info, IDs: []string{info.SS58}, Human: func(h *output.Human) { keyHuman(h, info) }})
}

// importKey makes a key of what a person keeps: words, a hex seed, or a URI.
// No error shows the secret.
func importKey(text string) (*auth.Key, error) {
	if f, err := auth.ParseKeyfile([]byte(text)); err == nil && f.Key != nil {
		return f.Key, nil
	}
	key, err := auth.KeyFromURI(text)
	if err != nil || text == "" { // an empty URI is the development phrase, which everybody knows
		return nil, output.Usage("import", "give 12 to 24 words, 64 hex digits, or a URI such as //Alice on stdin", "stdin holds no secret that agon knows")
	}
	return key, nil
}

// ensureColdkey gives the wallet a coldkey's address, so that it can be registered.
func (a *App) ensureColdkey(w auth.Wallet, o keyNewOptions) error {
	if o.Coldkey != "" {
		if have, err := w.ColdkeyAddress(); err == nil && have == o.Coldkey {
			return nil
		}
		return w.CreateColdkeyPub(o.Coldkey)
	}
	if _, err := w.ColdkeyAddress(); !errors.Is(err, auth.ErrKeyfileMissing) {
		return err
	}
	cold, err := auth.NewKey()
	if err != nil {
		return err
	}
	if o.SaveColdkey {
		a.IO.Notef("the coldkey is written without a password: whoever reads %s owns it", plain.Line(w.ColdkeyPath()))
		return w.CreateColdkey(cold)
	}
	if err := w.CreateColdkeyPub(cold.SS58()); err != nil {
		return err
	}
	if a.IO.ErrTTY() {
		a.IO.Notef("new coldkey %s; write its words down, they are shown once:\n\n  %s\n", cold.SS58(), cold.Phrase())
	} else {
		// No terminal: words would land in a log. Enough for a demo arena, where coldkeys own nothing.
		a.IO.Notef("new coldkey %s: only its address is kept (use --coldkey for one of yours, --save-coldkey to keep it)", cold.SS58())
	}
	return nil
}

func (a *App) keyShowCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "show [HOTKEY]",
		Short:   "Show a hotkey's address",
		Long:    "Show a hotkey's address. JSON: {wallet, hotkey, ss58, public_key, coldkey, path}.",
		Example: "  agon key show\n  agon key show second --jq .ss58",
		Args:    Args(0, 1, "at most one hotkey name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			w, err := a.wallet()
			if err != nil {
				return err
			}
			if len(args) == 1 {
				w.Hotkey = args[0]
			}
			if _, err := w.HotkeyAddress(); err != nil {
				return err
			}
			info := describeKey(w)
			return a.Printer.Print(cmd.Context(), output.Result{Value: info, IDs: []string{info.SS58}, Human: func(h *output.Human) { keyHuman(h, info) }})
		},
	}
}

// message is what sign and verify work on: the argument, or a file, or stdin for "-".
func (a *App) message(args []string, file string) ([]byte, error) {
	var r io.Reader
	switch {
	case len(args) == 1 && file != "":
		return nil, output.Usage("file", "give one of them", "a message and --file are given")
	case len(args) == 1 && args[0] != "-":
		return []byte(args[0]), nil
	case len(args) == 1 || file == "-":
		r = a.IO.In
	case file == "":
		return nil, output.Usage("", "give the message, --file PATH, or - for stdin", "the message is missing")
	default:
		f, err := os.Open(file)
		if err != nil {
			return nil, fmt.Errorf("read message: %w", err)
		}
		defer f.Close()
		r = f
	}
	b, err := io.ReadAll(io.LimitReader(r, maxMessage+1))
	if err != nil {
		return nil, fmt.Errorf("read message: %w", err)
	}
	if len(b) > maxMessage {
		return nil, tooLarge("the message", fmt.Sprintf("%d bytes", maxMessage))
	}
	return b, nil
}

func (a *App) keySignCmd() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:     "sign MESSAGE",
		Short:   "Sign a message with the hotkey in force",
		Long:    "Sign the bytes of a message with the hotkey in force (sr25519, context \"substrate\"). JSON: {ss58, signature}.",
		Example: "  agon key sign 'hello arena'\n  agon key sign --file report.json --jq .signature",
		Args:    Args(0, 1, "one message"),
		RunE: func(cmd *cobra.Command, args []string) error {
			msg, err := a.message(args, file)
			if err != nil {
				return err
			}
			key, err := a.Key()
			if err != nil {
				return err
			}
			sig, err := key.Sign(msg)
			if err != nil {
				return err
			}
			text := hex.EncodeToString(sig)
			return a.Printer.Print(cmd.Context(), output.Result{
				Value: map[string]string{"ss58": key.SS58(), "signature": text}, IDs: []string{text},
				Human: func(h *output.Human) { h.Line("%s", text) },
			})
		},
	}
	cmd.Flags().StringVar(&file, "file", "", "sign the bytes of this `file` (- for stdin)")
	return cmd
}

func (a *App) keyVerifyCmd() *cobra.Command {
	var file, address, signature string
	cmd := &cobra.Command{
		Use:     "verify MESSAGE --signature HEX [--address SS58]",
		Short:   "Check a signature over a message",
		Long:    "Check a signature over the bytes of a message. JSON: {ss58, ok}. Exit code 1 if it does not hold.",
		Example: "  agon key verify 'hello arena' --address 5Grw… --signature 407c…",
		Args:    Args(0, 1, "one message"),
		RunE: func(cmd *cobra.Command, args []string) error {
			sig, err := auth.ParseSignature(signature)
			if err != nil {
				return output.Usage("signature", "give 128 hex digits", "--signature: %v", err)
			}
			if address == "" {
				w, err := a.wallet()
				if err != nil {
					return err
				}
				if address, err = w.HotkeyAddress(); err != nil {
					return err
				}
			}
			if _, err := auth.ParseSS58(address); err != nil {
				return output.Usage("address", "give an address such as 5Grw…", "--address: %v", err)
			}
			msg, err := a.message(args, file)
			if err != nil {
				return err
			}
			err = auth.Verify(address, msg, sig)
			if err != nil && !errors.Is(err, auth.ErrBadSignature) {
				return err
			}
			ok := err == nil
			if err := a.Printer.Print(cmd.Context(), output.Result{Value: map[string]any{"ss58": address, "ok": ok}, Human: func(h *output.Human) {
				if ok {
					h.Line("ok: signed by %s", address)
				} else {
					h.Line("the signature does not hold for %s", address)
				}
			}}); err != nil {
				return err
			}
			if !ok {
				return &Exit{Code: CodeFailed}
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&file, "file", "", "check the bytes of this `file` (- for stdin)")
	f.StringVar(&address, "address", "", "the signer's `address` (default: the hotkey in force)")
	f.StringVar(&signature, "signature", "", "the signature, 128 `hex` digits")
	return cmd
}
