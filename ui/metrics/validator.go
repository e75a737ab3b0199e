package metrics

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/agon-arena/agon/sandbox"
)

// Validator counts what a validator does. It is a validator.Watch, and counts the boxes
// of a driver. The names, labels and buckets are those that validators of subnets are
// watched by already (spec/oro.md 2.3), so that their dashboards read this one too.
type Validator struct {
	now    func() time.Time
	reg    *prometheus.Registry
	runs   prometheus.Gauge
	beats  *prometheus.CounterVec
	claims *prometheus.CounterVec
	took   prometheus.Histogram
	boxes  prometheus.Gauge
	lasted prometheus.Histogram
}

// NewValidator counts from zero, on the given clock.
func NewValidator(now func() time.Time) *Validator {
	v := &Validator{
		now: now, reg: prometheus.NewRegistry(),
		runs:   prometheus.NewGauge(prometheus.GaugeOpts{Name: "validator_active_runs", Help: "Runs that are played now."}),
		beats:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: "validator_heartbeat_total", Help: "Heartbeats, by whether they were answered."}, []string{"result"}),
		claims: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "validator_claim_work_total", Help: "Claims, by what came of them."}, []string{"result"}),
		took:   prometheus.NewHistogram(prometheus.HistogramOpts{Name: "validator_claim_work_seconds", Help: "How long a claim took; one without work is held for some seconds.", Buckets: append(prometheus.DefBuckets, 20, 30)}),
		boxes:  prometheus.NewGauge(prometheus.GaugeOpts{Name: "validator_sandbox_active", Help: "Boxes that run now."}),
		lasted: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "validator_sandbox_duration_seconds", Help: "How long a box lived.", Buckets: []float64{30, 60, 120, 180, 300, 600, 1200, 1800, 3600}}),
	}
	v.reg.MustRegister(v.runs, v.beats, v.claims, v.took, v.boxes, v.lasted, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	for _, r := range []string{"success", "failure"} {
		v.beats.WithLabelValues(r) // a rate needs a zero to begin at
	}
	for _, r := range []string{"success", "empty", "error"} {
		v.claims.WithLabelValues(r)
	}
	return v
}

// Claimed counts a claim.
func (v *Validator) Claimed(took time.Duration, found bool, err error) {
	result := "empty"
	switch {
	case err != nil:
		result = "error"
	case found:
		result = "success"
	}
	v.claims.WithLabelValues(result).Inc()
	v.took.Observe(took.Seconds())
}

// Beat counts a heartbeat.
func (v *Validator) Beat(err error) {
	result := "success"
	if err != nil {
		result = "failure"
	}
	v.beats.WithLabelValues(result).Inc()
}

// Plays counts runs up and down.
func (v *Validator) Plays(n int) { v.runs.Add(float64(n)) }

// Driver counts the boxes of d.
func (v *Validator) Driver(d sandbox.Driver) sandbox.Driver { return countedDriver{d, v} }

// Handler serves what was counted, and the process.
func (v *Validator) Handler() http.Handler {
	return promhttp.HandlerFor(v.reg, promhttp.HandlerOpts{MaxRequestsInFlight: 4, Timeout: timeout})
}

type countedDriver struct {
	sandbox.Driver
	v *Validator
}

// GivesDevices implements sandbox.DeviceGiver.
func (d countedDriver) GivesDevices() bool { return sandbox.GivesDevices(d.Driver) }

// Start implements sandbox.Driver.
func (d countedDriver) Start(ctx context.Context, s sandbox.Spec) (sandbox.Box, error) {
	from := d.v.now()
	b, err := d.Driver.Start(ctx, s)
	if err != nil {
		return nil, err
	}
	d.v.boxes.Inc()
	return &countedBox{Box: b, gone: sync.OnceFunc(func() {
		d.v.boxes.Dec()
		d.v.lasted.Observe(d.v.now().Sub(from).Seconds())
	})}, nil
}

// countedBox is one of a counted driver.
type countedBox struct {
	sandbox.Box
	gone func() // counts its end, once
}

// Layer implements sandbox.Box: it ends the box.
func (b *countedBox) Layer(ctx context.Context, target string) (*sandbox.Layer, error) {
	l, err := b.Box.Layer(ctx, target)
	b.gone()
	return l, err
}

// Close implements sandbox.Box.
func (b *countedBox) Close() error {
	err := b.Box.Close()
	b.gone()
	return err
}
