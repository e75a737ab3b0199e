package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/ui/cli/config"
	"github.com/agon-arena/agon/ui/cli/output"
)

// Clock skew against the server: signatures are refused beyond auth.DefaultWindow.
const skewWarn = 10 * time.Second

// doctorTimeout bounds what doctor asks of a server.
const doctorTimeout = 5 * time.Second

func (a *App) doctorCmd(h Host) *cobra.Command {
	var gpus bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "List every problem of this machine and how to fix it",
		Long: `List every problem of this machine and how to fix it. With --data everything that
the directory holds is read as well: databases with their write-ahead logs, blobs, and the
transparency log, whose every entry is compared with the store; each damage is named. No
server may run over the directory then. With --gpu the machine's GPUs are looked at as well,
from the cards on the bus to a time measured by one: what boxes can be given, and what is missing.

JSON: an array of {name, status: ok|warn|fail, detail, mend}. Exit code 1 if one fails.`,
		Example: "  agon doctor\n  agon doctor --data ./arena\n  agon doctor --gpu\n  agon doctor --jq '.[] | select(.status != \"ok\")'",
		Args:    Args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.doctor(cmd.Context(), h, DoctorOptions{Data: cmd.Flags().Changed("data"), GPU: gpus})
		},
	}
	cmd.Flags().BoolVar(&gpus, "gpu", false, "look at this machine's GPUs, too")
	return cmd
}

func (a *App) doctor(ctx context.Context, host Host, o DoctorOptions) error {
	checks := []Check{a.checkConfig()}
	if checks[0].Status == CheckOK {
		checks = append(checks, a.checkKey())
		checks = append(checks, a.checkServer(ctx)...)
		if host.Doctor != nil {
			common, done, err := a.Common()
			if err != nil {
				return err
			}
			o.Common = common
			more, err := host.Doctor(ctx, o)
			done()
			if err != nil {
				return err
			}
			checks = append(checks, more...)
		}
	}
	failed := false
	for _, c := range checks {
		failed = failed || c.Status == CheckFail
	}
	if err := a.Printer.Print(ctx, output.List(checks, func(c Check) string { return c.Name }, func(h *output.Human) {
		rows := make([][]output.Cell, len(checks))
		for i, c := range checks {
			rows[i] = []output.Cell{StateCell(c.Status), output.Text(c.Name), output.Text(c.Detail)}
		}
		h.Table([]output.Column{{Title: "status"}, {Title: "check", Min: 8}, {Title: "detail", Min: 16}}, rows)
		for _, c := range checks {
			if c.Mend != "" && c.Status != CheckOK {
				h.Line("")
				h.Line("%s: %s", c.Name, c.Detail)
				h.Line("  fix: %s", c.Mend)
			}
		}
	})); err != nil {
		return err
	}
	if failed {
		return &Exit{Code: CodeFailed}
	}
	return nil
}

func (a *App) checkConfig() Check {
	c, err := a.Config()
	if err != nil {
		e := Describe(err)
		return Check{"config", CheckFail, e.Message, e.Mend}
	}
	if len(c.Warnings) > 0 {
		return Check{"config", CheckOK, c.Warnings[0], ""}
	}
	n := 0
	for _, s := range c.Settings() {
		if s.Origin != "default" {
			n++
		}
	}
	return Check{"config", CheckOK, fmt.Sprintf("settings that differ from the default: %d", n), ""}
}

func (a *App) checkKey() Check {
	w, err := a.wallet()
	if err != nil {
		return Check{"hotkey", CheckFail, err.Error(), Describe(err).Mend}
	}
	key, err := w.LoadHotkey()
	switch {
	case errors.Is(err, auth.ErrKeyfileMissing):
		return Check{"hotkey", CheckWarn, "no hotkey at " + w.HotkeyPath(), "to enter or validate, make one with `agon key new`"}
	case err != nil:
		return Check{"hotkey", CheckFail, err.Error(), Describe(err).Mend}
	}
	if st, err := os.Stat(w.Path); err == nil && st.Mode().Perm()&0o022 != 0 {
		return Check{"hotkey", CheckWarn, fmt.Sprintf("%s: others may write to %s", key.SS58(), w.Path), "run chmod go-w " + w.Path}
	}
	return Check{"hotkey", CheckOK, key.SS58() + " (" + w.HotkeyPath() + ")", ""}
}

