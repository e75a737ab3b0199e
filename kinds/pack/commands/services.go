package commands

import (
	"github.com/agon-arena/agon/ui/cli"
	"github.com/spf13/cobra"
)

// ServicesOptions is `agon tools services`.
type ServicesOptions struct {
	cli.Common
	Fixtures, Listen, SMTP string
	Seed                   uint64
}

func (a commands) servicesCmd() *cobra.Command {
	var o ServicesOptions
	cmd := &cobra.Command{
		Use:   "services [--fixtures FILE]",
		Short: "Serve the stateful office of sessions: mail, chat, tasks, calendar, code host",
		Long: `Serve a small office that keeps what is written: mail (/api/v2/messages and SMTP), chat
(/slack), tasks (/notion), calendar (/calendar) and a code host (/api/v1/repos). GET /state is
all of it; POST /load_fixtures replaces it, POST /reset brings back what was loaded.
--fixtures is a JSON file of {inbox, slack_channels, tasks, calendar, gitea_issues, …}, as
agon task generate season writes them. No mail is delivered anywhere.`,
		Example: "  agon tools services --fixtures services.json\n  agon tools services --listen 127.0.0.1:8090 --smtp 127.0.0.1:1025",
		Args:    cli.Args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			common, done, err := a.Common()
			if err != nil {
				return err
			}
			defer done()
			o.Common = common
			return a.work.Services(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Fixtures, "fixtures", "", "what the office holds at first: a JSON `file`")
	f.StringVar(&o.Listen, "listen", "127.0.0.1:8090", "`address` of HTTP")
	f.StringVar(&o.SMTP, "smtp", "127.0.0.1:1025", "`address` of SMTP")
	f.Uint64Var(&o.Seed, "seed", 1, "the `number` that ids are drawn from")
	return cmd
}
