package cli

import (
	"github.com/spf13/cobra"

	"github.com/agon-arena/agon/ui/mcp"
)

func (a *App) mcpCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "mcp",
		Short: "Serve read-only tools over arenas to a language model, on stdin and stdout",
		Long: `Serve the Model Context Protocol on standard input and output: read-only tools over
every arena of the server (arenas, board, champion, submissions, runs, receipts). Text that
agents and miners wrote is withheld unless a call asks for it. The server itself offers the
same tools at /mcp.`,
		Example: "  agon mcp\n  agon mcp --url https://arena.example",
		Args:    Args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.Reader()
			if err != nil {
				return err
			}
			return mcp.Stdio(cmd.Context(), mcp.New(mcp.Remote{Client: c}))
		},
	}
}
