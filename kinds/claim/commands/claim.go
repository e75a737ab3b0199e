// Package commands is the command line of the claim kind: agon claim and agon
// task generate claims.
package commands

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/kinds/claim/play"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/libraries"
	"github.com/agon-arena/agon/ui/cli"
	"github.com/agon-arena/agon/ui/cli/output"
)

// commands makes the kind's commands of one invocation.
type commands struct {
	*cli.App
	kits kit.List
}

// Of returns what the kind adds to the command line a.
func Of(a *cli.App, kits kit.List) []cli.Extra {
	c := commands{a, kits}
	return []cli.Extra{{Group: "run", Command: c.claim()}, {Parent: "task", Command: c.generate()}}
}

func (a commands) claim() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "claim",
		Short:   "Parts of the claim arena on their own",
		Example: "  CASTER_AGENT_PATH=agent.py agon claim sandbox --serve",
		Args:    a.NoSubcommand,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.sandbox(), a.validator(), a.benchmark(), a.forget())
	return cmd
}

func (a commands) sandbox() *cobra.Command {
	var serve, bare bool
	var libs string
	cmd := &cobra.Command{
		Use:   "sandbox --serve",
		Short: "Run the script runner alone, in a box",
		Long: `Serve the sandbox protocol (GET /healthz, POST /entry/{name}) for one script, for tests of
scripts and of validators. The script runs in a box; --bare leaves the box out, where
something else is one. Tool calls go to the host that each caller names by header.
Reads CASTER_AGENT_PATH (or AGENT_PATH), SANDBOX_HOST (127.0.0.1), SANDBOX_PORT (8000),
ENTRYPOINT_TIMEOUT_SECONDS (120) and CASTER_HOST_CONTAINER_URL.`,
		Example: "  CASTER_AGENT_PATH=agent.py agon claim sandbox --serve",
		Args:    cli.Args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !serve {
				return output.Usage("serve", "add --serve", "the runner can only serve")
			}
			common, done, err := a.Common()
			if err != nil {
				return err
			}
			defer done()
			return serveScript(cmd.Context(), a.kits.Options(common, ""), bare, libs, os.Stderr)
		},
	}
	cmd.Flags().BoolVar(&serve, "serve", false, "serve until interrupted")
	cmd.Flags().StringVar(&libs, "libraries", "", "show the script the packages of this `list`: caster, or a file")
	cmd.Flags().BoolVar(&bare, "bare", false, "without a box: only for scripts that you trust")
	return cmd
}

func (a commands) validator() *cobra.Command {
	var o validatorOptions
	var driver string
	cmd := &cobra.Command{
		Use:   "validator --platform URL --owner COLDKEY",
		Short: "Take batches that a platform of Caster's seed era pushes, and play them",
		Long: `Serve the validator's endpoints of Caster's seed era on --listen: batches that hotkeys of
the subnet's owner push are stored, played one at a time in boxes and graded. A validator
that was stopped goes on where it was. The platform's weights (GET /v1/weights) are given
on the ledger, once a tempo. Who is who comes from the ledger of the server at
--url; scripts come from the platform. kinds/claim/harnyx.md lists the routes.`,
		Example: "  agon claim validator --platform https://platform.example --owner 5F… --listen 0.0.0.0:8100 --base-url http://me.example:8100",
		Args:    cli.Args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case o.platform == "":
				return output.Usage("platform", "name the platform's address", "--platform is missing")
			case o.owner == "":
				return output.Usage("owner", "name the coldkey of the subnet's owner", "--owner is missing")
			}
			c, key, err := a.Writer() // before any box is made
			if err != nil {
				return err
			}
			common, done, err := a.Common()
			if err != nil {
				return err
			}
			defer done()
			o.client, o.key = c, key
			return seedValidator(cmd.Context(), a.kits.Options(common, driver), o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.platform, "platform", "", "`address` of the platform")
	f.StringVar(&o.owner, "owner", "", "`coldkey` of the subnet's owner")
	f.StringVar(&o.baseURL, "base-url", "", "`address` at which the platform reaches this validator")
	f.BoolVar(&o.weights, "weights", true, "give the platform's weights on the ledger (AGON_LEDGER, or that of the server at --url)")
	f.Uint16Var(&o.netuid, "netuid", 0, "the `subnet`")
	f.StringVar(&o.libraries, "libraries", "", "show scripts the packages of this `list`: caster, or a file")
	f.String("listen", "", "`address` to listen on")
	cli.DriverFlag(cmd, &driver)
	return cmd
}

// serveScript serves one script in a box, unless
// bare says that something else is one.
func serveScript(ctx context.Context, o kit.Options, bare bool, libs string, out io.Writer) error {
	c := play.ServeConfig{
		Getenv: o.Getenv, Bare: bare,
		Ready: func(addr string) { o.Sayf("the sandbox serves on http://%s", addr) },
		Log:   func(line string) { fmt.Fprintln(out, line) },
	}
	if !bare {
		d, root, err := kit.OpenDriver(ctx, o)
		if err != nil {
			return err
		}
		c.Driver, c.Rootfs = d, root
		if libs != "" {
			list, err := libraryList(o, libs)
			if err != nil {
				return err
			}
			store := &libraries.Store{Dir: filepath.Join(kit.CacheDir(o), "libraries"), Own: root, Driver: d, Log: o.Writer()}
			dir, err := store.Ensure(ctx, list)
			if err != nil {
				return err
			}
			m, env, err := libraries.Mount(root, dir)
			if err != nil {
				return err
			}
			c.Mounts, c.Env = []sandbox.Mount{m}, env
		}
	}
	return play.Serve(ctx, c)
}

// libraryList is a list of packages that ships, by its name, or of a file.
func libraryList(o kit.Options, name string) ([]byte, error) {
	list, err := libraries.Of(name, ".", o.Kits.Libraries())
	if err == nil {
		_, err = libraries.Parse(list)
	}
	if err != nil {
		return nil, &agon.Error{Code: "bad_libraries", Status: 422, Field: "libraries", Message: err.Error(), Err: err}
	}
	return list, nil
}
