package pack

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/kinds/pack/clawbench"
	"github.com/agon-arena/agon/kinds/pack/commands"
	"github.com/agon-arena/agon/kinds/pack/packfile"
	"github.com/agon-arena/agon/kinds/pack/services"
)

// ServeServices is `agon tools services`.
func ServeServices(ctx context.Context, kits kit.List, c commands.ServicesOptions) error {
	o := kits.Options(c.Common, "")
	office := services.New(services.Config{Seed: c.Seed})
	if c.Fixtures != "" {
		b, err := kit.ReadFile(c.Fixtures, clawbench.MaxFixture)
		if err != nil {
			return err
		}
		v, err := packfile.ParseLimit(b)
		if err == nil {
			err = office.Load(v)
		}
		if err != nil {
			return &agon.Error{Code: "bad_fixtures", Status: 422, Field: "fixtures", Message: err.Error(), Mend: "write a JSON object of {inbox, slack_channels, tasks, calendar}, each a list of objects"}
		}
	}
	listen := func(field, addr string) (net.Listener, error) {
		ln, err := net.Listen("tcp", addr)
		if err != nil {
			return nil, &agon.Error{Code: "listen", Status: 422, Field: field, Message: err.Error(), Mend: "choose another --" + field}
		}
		return ln, nil
	}
	web, err := listen("listen", c.Listen)
	if err != nil {
		return err
	}
	mail, err := listen("smtp", c.SMTP)
	if err != nil {
		return errors.Join(err, web.Close())
	}
	o.Sayf("the office serves on http://%s, mail on %s", web.Addr(), mail.Addr())
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	smtp := make(chan error, 1)
	go func() {
		defer cancel()
		smtp <- office.ServeSMTP(ctx, mail)
	}()
	srv := &http.Server{Handler: office.Handler(), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10}
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer stop()
	err = srv.Serve(web)
	cancel()
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	if err = errors.Join(err, <-smtp); err != nil {
		return fmt.Errorf("serve the office: %w", err)
	}
	return nil
}
