package cli

import (
	"github.com/spf13/cobra"

	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/ui/cli/output"
)

// GatewayOptions is `agon gateway`.
type GatewayOptions struct {
	Common
	// Platform tells which validator holds which run; nil: Allow decides alone.
	Platform *client.Client
	// Allow lists hotkeys that may open sessions with a policy of their own.
	Allow []string
	// Ready is called with the address and the key that signs receipts; never nil.
	Ready func(url, signer string)
}

func (a *App) gatewayCmd(r Roles, h Host) *cobra.Command {
	var o GatewayOptions
	var alone bool
	cmd := &cobra.Command{
		Use:   "gateway",
		Short: "Run the gateway alone: model keys, budgets and evidence in one place",
		Long: `Run the gateway as a process of its own, so that a platform holds the keys of models
and signs the evidence while validators play elsewhere. An arena names it in its policy
(gateway = "https://…", gateway_key = "5…"). A validator may open a session only for a run
whose lease it holds at the platform (--url), with the run's own models and budget; with
--alone only for the hotkeys of --allow, with the policy they ask for.

The books and the key (gateway.key, 0600) are in the data directory. Serve TLS where
validators reach it over a network, with --tls-cert and --tls-key or by a proxy in front:
sessions are opened by signed requests, but calls carry a session's token. With --client-ca
only who shows a certificate of it is heard at all (validators: --client-cert). Models: AGON_LLM_* as for agon up (docs/gateway.md).`,
		Example: "  agon gateway --listen 127.0.0.1:8901 --url http://127.0.0.1:8900\n  agon gateway --alone --allow 5F… --listen 127.0.0.1:8901",
		Args:    Args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if r.Gateway == nil {
				return Missing("gateway")
			}
			if alone && len(o.Allow) == 0 {
				return output.Usage("allow", "name the hotkeys that may open sessions with --allow", "--alone without --allow serves nobody")
			}
			common, done, err := a.served()
			if err != nil {
				return err
			}
			defer done()
			o.Common = common
			if !alone {
				if o.Platform, err = a.Reader(); err != nil {
					return err
				}
			}
			o.Ready = func(url, signer string) {
				common.Say("the gateway is at %s; its receipts are signed by %s", url, signer)
			}
			return EndOfService(cmd.Context(), r.Gateway(cmd.Context(), o))
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&o.Allow, "allow", nil, "hotkeys (`address`) that may open sessions with a policy of their own")
	f.BoolVar(&alone, "alone", false, "ask no platform: --allow decides")
	tlsFlags(cmd, "validators")
	f.String("listen", "", "`address` to serve on (AGON_LISTEN)")
	cmd.AddCommand(a.gatewayCheckCmd(h), a.gatewayRotateCmd(h))
	return cmd
}

func (a *App) gatewayRotateCmd(h Host) *cobra.Command {
	return &cobra.Command{
		Use:   "rotate",
		Short: "Give the gateway of the data directory a new key, signed by the old one",
		Long: `Make a new key for the gateway in --data. The old key signs that the new one follows, and
validators follow it. Hand the statement that is printed to the arena's operator (agon operator
gateway-key): until then the platform takes statements under the old key only. What the old key
signed can be checked as before. The gateway must be stopped.
JSON: {old, new, at, old_sig, new_sig}.`,
		Example: "  agon gateway rotate --data ./gateway -o json > succession.json\n  agon operator gateway-key {arena} --succession succession.json --reason 'yearly'",
		Args:    Args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if h.RotateGateway == nil {
				return output.Usage("", "", "this binary has no gateway")
			}
			common, done, err := a.Common()
			if err != nil {
				return err
			}
			defer done()
			s, err := h.RotateGateway(common)
			if err != nil {
				return err
			}
			return a.Printer.Print(cmd.Context(), output.Result{Value: s, IDs: []string{s.New}, Human: func(w *output.Human) {
				w.Line("the key of the gateway is now %s", s.New)
				w.Line("before it was                 %s", s.Old)
			}})
		},
	}
}

// ModelKey is what `agon gateway check` prints.
type ModelKey struct {
	Status string `json:"status"` // valid, invalid, no-credit, unreachable
	Model  string `json:"model"`
}

func (a *App) gatewayCheckCmd(h Host) *cobra.Command {
	return &cobra.Command{
		Use:   "check",
		Short: "Ask the provider of models what it thinks of the configured key",
		Long: `Ask the provider one question of one token: valid, invalid (401, 403), no-credit (402) or
unreachable. A provider that is busy or broken (429, 5xx) has not refused the key: valid. The
key is never shown. Exit code 7 for invalid and no-credit, 9 for unreachable. JSON: {status, model}.`,
		Example: "  agon gateway check",
		Args:    Args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if h.Model == nil {
				return Missing("gateway check")
			}
			common, done, err := a.Common()
			if err != nil {
				return err
			}
			defer done()
			k, err := h.Model(cmd.Context(), common)
			if err != nil {
				return err
			}
			err = a.Printer.Print(cmd.Context(), output.Result{Value: k, IDs: []string{k.Status}, Human: func(h *output.Human) { h.Line("%s (%s)", k.Status, k.Model) }})
			switch {
			case err != nil || k.Status == "valid":
				return err
			case k.Status == "unreachable":
				return &Exit{Code: CodeOurs}
			}
			return &Exit{Code: CodeRefused}
		},
	}
}
