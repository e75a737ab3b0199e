package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/auth/agent"
	"github.com/agon-arena/agon/auth/coldkey"
	"github.com/agon-arena/agon/internal/plain"
	"github.com/agon-arena/agon/ui/cli/config"
	"github.com/agon-arena/agon/ui/cli/output"
)

// maxImport bounds a file to import, in bytes.
const maxImport = 64 << 10

// signer returns what signs as the hotkey in force: the agent that
// AGON_KEY_AGENT names, or the keyfile, unlocked at most once.
func (a *App) signer() (auth.Signer, error) {
	w, err := a.wallet()
	if err != nil {
		return nil, err
	}
	if socket := a.Env.Getenv(agent.EnvSocket); socket != "" {
		address, err := w.HotkeyAddress()
		if errors.Is(err, auth.ErrKeyfileMissing) {
			address, err = "", nil // this host has no wallet: the agent's only key is meant
		}
		if err != nil {
			return nil, err
		}
		over, err := a.Over()
		if err != nil {
			return nil, err
		}
		return agent.Dial(socket, address, over)
	}
	if err := w.Validate(); err != nil {
		return nil, err
	}
	key, err := a.unlocker().Key(w.HotkeyPath())
	if errors.Is(err, auth.ErrKeyfileMissing) {
		return nil, &agon.Error{Code: "no_key", Status: 401, Message: fmt.Sprintf("no key at %s", w.HotkeyPath()), Mend: a.otherKey(w), Err: err}
	}
	if err != nil {
		return nil, err
	}
	return key, nil
}

// otherKey says which key may be meant where w has none. A new key is the
// answer only where no key of that name is to be had: a new one is never the
// operator's, and holds no permit.
func (a *App) otherKey(w auth.Wallet) string {
	if c, err := a.Config(); err == nil {
		near := auth.Wallet{Path: filepath.Join(c.Get(config.Data), "wallets"), Name: w.Name, Hotkey: w.Hotkey}
		if _, err := os.Stat(near.HotkeyPath()); err == nil && near.Path != w.Path {
			return "the server of this machine keeps that wallet: add --wallet.path " + near.Path
		}
	}
	switch names := hotkeyNames(w); {
	case len(names) > 0:
		return "name one of this wallet's hotkeys with --wallet.hotkey: " + strings.Join(names, ", ")
	case w.Name == "operator" || w.Name == "validator":
		return "a server makes this wallet at its first start, in wallets/ of its data directory: add --wallet.path DATA/wallets"
	}
	if w.Name != defaultKeyName && w.Hotkey == defaultKeyName { // after agon key new NAME, many name it as a wallet
		named := auth.Wallet{Path: w.Path, Name: defaultKeyName, Hotkey: w.Name}
		if _, err := os.Stat(named.HotkeyPath()); err == nil {
			return fmt.Sprintf("%s is a hotkey of the wallet %s: write --wallet.hotkey %s in place of --wallet.name", w.Name, defaultKeyName, w.Name)
		}
	}
	return fmt.Sprintf("make it with `agon key new%s`, or name another with --wallet.name and --wallet.hotkey", newArgs(w))
}

// newArgs are the arguments with which `agon key new` makes the hotkey of w.
func newArgs(w auth.Wallet) (s string) {
	if w.Hotkey != defaultKeyName {
		s += " " + w.Hotkey
	}
	if w.Name != defaultKeyName {
		s += " --wallet.name " + w.Name
	}
	return s
}

// defaultKeyName is how wallets and hotkeys are called that nobody named.
const defaultKeyName = "default"

// unlocker asks the environment and then the person at the terminal, if there is one.
func (a *App) unlocker() *auth.Unlocker {
	u := &auth.Unlocker{Getenv: a.Env.Getenv}
	if a.IO.InTTY() && a.IO.ErrTTY() {
		u.Ask = a.askPassword
	}
	return u
}

