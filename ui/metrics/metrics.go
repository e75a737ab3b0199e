// Package metrics shows a server's state to Prometheus: queues, runs, faults,
// money, seats. Everything is read when it is scraped, at most once in five
// seconds, so counting costs the engine nothing.
package metrics

import (
	"context"
	"log/slog"
	"net/http"
	"runtime"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/platform"
	"github.com/agon-arena/agon/engine/store"
)

// Source is what is counted; *platform.Platform implements it.
type Source interface {
	Overview(ctx context.Context) (*client.Overview, error)
	Arenas(ctx context.Context) ([]client.Arena, error)
	Facts(ctx context.Context, arena string) (platform.ArenaFacts, error)
	Validators(ctx context.Context, arena string) ([]store.ValidatorStat, error)
	Storage(ctx context.Context) platform.Storage
}

// Config configures the handler.
type Config struct {
	Source Source
	// Requests are what the server has answered; nil: they are not shown.
	Requests *Requests
	Now      func() time.Time
	Log      *slog.Logger
}

// freshFor is how long one reading serves.
const freshFor = 5 * time.Second

// timeout bounds a reading.
const timeout = 10 * time.Second

type collector struct {
	cfg  Config
	mu   sync.Mutex
	at   time.Time
	last []prometheus.Metric
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("agon_"+name, help, labels, nil)
}

var (
	build       = desc("build_info", "Version of this agon; always 1.", "version", "go")
	up          = desc("up", "1 if the platform could be read, else 0.")
	blobs       = desc("blobs_up", "1 if the place of the blobs answers, else 0.")
	diskFree    = desc("disk_free_bytes", "What is left of the disk of the data directory.")
	diskTotal   = desc("disk_total_bytes", "Size of the disk of the data directory.")
	arenaOpen   = desc("arena_open", "1 while an arena takes submissions.", "arena", "kind")
	queued      = desc("runs_queued", "Runs that wait for a validator.", "arena")
	waiting     = desc("queue_waiting_seconds", "How long ago the run that is next in the queue was made; 0: none waits.", "arena")
	playing     = desc("runs_playing", "Runs that a validator holds.", "arena")
	submissions = desc("submissions_total", "Submissions admitted.", "arena")
	miners      = desc("miners", "Hotkeys that have entered.", "arena")
	spent       = desc("cost_micros_total", "Money of counted attempts, in millionths of a US dollar.", "arena")
	seat        = desc("seat_score", "Score in the seat; absent while it is empty.", "arena")
	since       = desc("seat_since_seconds", "When the seat was taken, Unix time.", "arena")
	runs        = desc("runs_total", "Runs that ended, by state.", "state")
	faults      = desc("faults_total", "Attempts that failed, by whose fault it was.", "fault")
	attempts    = desc("validator_attempts_total", "Attempts of a validator.", "arena", "validator")
	ours        = desc("validator_our_faults_total", "Attempts of a validator that ended by a fault of ours.", "arena", "validator")
	leases      = desc("validator_leases", "Leases that a validator holds.", "arena", "validator")
	seen        = desc("validator_seen_seconds", "When a validator last asked for work, Unix time.", "arena", "validator")
)

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{build, up, blobs, diskFree, diskTotal, arenaOpen, queued, waiting, playing, submissions, miners, spent, seat, since, runs, faults, attempts, ours, leases, seen} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := c.cfg.Now(); c.last == nil || now.Sub(c.at) >= freshFor {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		list, err := c.read(ctx)
		cancel()
		list = append(list, c.storage()...)
		ok := 1.0
		if err != nil {
			c.cfg.Log.Error("metrics are not read", "err", err)
			ok = 0
		}
		c.last, c.at = append(list, gauge(up, ok), gauge(build, 1, agon.Version, runtime.Version())), now
	}
	for _, m := range c.last {
		ch <- m
	}
}

func gauge(d *prometheus.Desc, v float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

func counter(d *prometheus.Desc, v float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
}

// storage is read also where the platform cannot be: a full disk may be why.
func (c *collector) storage() []prometheus.Metric {
	s, answers := c.cfg.Source.Storage(context.Background()), 1.0
	if s.Blobs != nil {
		c.cfg.Log.Error("the place of the blobs does not answer", "err", s.Blobs)
		answers = 0
	}
	out := []prometheus.Metric{gauge(blobs, answers)}
	if s.DiskTotal > 0 {
		out = append(out, gauge(diskFree, float64(s.DiskFree)), gauge(diskTotal, float64(s.DiskTotal)))
	}
	return out
}

func (c *collector) read(ctx context.Context) (out []prometheus.Metric, err error) {
	s := c.cfg.Source
	list, err := s.Arenas(ctx)
	if err != nil {
		return nil, err
	}
	for _, a := range list {
		open := 0.0
		if a.State == agon.ArenaOpen {
			open = 1
		}
		f, err := s.Facts(ctx, a.ID)
		if err != nil {
			return nil, err
		}
		wait := 0.0
		if !f.Waiting.IsZero() {
			wait = max(0, c.cfg.Now().Sub(f.Waiting).Seconds())
		}
		out = append(out, gauge(waiting, wait, a.ID), gauge(arenaOpen, open, a.ID, a.Kind), gauge(queued, float64(a.Queued), a.ID), gauge(playing, float64(a.Playing), a.ID),
			counter(submissions, float64(f.Submissions), a.ID), gauge(miners, float64(f.Miners), a.ID), counter(spent, float64(f.CostMicros), a.ID))
		if a.Champion != nil {
			out = append(out, gauge(seat, a.Champion.Score, a.ID), gauge(since, float64(a.Champion.Since.Unix()), a.ID))
		}
		vs, err := s.Validators(ctx, a.ID)
		if err != nil {
			return nil, err
		}
		for _, v := range vs {
			out = append(out, counter(attempts, float64(v.Attempts), a.ID, v.Validator), counter(ours, float64(v.Ours), a.ID, v.Validator),
				gauge(leases, float64(v.Live), a.ID, v.Validator), gauge(seen, float64(v.SeenAt.Unix()), a.ID, v.Validator))
		}
	}
	ov, err := s.Overview(ctx)
	if err != nil {
		return nil, err
	}
	out = append(out, counter(runs, float64(ov.Runs.Scored), "scored"), counter(runs, float64(ov.Runs.Failed), "failed"))
	for _, f := range agon.Faults {
		out = append(out, counter(faults, float64(ov.Runs.ByFault[f]), string(f)))
	}
	return out, nil
}

// Handler serves the metrics of a server and of its process.
func Handler(cfg Config) http.Handler {
	reg := prometheus.NewRegistry()
	reg.MustRegister(&collector{cfg: cfg}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if cfg.Requests != nil {
		reg.MustRegister(cfg.Requests.seconds, cfg.Requests.active)
	}
	return promhttp.HandlerFor(reg, promhttp.HandlerOpts{MaxRequestsInFlight: 4, Timeout: timeout})
}
