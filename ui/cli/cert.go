package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth/certs"
	"github.com/agon-arena/agon/ui/cli/output"
)

// Files of an authority's directory.
const (
	authorityCert = "ca.pem"
	authorityKey  = "ca-key.pem"
)

// madeCert is what the commands print.
type madeCert struct {
	Name  string    `json:"name"`
	Cert  string    `json:"cert"`
	Key   string    `json:"key"`
	Until time.Time `json:"until"`
}

func (a *App) certCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cert",
		Short: "Make certificates for the machines of one operator",
		Long: `Make certificates for TLS between the machines of one operator: an authority, and what it
issues. Any other authority does as well; the files are plain PEM.`,
		Example: "  agon cert authority fleet\n  agon cert issue server --host arena.internal",
		Args:    a.NoSubcommand,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.certAuthorityCmd(), a.certIssueCmd())
	return cmd
}

func checkDays(days int) error {
	if days < 1 || days > 36500 {
		return output.Usage("days", "give 1 to 36500", "--days %d: out of range", days)
	}
	return nil
}

// lifeOf begins an hour ago: clocks of machines differ.
func (a *App) lifeOf(days int) certs.Life {
	now := a.Now().UTC()
	return certs.Life{From: now.Add(-time.Hour), Until: now.AddDate(0, 0, days)}
}

func (a *App) printCert(cmd *cobra.Command, m madeCert) error {
	return a.Printer.Print(cmd.Context(), output.Result{Value: m, IDs: []string{m.Cert}, Human: func(h *output.Human) {
		h.Fields([2]string{"name", m.Name}, [2]string{"certificate", m.Cert}, [2]string{"key", m.Key}, [2]string{"until", m.Until.Format(time.DateTime)})
	}})
}

func (a *App) certAuthorityCmd() *cobra.Command {
	var dir string
	var days int
	cmd := &cobra.Command{
		Use:   "authority [NAME]",
		Short: "Make an authority: ca.pem, which machines trust, and ca-key.pem, which signs",
		Long: `Make an authority in --dir: ca.pem, which machines trust, and ca-key.pem (0600), which signs.
Keep the key off the machines. An authority that is there already is left alone.
JSON: {name, cert, key, until}.`,
		Example: "  agon cert authority fleet --dir ./ca",
		Args:    Args(0, 1, "NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkDays(days); err != nil {
				return err
			}
			name := "agon"
			if len(args) > 0 {
				name = args[0]
			}
			l := a.lifeOf(days)
			_, cert, key, err := certs.NewAuthority(name, l)
			if err != nil {
				return err
			}
			if err := os.MkdirAll(dir, 0o700); err != nil {
				return err
			}
			m := madeCert{name, filepath.Join(dir, authorityCert), filepath.Join(dir, authorityKey), l.Until}
			if err := writePair(m, cert, key, false); err != nil {
				return err
			}
			return a.printCert(cmd, m)
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "ca", "`directory` of the authority")
	cmd.Flags().IntVar(&days, "days", 3650, "how many `days` it is good for")
	return cmd
}

func (a *App) certIssueCmd() *cobra.Command {
	var dir, out string
	var days int
	var hosts []string
	var renew bool
	cmd := &cobra.Command{
		Use:   "issue NAME",
		Short: "Issue a certificate for a machine: NAME.pem and NAME-key.pem",
		Long: `Issue a certificate by the authority in --dir, with a new key: NAME.pem and NAME-key.pem (0600)
in --out. NAME is its common name, by which agon key agent knows a client. With --host it can
serve there; else it is good for callers only. --renew replaces files that are there: services
of agon take the new ones at once.
JSON: {name, cert, key, until}.`,
		Example: "  agon cert issue server --host arena.internal --host 10.0.0.4\n  agon cert issue val-1 --renew",
		Args:    Args(1, 1, "NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkDays(days); err != nil {
				return err
			}
			name := args[0]
			if strings.Contains(name, "/") || strings.HasPrefix(name, ".") || name+".pem" == authorityCert {
				return output.Usage("", "give a name without / that begins with no dot", "%q names no file of its own", name)
			}
			cert, err := os.ReadFile(filepath.Join(dir, authorityCert))
			if err != nil {
				return noAuthority(err)
			}
			key, err := os.ReadFile(filepath.Join(dir, authorityKey))
			if err != nil {
				return noAuthority(err)
			}
			by, err := certs.ReadAuthority(cert, key)
			if err != nil {
				return noAuthority(err)
			}
			l := by.Within(a.lifeOf(days))
			if cert, key, err = by.Issue(name, hosts, l); err != nil {
				return err
			}
			m := madeCert{name, filepath.Join(out, name+".pem"), filepath.Join(out, name+"-key.pem"), l.Until}
			if err := writePair(m, cert, key, renew); err != nil {
				return err
			}
			return a.printCert(cmd, m)
		},
	}
	f := cmd.Flags()
	f.StringVar(&dir, "dir", "ca", "`directory` of the authority")
	f.StringVar(&out, "out", ".", "`directory` for the files")
	f.StringArrayVar(&hosts, "host", nil, "`name` or address at which it serves (may be repeated)")
	f.IntVar(&days, "days", 365, "how many `days` it is good for, at most the authority's")
	f.BoolVar(&renew, "renew", false, "replace files that are there")
	return cmd
}

func noAuthority(err error) error {
	return &agon.Error{Code: "no_authority", Status: http.StatusUnprocessableEntity, Field: "dir", Message: fmt.Sprintf("cannot use the authority: %v", err), Mend: "make one with agon cert authority NAME --dir DIR, and name its directory with --dir", Err: err}
}

// writePair writes the key, then the certificate, each whole or not at all. A
// service that reads in between keeps the pair before.
func writePair(m madeCert, cert, key []byte, replace bool) error {
	if !replace {
		for _, p := range []string{m.Key, m.Cert} {
			if _, err := os.Lstat(p); err == nil {
				return &agon.Error{Code: "exists", Status: http.StatusConflict, Field: "out", Message: p + " is there already", Mend: "choose another name or directory; a certificate is replaced with --renew"}
			} else if !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	if err := writeWhole(m.Key, key, 0o600); err != nil {
		return err
	}
	return writeWhole(m.Cert, cert, 0o644)
}

func writeWhole(path string, b []byte, mode fs.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // gone already where all went well
	_, werr := f.Write(b)
	if err := errors.Join(werr, f.Chmod(mode), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