// askPassword reads a password from the terminal without showing it.
func (a *App) askPassword(path string) (string, error) {
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return "", fmt.Errorf("open terminal: %w", err)
	}
	defer tty.Close()
	fmt.Fprintf(tty, "password of %s: ", plain.Line(path))
	b, err := term.ReadPassword(int(tty.Fd()))
	fmt.Fprintln(tty)
	if err != nil {
		return "", fmt.Errorf("read password: %w", err)
	}
	return string(b), nil
}

type keyImportOptions struct {
	keyNewOptions
	File         string
	PasswordFile string
}

func (a *App) keyImportCmd() *cobra.Command {
	var o keyImportOptions
	cmd := &cobra.Command{
		Use:   "import FILE [HOTKEY]",
		Short: "Import a key of any known form as a hotkey",
		Long: `Import a key as a hotkey of the wallet in force; a key that is there is never replaced.

FILE (- for stdin) holds 12 to 24 words, a hex seed or private key, a URI such as
//Alice, a keyfile of the Bittensor tools, encrypted or not, or the JSON that
polkadot.js and browser wallets export (sr25519). The password of an encrypted file
comes from --password-file, from the variable of the Bittensor tools (BT_PW_…), or
is asked for on the terminal. The hotkey is written without a password.`,
		Example: "  agon key import ~/Downloads/5Grw.json miner\n  agon key import words.txt --wallet.name me",
		Args:    Args(1, 2, "a file, and at most one hotkey name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.File = args[0]
			if len(args) == 2 {
				o.Hotkey = args[1]
			}
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
			key, err := a.readSecret(o)
			if err != nil {
				return err
			}
			if err := w.CreateHotkey(key); err != nil {
				return err
			}
			if err := a.ensureColdkey(w, o.keyNewOptions); err != nil {
				return err
			}
			info := describeKey(w)
			return a.Printer.Print(cmd.Context(), output.Result{Value: info, IDs: []string{info.SS58}, Human: func(h *output.Human) { keyHuman(h, info) }})
		},
	}
	cmd.Flags().StringVar(&o.PasswordFile, "password-file", "", "`file` whose first line is the password")
	cmd.Flags().StringVar(&o.Coldkey, "coldkey", "", "`address` of the coldkey that owns it")
	return cmd
}

// readSecret makes a key of the file in whatever form it is. No error shows the secret.
func (a *App) readSecret(o keyImportOptions) (*auth.Key, error) {
	var b []byte
	var err error
	path := ""
	if o.File == "-" {
		b, err = io.ReadAll(io.LimitReader(a.IO.In, maxImport+1))
	} else {
		if path, err = filepath.Abs(o.File); err == nil {
			b, err = readLimited(path, maxImport)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read secret: %w", err)
	}
	if len(b) > maxImport {
		return nil, tooLarge("the file", fmt.Sprintf("%d bytes", maxImport))
	}
	f, err := auth.ParseKeyfile(b)
	switch {
	case err == nil && f.Key == nil:
		return nil, auth.ErrPublicOnly
	case err == nil:
		return f.Key, nil
	case errors.Is(err, auth.ErrKeyfileEncrypted):
		password, err := a.importPassword(o, path)
		if err != nil {
			return nil, err
		}
		plain, err := auth.DecryptKeyfile(b, password)
		if err != nil {
			return nil, err
		}
		return importKey(strings.TrimSpace(string(plain)))
	case isPolkadotExport(b):
		if key, err := auth.ParsePolkadotExport(b, ""); err == nil {
			return key, nil // exported without a password
		}
		password, err := a.importPassword(o, path)
		if err != nil {
			return nil, err
		}
		return auth.ParsePolkadotExport(b, password)
	case len(b) > 0 && strings.TrimSpace(string(b))[:1] == "{":
		return nil, err // a keyfile, and what is wrong with it
	default:
		return importKey(strings.TrimSpace(string(b)))
	}
}

// isPolkadotExport tells an export from a keyfile by its field.
func isPolkadotExport(b []byte) bool {
	var f struct {
		Encoded  string          `json:"encoded"`
		Encoding json.RawMessage `json:"encoding"`
	}
	return json.Unmarshal(b, &f) == nil && f.Encoded != "" && f.Encoding != nil
}

// readLimited reads at most limit+1 bytes.
func readLimited(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, limit+1))
}

