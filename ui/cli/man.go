package cli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/agon-arena/agon"
)

func (a *App) manCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "man DIR",
		Short: "Write the manual pages, one for each command",
		Long: `Write the manual pages, one for each command, into DIR, made from the commands
themselves. ` + "`make install`" + ` puts them where man looks.`,
		Example: "  agon man ./man1\n  agon man /usr/local/share/man/man1",
		Args:    Args(1, 1, "a directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return fmt.Errorf("make directory: %w", err)
			}
			n := 0
			var walk func(c *cobra.Command) error
			walk = func(c *cobra.Command) error {
				if c.Hidden || c.Name() == "help" {
					return nil
				}
				var b strings.Builder
				manPage(&b, c)
				if err := os.WriteFile(filepath.Join(args[0], manName(c)+".1"), []byte(b.String()), 0o644); err != nil {
					return fmt.Errorf("write manual page: %w", err)
				}
				n++
				for _, sub := range c.Commands() {
					if err := walk(sub); err != nil {
						return err
					}
				}
				return nil
			}
			if err := walk(cmd.Root()); err != nil {
				return err
			}
			a.IO.Notef("%d manual pages in %s", n, args[0])
			return nil
		},
	}
}

func manName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// manPage writes the page of c in the man macros of troff (man(7)).
func manPage(w io.Writer, c *cobra.Command) {
	put := func(format string, args ...any) { fmt.Fprintf(w, format, args...) } // a builder takes all
	put(".TH %s 1 \"\" %s \"agon\"\n", troffWord(strings.ToUpper(manName(c))), troffWord("agon "+agon.Version))
	put(".SH NAME\n%s \\- %s\n", troff(manName(c)), troff(c.Short))
	put(".SH SYNOPSIS\n.B %s\n", troff(c.UseLine()))
	if c.Long != "" {
		put(".SH DESCRIPTION\n")
		for i, par := range strings.Split(c.Long, "\n\n") {
			if i > 0 {
				put(".PP\n")
			}
			put("%s\n", troff(par))
		}
	}
	manFlags(w, "OPTIONS", c.NonInheritedFlags())
	manFlags(w, "GLOBAL OPTIONS", c.InheritedFlags())
	if c.Example != "" {
		put(".SH EXAMPLES\n.nf\n%s\n.fi\n", troff(strings.ReplaceAll("\n"+c.Example, "\n  ", "\n")[1:]))
	}
	var also []string
	if c.HasParent() {
		also = append(also, manName(c.Parent()))
	}
	for _, sub := range c.Commands() {
		if !sub.Hidden && sub.Name() != "help" {
			also = append(also, manName(sub))
		}
	}
	if len(also) > 0 {
		put(".SH SEE ALSO\n")
		for i, name := range also {
			end := ","
			if i == len(also)-1 {
				end = ""
			}
			put(".BR %s (1)%s\n", troff(name), end)
		}
	}
}

func manFlags(w io.Writer, title string, fs *pflag.FlagSet) {
	if !fs.HasAvailableFlags() {
		return
	}
	fmt.Fprintf(w, ".SH %s\n", title)
	fs.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		value, usage := pflag.UnquoteUsage(f)
		fmt.Fprintf(w, ".TP\n\\fB%s\\fR", troffEscape(name))
		if value != "" {
			fmt.Fprintf(w, " \\fI%s\\fR", troffEscape(value))
		}
		fmt.Fprintf(w, "\n%s\n", troff(usage))
	})
}

// troff escapes text: no line of it is a request, no character a command.
func troff(s string) string {
	lines := strings.Split(troffEscape(s), "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, ".") || strings.HasPrefix(l, "'") {
			lines[i] = `\&` + l
		}
	}
	return strings.Join(lines, "\n")
}

func troffEscape(s string) string {
	return strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(s)
}

func troffWord(s string) string {
	return `"` + strings.ReplaceAll(troffEscape(s), `"`, "") + `"`
}
