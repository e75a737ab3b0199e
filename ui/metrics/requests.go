package metrics

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/agon-arena/agon/internal/served"

	"github.com/prometheus/client_golang/prometheus"
)

// Requests counts what a server answers: rate, errors and times of each route. Routes are
// the patterns of the server, so that no stranger makes new ones. Safe for concurrent use.
type Requests struct {
	seconds *prometheus.HistogramVec
	active  prometheus.Gauge
}

// NewRequests counts from zero.
func NewRequests() *Requests {
	return &Requests{
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "agon_http_request_seconds", Help: "Time of requests by route and class of reply. Claims and streams wait for news: their times are long by design.",
			Buckets: []float64{.001, .005, .02, .1, .5, 2, 10, 30},
		}, []string{"route", "code"}),
		active: prometheus.NewGauge(prometheus.GaugeOpts{Name: "agon_http_requests_active", Help: "Requests under way."}),
	}
}

// Wrap counts what next answers.
func (q *Requests) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q.active.Inc()
		defer q.active.Dec()
		s := &served.Status{ResponseWriter: w}
		timer := prometheus.NewTimer(prometheus.ObserverFunc(func(v float64) { q.seconds.WithLabelValues(route(r), strconv.Itoa(s.Code()/100)+"xx").Observe(v) }))
		defer timer.ObserveDuration()
		next.ServeHTTP(s, r)
	})
}

// route is the pattern that answered, without its method's rest: what no pattern answers is one route.
func route(r *http.Request) string {
	if r.Pattern == "" || r.Pattern == "/" {
		return "other"
	}
	if !strings.Contains(r.Pattern, " ") && (r.Method == http.MethodGet || r.Method == http.MethodPost) {
		return r.Method + " " + r.Pattern
	}
	return r.Pattern
}