func (a *App) importPassword(o keyImportOptions, path string) (string, error) {
	if o.PasswordFile != "" {
		b, err := readLimited(o.PasswordFile, maxSecret)
		if err != nil {
			return "", fmt.Errorf("read password: %w", err)
		}
		line, _, _ := strings.Cut(string(b), "\n")
		return strings.TrimSuffix(line, "\r"), nil
	}
	if path != "" {
		if password, ok, err := auth.PasswordFromEnv(a.Env.Getenv, path); ok || err != nil {
			return password, err
		}
	}
	if !a.IO.InTTY() || !a.IO.ErrTTY() {
		return "", output.Usage("password-file", "give --password-file", "the key is encrypted, and there is no terminal to ask for its password")
	}
	return a.askPassword(path)
}

// publicKey is the public file of a key, with the names that wallets give its fields.
type publicKey struct {
	AccountID string `json:"accountId"`
	PublicKey string `json:"publicKey"`
	SS58      string `json:"ss58Address"`
}

func (a *App) keyExportCmd() *cobra.Command {
	var coldkey bool
	cmd := &cobra.Command{
		Use:   "export-public [HOTKEY]",
		Short: "Print the public file of a key, as wallets write it",
		Long: `Print the public file of a hotkey, or of the wallet's coldkey with --coldkey: what a
host needs that shall know the key but not sign with it.
JSON: {accountId, publicKey, ss58Address}, the content of HOTKEYpub.txt and coldkeypub.txt.`,
		Example: "  agon key export-public > miner.pub.json\n  agon key export-public --coldkey",
		Args:    Args(0, 1, "at most one hotkey name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			w, err := a.wallet()
			if err != nil {
				return err
			}
			if len(args) == 1 {
				w.Hotkey = args[0]
			}
			address, err := w.HotkeyAddress()
			if coldkey {
				address, err = w.ColdkeyAddress()
			}
			if err != nil {
				return err
			}
			pub, err := auth.ParseSS58(address)
			if err != nil {
				return err
			}
			p := publicKey{AccountID: fmt.Sprintf("0x%x", pub), PublicKey: fmt.Sprintf("0x%x", pub), SS58: address}
			return a.Printer.Print(cmd.Context(), output.Result{Value: p, IDs: []string{p.SS58}, Human: func(h *output.Human) {
				h.Fields([2]string{"address", p.SS58}, [2]string{"public key", p.PublicKey})
			}})
		},
	}
	cmd.Flags().BoolVar(&coldkey, "coldkey", false, "the wallet's coldkey")
	return cmd
}

// agentSocket is the socket where none is named.
func (a *App) agentSocket() string {
	if s := a.Env.Getenv(agent.EnvSocket); s != "" {
		return s
	}
	if dir := a.Env.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		return filepath.Join(dir, "agon", "key-agent.sock")
	}
	return filepath.Join(a.Env.Home, ".agon", "run", "key-agent.sock")
}

// coldAgent puts the wallet's coldkey into an agent. The policy lists what it signs:
// a coldkey owns money.
func (a *App) coldAgent(c *agent.Config, w auth.Wallet, socket string, args []string) error {
	switch {
	case len(args) > 0:
		return output.Usage("coldkey", "leave the names out", "a coldkey's agent signs for no hotkeys")
	case socket == "":
		return output.Usage("socket", "name it with --socket, and in AGON_COLDKEY_AGENT", "a coldkey's agent has a socket of its own")
	case !c.Policy.Calls():
		return output.Usage("allow", "name calls, such as --allow 5.3=2.5, and the chain with --genesis", "a coldkey's agent signs only listed calls on named chains")
	}
	k, err := coldkey.Open(w, func(path string) (string, error) { return a.importPassword(keyImportOptions{}, path) })
	if err != nil {
		return err
	}
	c.Keys = append(c.Keys, coldSigner{k})
	return nil
}

// portOptions are an agent's port, for machines of a fleet.
type portOptions struct{ listen, clients, audit string }

