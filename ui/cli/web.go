package cli

import (
	"github.com/spf13/cobra"

	"github.com/agon-arena/agon/ui/cli/output"
)

// webLogin is what `agon web login` prints.
type webLogin struct {
	URL    string `json:"url"`
	Hotkey string `json:"hotkey"`
}

func (a *App) webCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "web",
		Short:   "Pages: sign a browser in with your key",
		Example: "  agon web login",
		Args:    a.NoSubcommand,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(&cobra.Command{
		Use:   "login",
		Short: "Print a link that signs a browser in, once, within a minute",
		Long: `Print a link that signs a browser in as your hotkey: it then sees on the pages what that
key may read, and the operator's key may act. The link works once and for a minute, the
sign-in for twelve hours. No key ever reaches the browser. JSON: {url, hotkey}.`,
		Example: "  agon web login\n  agon web login --wallet.name operator",
		Args:    Args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, key, err := a.Writer()
			if err != nil {
				return err
			}
			link, err := c.SignIn(cmd.Context())
			if err != nil {
				return err
			}
			v := webLogin{URL: link, Hotkey: key.SS58()}
			a.IO.Notef("this link works once and expires in one minute")
			return a.Printer.Print(cmd.Context(), output.Result{Value: v, IDs: []string{v.URL}, Human: func(h *output.Human) { h.Line("%s", v.URL) }})
		},
	})
	return cmd
}
