package commands

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/agon-arena/agon/kinds/shopping/door"
	"github.com/agon-arena/agon/ui/cli"
	"github.com/agon-arena/agon/ui/cli/output"
)

func (a commands) proxy() *cobra.Command {
	var at string
	c := door.ProxyConfig{Now: a.Now}
	cmd := &cobra.Command{
		Use:   "proxy --backend URL --search URL",
		Short: "Serve what a sandbox of ORO reaches: searches, and models that the arena allows",
		Long: `Serve /search/, /inference/ and /health as ORO's proxy does, for validators of ORO that
run sandboxes of their own, until interrupted. The backend's list of models is fetched when
it is first needed, holds for 15 minutes, and for 60 more while no fetch succeeds. A client
may ask 30 times a second, and 50 times more at once. Calls of models go to the backend's
own gateway, with the token of the claim; --inference names another provider.`,
		Example: "  agon shop proxy --backend https://arena.example --search http://127.0.0.1:5632 --at 127.0.0.1:8080",
		Args:    cli.Args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if c.Backend == "" || c.Search == "" {
				return output.Usage("backend", "name both, as URLs", "--backend and --search are needed")
			}
			if c.Inference == "" {
				c.Inference = c.Backend + "/v1"
			}
			p, err := door.NewProxy(c)
			if err != nil {
				return output.Usage("backend", "write it as http://HOST:PORT", "%v", err)
			}
			ctx := cmd.Context()
			l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", at)
			if err != nil {
				return fmt.Errorf("listen: %w", err)
			}
			srv := &http.Server{Handler: p, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 60 * time.Second, MaxHeaderBytes: 64 << 10}
			fmt.Fprintf(a.IO.Err, "the proxy is on http://%s\n", l.Addr())
			stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
			defer stop()
			if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				return fmt.Errorf("serve: %w", err)
			}
			return ctx.Err()
		},
	}
	f := cmd.Flags()
	f.StringVar(&c.Backend, "backend", "", "`address` of the arena's server")
	f.StringVar(&c.Search, "search", "", "`address` of the search server")
	f.StringVar(&c.Inference, "inference", "", "`address` of another provider, with its /v1")
	f.StringVar(&at, "at", "127.0.0.1:8080", "`address` to listen on")
	return cmd
}