func portFlags(cmd *cobra.Command, o *portOptions) {
	cmd.Flags().StringVar(&o.listen, "listen", "", "sign on this `address` for other machines, over mutual TLS, in place of the socket")
	cmd.Flags().StringVar(&o.clients, "clients", "", "TOML `file` of the names that may ask there, and what is signed for each")
	cmd.Flags().StringVar(&o.audit, "audit", "", "append a line of JSON to this `file` for each signature")
	tlsFlags(cmd, "callers")
}

// open listens on the port for the clients that the file names.
func (o portOptions) open(a *App, c *agent.Config, socket string) (net.Listener, error) {
	switch {
	case socket != "":
		return nil, output.Usage("listen", "start an agent for each", "--listen and --socket exclude each other")
	case len(c.UIDs) > 0:
		return nil, output.Usage("uid", "name clients in the file of --clients", "--uid is for the socket")
	case o.clients == "":
		return nil, output.Usage("clients", "name the file of those who may ask", "--listen without --clients serves nobody")
	}
	list, err := agent.OpenClients(o.clients, c.Log)
	if err != nil {
		return nil, &agon.Error{Code: "bad_clients", Status: http.StatusUnprocessableEntity, Field: "clients", Message: fmt.Sprintf("%s: %v", o.clients, err), Mend: "correct the file; agon key agent --help shows its form", Err: err}
	}
	if !c.Policy.Bounds() && !list.Get().Bounded() {
		return nil, output.Usage("allow", "say with --allow, or with allow of each client, what is signed", "over a network the agent signs only what is listed")
	}
	c.Clients = list.Get
	from, err := a.serverCerts(c.Log)
	if err != nil {
		return nil, err
	}
	if !from.Mutual() {
		return nil, output.Usage("client-ca", "give --tls-cert, --tls-key and --client-ca", "over a network the agent asks each caller for a certificate")
	}
	return agent.ListenTLS(o.listen, from)
}

// agentListener opens the port, or the socket; at is where the agent is reached.
func (a *App) agentListener(c *agent.Config, port portOptions, socket string) (ln net.Listener, at string, err error) {
	if port.listen != "" {
		if ln, err = port.open(a, c, socket); err != nil {
			return nil, "", err
		}
		return ln, agent.Scheme + ln.Addr().String(), nil
	}
	if port.clients != "" {
		return nil, "", output.Usage("listen", "add --listen", "--clients are those of a port")
	}
	if socket == "" {
		socket = a.agentSocket()
	}
	l, err := agent.Listen(socket)
	return l, socket, err
}

