package kit

import (
	"context"
	"log/slog"
	"os"
	"time"

	"github.com/agon-arena/agon/auth/certs"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/ledger/local"
	"github.com/agon-arena/agon/sandbox/gpu"
	"github.com/agon-arena/agon/ui/cli"
	"github.com/agon-arena/agon/ui/cli/config"
	"github.com/agon-arena/agon/ui/cli/progress"
	"github.com/agon-arena/agon/ui/tracing"
)

// Options are what every role takes.
type Options struct {
	Data     string // data directory
	Cache    string // root file systems and fetched tasks; empty: the default of the machine
	Listen   string // address of /v1
	Store    string // postgres:// URL of the platform's rows; empty: agon.db in Data
	Blobs    string // s3:// URL of the platform's blobs; empty: a folder in Data
	Arenas   []string
	Once     bool
	Parallel int // runs at once; 0: one per core
	Getenv   func(string) string
	Now      func() time.Time // of the platform; nil: time.Now
	Log      *slog.Logger
	// Say prints one line for people, Progress shows how far the play is. Ready is
	// called when /v1 answers, Decided whenever the last open submission has been
	// decided. All optional.
	Say      func(format string, args ...any)
	Progress func(progress.State)
	Ready    func(url string)
	Decided  func(*client.Overview)

	// Kits are the kinds of this process (see package kinds).
	Kits List

	// Registration says who may register on the embedded ledger; "": the operator.
	Registration local.Registration
	// LocalMetrics lets anybody on this machine read /metrics without a token.
	LocalMetrics bool
	// Metrics is where a validator serves its own /metrics; "": nowhere.
	Metrics string
	// TLS is how listeners serve, Over how others are reached; nil: without certificates of ours.
	TLS  *certs.Server
	Over *certs.Client
	// RegistrationPrice is the least price under local.RegistrationBurn, in rao; 0: 1 TAO.
	RegistrationPrice uint64

	Lease  time.Duration   // of runs that this server hands out; 0: the platform's default
	Traces *tracing.Tracer // see Trace; nil: none are sent
	Cards  gpu.Driver      // of a validator; nil: this machine's
	// ScriptPrice gives a script's calls the price of a cheap model: the demo's
	// validators without a platform go by cost, and say that it is made up.
	ScriptPrice bool
}

// Sayf prints one line for people, if anybody listens.
func (o *Options) Sayf(format string, args ...any) {
	if o.Say != nil {
		o.Say(format, args...)
	}
}

// Trace opens the traces of a role, if the environment asks for them; end sends the last.
func (o *Options) Trace(ctx context.Context, role string) (end func(), err error) {
	o.Traces, err = tracing.Open(ctx, tracing.Config{URL: o.Getenv(tracing.Env), Role: role, Log: o.Log, Now: time.Now})
	if err == nil && o.Traces != nil {
		o.Sayf("traces go to %s", o.Getenv(tracing.Env))
	}
	return o.Traces.Close, err
}

// Show passes on how far the play is, if anybody listens.
func (o *Options) Show(s progress.State) {
	if o.Progress != nil {
		o.Progress(s)
	}
}

func Override(getenv func(string) string, name, val string) func(string) string {
	return func(k string) string {
		if k == name {
			return val
		}
		return getenv(k)
	}
}

// Options turns resolved settings into what a role takes. driver "" is that of
// the environment.
func (l List) Options(c cli.Common, driver string) Options {
	// Through the settings, never around them: they withhold the key from an
	// upstream that only a found agon.toml names.
	getenv := c.Config.Getenv(os.Getenv)
	if driver != "" {
		getenv = Override(getenv, "AGON_DRIVER", driver)
	}
	o := Options{
		Data: c.Config.Get(config.Data), Cache: c.Config.Get(config.Cache), Listen: c.Config.Get(config.Listen),
		Store: c.Config.Get(config.Store), Blobs: c.Config.Get(config.Blobs),
		Getenv: getenv, Log: c.Log, Progress: c.Progress, Kits: l,
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.Say, o.TLS, o.Over = c.Say, c.TLS, c.Over
	return o
}
