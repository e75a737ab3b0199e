package cli

import (
	"github.com/spf13/cobra"

	"github.com/agon-arena/agon/cli/output"
)

// ClaimSandboxOptions is `agon claim sandbox`.
type ClaimSandboxOptions struct {
	Common
	// Bare runs the script without a box.
	Bare bool
}

func (a *App) claimCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "claim",
		Short:   "Parts of the claim arena on their own",
		Example: "  CASTER_AGENT_PATH=agent.py agon claim sandbox --serve",
		Args:    a.noSubcommand,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.claimSandboxCmd())
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
