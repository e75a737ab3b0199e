package cli

import (
	"github.com/spf13/cobra"

	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/cli/output"
	"github.com/agon-arena/agon/client"
)

// ClaimSandboxOptions is `agon claim sandbox`.
type ClaimSandboxOptions struct {
	Common
	// Bare runs the script without a box.
	Bare bool
}

// ClaimValidatorOptions is `agon claim validator`.
type ClaimValidatorOptions struct {
	Common
	Client   *client.Client // of the agon server whose ledger tells who is who
	Key      auth.Signer
	Platform string // address of the platform that pushes batches
	BaseURL  string // where the platform reaches this validator; "" = what it listens on
	Owner    string // coldkey of the subnet's owner
	Netuid   uint16
	Driver   string
}

func (a *App) claimCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "claim",
		Short:   "Parts of the claim arena on their own",
		Example: "  CASTER_AGENT_PATH=agent.py agon claim sandbox --serve",
		Args:    a.noSubcommand,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.claimSandboxCmd(), a.claimValidatorCmd())
	return cmd
}

func (a *App) claimSandboxCmd() *cobra.Command {
	var serve, bare bool
	cmd := &cobra.Command{
		Use:   "sandbox --serve",
		Short: "Run the script runner alone, in a box",
		Long: `Serve the sandbox protocol (GET /healthz, POST /entry/{name}) for one script, for tests of
scripts and of validators. The script runs in a box; --bare leaves the box out, where
something else is one. Tool calls go to the host that each caller names by header.
Reads CASTER_AGENT_PATH (or AGENT_PATH), SANDBOX_HOST (127.0.0.1), SANDBOX_PORT (8000),
ENTRYPOINT_TIMEOUT_SECONDS (120) and CASTER_HOST_CONTAINER_URL.`,
		Example: "  CASTER_AGENT_PATH=agent.py agon claim sandbox --serve",
		Args:    args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !serve {
				return output.Usage("serve", "add --serve", "the runner can only serve")
			}
			if a.Services.ClaimSandbox == nil {
				return missing("the claim arena")
			}
			common, done, err := a.common()
			if err != nil {
				return err
			}
			defer done()
			return a.Services.ClaimSandbox(cmd.Context(), ClaimSandboxOptions{common, bare})
		},
	}
	cmd.Flags().BoolVar(&serve, "serve", false, "serve until interrupted")
	cmd.Flags().BoolVar(&bare, "bare", false, "without a box: only for scripts that you trust")
	return cmd
}

func (a *App) claimValidatorCmd() *cobra.Command {
	var o ClaimValidatorOptions
	cmd := &cobra.Command{
		Use:   "validator --platform URL --owner COLDKEY",
		Short: "Take batches that a platform of Caster's seed era pushes, and play them",
		Long: `Serve the validator's endpoints of Caster's seed era on --listen: batches that hotkeys of
the subnet's owner push are stored, played one at a time in boxes and graded. A validator
that was stopped goes on where it was. Who is who comes from the ledger of the server at
--url; scripts come from the platform. docs/harnyx.md lists the routes.`,
		Example: "  agon claim validator --platform https://platform.example --owner 5F… --listen 0.0.0.0:8100 --base-url http://me.example:8100",
		Args:    args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case a.Services.ClaimValidator == nil:
				return missing("the claim arena")
			case o.Platform == "":
				return output.Usage("platform", "name the platform's address", "--platform is missing")
			case o.Owner == "":
				return output.Usage("owner", "name the coldkey of the subnet's owner", "--owner is missing")
			}
			c, key, err := a.writer() // before any box is made
			if err != nil {
				return err
			}
			common, done, err := a.common()
			if err != nil {
				return err
			}
			defer done()
			o.Common, o.Client, o.Key = common, c, key
			return a.Services.ClaimValidator(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Platform, "platform", "", "`address` of the platform")
	f.StringVar(&o.Owner, "owner", "", "`coldkey` of the subnet's owner")
	f.StringVar(&o.BaseURL, "base-url", "", "`address` at which the platform reaches this validator")
	f.Uint16Var(&o.Netuid, "netuid", 0, "the `subnet`")
	f.String("listen", "", "`address` to listen on")
	driverFlag(cmd, &o.Driver)
	return cmd
}