// checkServer looks at the running arena. That none runs is only a warning.
func (a *App) checkServer(ctx context.Context) []Check {
	ctx, cancel := context.WithTimeout(ctx, doctorTimeout)
	defer cancel()
	c, err := a.Client(nil)
	if err != nil {
		e := Describe(err)
		return []Check{{"server", CheckFail, e.Message, e.Mend}}
	}
	c.Tries = 1
	start := a.Now()
	s, err := c.Server(ctx)
	if err != nil {
		e := Describe(err)
		return []Check{{"server", CheckWarn, e.Message, "start an arena with `agon up`, or name one with AGON_URL"}}
	}
	end := a.Now()
	checks := []Check{{"server", CheckOK, fmt.Sprintf("%s %s at %s", s.Name, s.Version, c.URL()), ""}}
	if s.Version != agon.Version {
		checks[0] = Check{"server", CheckWarn, fmt.Sprintf("%s runs agon %s, this is %s", c.URL(), s.Version, agon.Version), "update the older one"}
	}
	checks = append(checks, clockCheck(s.Time, start, end))
	return append(checks, a.checkRegistered(ctx, c)...)
}

// clockCheck compares the server's clock with ours, which asked at start and had the
// answer at end: the server may have read its own at any time in between.
func clockCheck(server, start, end time.Time) Check {
	half := end.Sub(start) / 2
	skew := start.Add(half).Sub(server).Truncate(time.Millisecond)
	detail := fmt.Sprintf("%v from the server's", skew)
	switch known := skew.Abs() - half; {
	case known >= auth.DefaultWindow:
		return Check{"clock", CheckFail, detail + ": signatures are refused", "set the clock; run an NTP client"}
	case known >= skewWarn:
		return Check{"clock", CheckWarn, detail + fmt.Sprintf("; signatures are refused from %v", auth.DefaultWindow), "set the clock; run an NTP client"}
	}
	return Check{"clock", CheckOK, detail, ""}
}

// checkRegistered says where the hotkey in force is registered.
func (a *App) checkRegistered(ctx context.Context, c *client.Client) []Check {
	w, err := a.wallet()
	if err != nil {
		return nil
	}
	address, err := w.HotkeyAddress()
	if err != nil {
		return nil // checkKey has said it
	}
	arenas, err := c.Arenas(ctx)
	if err != nil {
		return []Check{{"registration", CheckWarn, Describe(err).Message, ""}}
	}
	seen := map[uint16]bool{}
	var out []Check
	for _, x := range arenas {
		if seen[x.Netuid] {
			continue
		}
		seen[x.Netuid] = true
		n, err := findNeuron(ctx, c, x.Netuid, address)
		switch {
		case err != nil:
			out = append(out, Check{"registration", CheckWarn, Describe(err).Message, ""})
		case n == nil:
			out = append(out, Check{
				"registration", CheckWarn, fmt.Sprintf("%s is not registered on subnet %d", address, x.Netuid),
				fmt.Sprintf("to enter, run `agon ledger register --netuid %d`", x.Netuid),
			})
		default:
			out = append(out, Check{"registration", CheckOK, fmt.Sprintf("uid %d on subnet %d", n.UID, x.Netuid), ""})
		}
	}
	return out
}

func (a *App) configCmd() *cobra.Command {
	view := &cobra.Command{
		Use:     "view",
		Short:   "Show the settings in force; secrets only as set or unset",
		Long:    "Show the settings in force; secrets only as set or unset. JSON: an array of {key, value, origin}.",
		Example: "  agon config view --origin\n  agon config view --jq '.[] | select(.key == \"url\").value'",
		Args:    Args(0, 0, ""),
	}
	var origin bool
	view.Flags().BoolVar(&origin, "origin", false, "show where each value comes from")
	view.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := a.Config()
		if err != nil {
			return err
		}
		settings := c.Settings()
		return a.Printer.Print(cmd.Context(), output.List(settings, func(s config.Setting) string { return s.Key }, func(h *output.Human) {
			cols := []output.Column{{Title: "key"}, {Title: "value", Min: 10}}
			if origin {
				cols = append(cols, output.Column{Title: "origin", Min: 7})
			}
			rows := make([][]output.Cell, len(settings))
			for i, s := range settings {
				rows[i] = []output.Cell{output.Text(s.Key), output.Text(s.Value), output.Text(s.Origin)}[:len(cols)]
			}
			h.Table(cols, rows)
		}))
	}
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Settings, and where each comes from",
		Long: `Settings, and where each comes from: flag, AGON_* environment, agon.toml (here or
above), the user's agon/config.toml, default.

An agon.toml holds any of:

  url = "http://127.0.0.1:8900"
  data = "./data"          # relative to the file
  listen = "127.0.0.1:8900"
  cache = "~/.cache/agon"
  [wallet]
  name = "default"
  hotkey = "default"
  path = "~/.bittensor/wallets"
  [llm]
  base_url = "https://…/v1"
  model = "…"

The API key is read from AGON_LLM_API_KEY only, and is not sent to a base_url that
an agon.toml names.`,
		Example: "  agon config view --origin",
		Args:    a.NoSubcommand,
		RunE:    view.RunE,
	}
	cmd.Flags().AddFlagSet(view.Flags())
	cmd.AddCommand(view)
	return cmd
}