func (a *App) keyAgentCmd() *cobra.Command {
	var socket string
	var port portOptions
	var uids []int
	var allow, genesis []string
	var perDay string
	var cold bool
	cmd := &cobra.Command{
		Use:   "agent [HOTKEY...]",
		Short: "Sign for daemons that hold no key, over a unix socket or mutual TLS",
		Long: `Sign for daemons over a unix socket, so that they hold no key, until interrupted.

The agent signs with the hotkey in force, or with those named. An encrypted hotkey's
password is asked for once, at the start. Point daemons at the socket with
AGON_KEY_AGENT; agon itself then asks the agent for every signature.
The socket has mode 0600 in a directory of mode 0700, and the kernel tells who asks:
the agent's own user, or those of --uid. It dumps no core, cannot be traced, and locks
its memory where the system grants that.

--allow says what it signs, and nothing else: agon-v1 or btauth/1 (requests), text (all
printable text), or a call of the chain by its numbers, as 7.0 for set_weights; with
--genesis on these chains only. 5.3=2.5 allows a call that moves at most 2.5 TAO (or alpha,
where it moves that), --per-day bounds what a key's calls move within 24 hours.

--coldkey signs with the wallet's coldkey instead, for agon's own commands where
AGON_COLDKEY_AGENT names the socket: listed calls on named chains, and nothing else. A
program may sign instead, as one for a hardware wallet: AGON_COLDKEY_PROGRAM names it.

--listen signs for other machines instead, over TLS: --tls-cert and --tls-key are the agent's,
each caller shows a certificate by --client-ca, and its common name must stand in --clients:

  [[client]]
  name = "val-1"
  keys = ["5F…"]               # which keys; without it all of the agent
  allow = ["agon-v1", "7.0"]   # as --allow, beside that; genesis and per_day too

Daemons name it with AGON_KEY_AGENT=tls://HOST:PORT, their certificate with --client-cert and
--client-key, the agent's authority with --ca. Who is taken off the list is out at the next
request. --audit notes each signature: when, for which client, key and form, and the message's hash.`,
		Example: "  agon key agent &\n  agon key agent --allow agon-v1 --allow 7.0 --genesis 0x2f0555cc76fc2840a25a6ea3b9637146806f1f44b090c175ffde2a7e5ab36c03\n  AGON_KEY_AGENT=$XDG_RUNTIME_DIR/agon/key-agent.sock agon validator --url https://arena.example\n  agon key agent --listen 10.0.0.5:8902 --tls-cert agent.pem --tls-key agent-key.pem --client-ca ca.pem --clients clients.toml --audit signed.jsonl\n  AGON_KEY_AGENT=tls://10.0.0.5:8902 agon validator --url https://arena.example --ca ca.pem --client-cert val-1.pem --client-key val-1-key.pem",
		Args:    Args(0, -1, ""),
		RunE: func(cmd *cobra.Command, args []string) error {
			w, err := a.wallet()
			if err != nil {
				return err
			}
			c := agent.Config{Log: slog.New(slog.NewTextHandler(a.IO.Err, nil))}
			if len(uids) > 0 {
				c.UIDs = append([]int{os.Getuid()}, uids...)
			}
			if c.Policy, err = agent.ParsePolicy(allow, genesis); err == nil && perDay != "" {
				err = c.Policy.PerDay(perDay)
			}
			if err != nil {
				return output.Usage("allow", "name what may be signed", "%v", err)
			}
			if cold {
				if err := a.coldAgent(&c, w, socket, args); err != nil {
					return err
				}
				args = nil
			} else if len(args) == 0 {
				args = []string{w.Hotkey}
			}
			unlocker := a.unlocker()
			slices.Sort(args)
			for _, name := range slices.Compact(args) {
				w.Hotkey = name
				if err := w.Validate(); err != nil {
					return output.Usage("", "name a hotkey of the wallet", "%v", err)
				}
				key, err := unlocker.Key(w.HotkeyPath())
				if err != nil {
					return err
				}
				c.Keys = append(c.Keys, key)
			}
			if err := agent.Protect(); err != nil {
				a.IO.Notef("this process is not wholly protected: %s", plain.Line(err.Error()))
			}
			if port.audit != "" {
				f, err := os.OpenFile(port.audit, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
				if err != nil {
					return err
				}
				defer f.Close()
				c.Audit = agent.AuditTo(f)
			}
			ln, at, err := a.agentListener(&c, port, socket)
			if err != nil {
				return err
			}
			server, err := agent.New(c)
			if err != nil {
				ln.Close()
				return err
			}
			a.IO.Notef("signing on %s, keys: %d; stop with Ctrl-C", plain.Line(at), len(c.Keys))
			return EndOfService(cmd.Context(), server.Serve(cmd.Context(), ln))
		},
	}
	cmd.Flags().StringVar(&socket, "socket", "", "`path` of the socket (default: AGON_KEY_AGENT, or agon/key-agent.sock in XDG_RUNTIME_DIR)")
	portFlags(cmd, &port)
	cmd.Flags().StringArrayVar(&allow, "allow", nil, "sign only this `form` or call (may be repeated; default: everything)")
	cmd.Flags().StringArrayVar(&genesis, "genesis", nil, "allow calls only on the chain with this `hash` (may be repeated)")
	cmd.Flags().StringVar(&perDay, "per-day", "", "how much a key's calls move within 24 hours, in `TAO` (default: any)")
	cmd.Flags().BoolVar(&cold, "coldkey", false, "sign with the wallet's coldkey; needs --socket, --allow with calls, and --genesis")
	cmd.Flags().IntSliceVar(&uids, "uid", nil, "numeric `user` who may ask, besides your own (may be repeated)")
	return cmd
}
