package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/internal/update"
	"github.com/agon-arena/agon/ui/cli/config"
	"github.com/agon-arena/agon/ui/cli/output"
)

type superviseOptions struct {
	Release, Key, Pin    string
	Every, Settle, Grace time.Duration
}

func (a *App) superviseCmd() *cobra.Command {
	var o superviseOptions
	cmd := &cobra.Command{
		Use:   "supervise --release PLACE --release-key KEY -- COMMAND...",
		Short: "Keep a service running at the newest signed release, and go back from a bad one",
		Long: `Run a command of agon that stays up (validator, gateway, serve), and look at --release for a
newer release: a folder or an address that holds what scripts/release.sh makes, SHA256SUMS with
the signature of --release-key (an OpenSSH public key, or a file of them), and archives.

A release is taken if it is signed, newer than what runs (or is the one that --pin names), and
tells its version on this machine. The service is asked to end and started anew; its data stays.
A version that ends before it has run for --settle is given up: the one before is started again,
and the bad one is never tried again. Versions lie in the data directory, in versions/.

A server whose new version has changed its store goes back only with a backup of it.`,
		Example: "  agon supervise --release https://example.org/agon/ --release-key release.pub -- validator\n  agon supervise --release /srv/agon --release-key release.pub --pin 0.2.0 -- gateway",
		Args:    cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case cmd.ArgsLenAtDash() != 0 || len(args) == 0:
				return output.Usage("", "write it behind --: agon supervise … -- validator", "name the command that is kept running")
			case o.Release == "":
				return output.Usage("release", "give a folder or an address: --release https://…", "supervise needs a place of releases")
			case o.Key == "":
				return output.Usage("release-key", "give an OpenSSH public key, or a file of them", "supervise needs the key that signs releases")
			case o.Every < time.Second || o.Settle < time.Second || o.Grace < time.Second:
				return output.Usage("every", "give at least 1s", "--every, --settle and --grace are at least a second")
			}
			return a.supervise(cmd, o, args)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Release, "release", "", "`place` of releases: a folder or an http(s) address")
	f.StringVar(&o.Key, "release-key", "", "`key` that signs releases, or a file of such keys")
	f.StringVar(&o.Pin, "pin", "", "take this `version` only, also where it is older")
	f.DurationVar(&o.Every, "every", 5*time.Minute, "`time` between looks")
	f.DurationVar(&o.Settle, "settle", time.Minute, "`time` for which a new version must stay up")
	f.DurationVar(&o.Grace, "grace", 2*time.Minute, "`time` that the service has to end in")
	return cmd
}

func (a *App) supervise(cmd *cobra.Command, o superviseOptions, args []string) error {
	text := o.Key
	if !strings.HasPrefix(text, "ssh-") && !strings.HasPrefix(text, "ecdsa-") {
		b, err := readLimited(text, maxImport)
		if err != nil {
			return fmt.Errorf("read the release key: %w", err)
		}
		text = string(b)
	}
	keys, err := update.ParseKeys(text)
	if err != nil {
		return output.Usage("release-key", "give an OpenSSH public key, or a file of them", "%v", err)
	}
	own, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	c, err := a.Config()
	if err != nil {
		return err
	}
	k, err := update.New(update.Config{
		From: o.Release, Keys: keys, Dir: filepath.Join(c.Get(config.Data), "versions"), Own: own, Version: agon.Version, Pin: o.Pin, Args: args,
		Every: o.Every, Settle: o.Settle, Grace: o.Grace, Stdout: a.IO.Out, Stderr: a.IO.Err,
		Say: func(format string, args ...any) { fmt.Fprintf(a.IO.Err, "supervise: "+format+"\n", args...) },
	})
	if err != nil {
		return err
	}
	err = k.Run(cmd.Context())
	var ended *update.EndedError
	if errors.As(err, &ended) {
		return &Exit{Code: ended.Code}
	}
	return EndOfService(cmd.Context(), err)
}
