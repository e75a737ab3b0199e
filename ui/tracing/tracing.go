// Package tracing sends OpenTelemetry spans by OTLP over HTTP, where an operator
// asks for them: one a request that is served, and one tree a lease, with its
// phases and its calls. Spans hold ids, names, times, counts and codes. They
// never hold a query, a header, a body or a key. No trace context of strangers is taken
// over: a validator's lease stands below the claim of the server that it plays for, a
// gateway's calls below the lease that opened their session.
package tracing

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/validator"
	"github.com/agon-arena/agon/internal/lazyregexp"
	"github.com/agon-arena/agon/internal/plain"
	"github.com/agon-arena/agon/internal/served"
	"github.com/agon-arena/agon/internal/traceparent"
)

// Env names the switch: the address of an OTLP/HTTP collector. Unset: no spans.
const Env = "AGON_TRACES"

// Config configures a Tracer.
type Config struct {
	URL  string // http(s)://host:port, or with a path; /v1/traces is meant without one
	Role string // which part of agon this is: up, serve, validator, gateway
	Log  *slog.Logger
	Now  func() time.Time
}

// Tracer makes spans. A nil Tracer makes none.
type Tracer struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
	now      func() time.Time
	log      *slog.Logger
}

// Open starts to send spans to c.URL, in batches; nil without one. The
// collector is not asked now: where it is away, spans are dropped and agon goes
// on.
func Open(ctx context.Context, c Config) (*Tracer, error) {
	if c.URL == "" {
		return nil, nil //nolint:nilnil // a nil Tracer is one that is off
	}
	u, err := url.Parse(c.URL)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") || u.User != nil || u.RawQuery != "" {
		return nil, &agon.Error{
			Code: "bad_traces", Status: 422, Field: Env, Message: Env + " must be the http(s) address of an OTLP collector",
			Mend: "for example " + Env + "=http://127.0.0.1:4318", Err: err,
		}
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/v1/traces"
	}
	exp, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(u.String()), otlptracehttp.WithTimeout(5*time.Second),
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{Enabled: true, InitialInterval: time.Second, MaxInterval: 5 * time.Second, MaxElapsedTime: 30 * time.Second}))
	if err != nil {
		return nil, fmt.Errorf("open traces: %w", err)
	}
	// The resource is ours alone: the SDK's own would add the command line and the environment's words.
	res := resource.NewSchemaless(attribute.String("service.name", "agon"), attribute.String("service.version", agon.Version), attribute.String("agon.role", c.Role))
	p := sdktrace.NewTracerProvider(sdktrace.WithBatcher(quiet{exp, c.Log}), sdktrace.WithResource(res),
		sdktrace.WithSampler(sdktrace.AlwaysSample()))
	return &Tracer{provider: p, tracer: p.Tracer("agon"), now: c.Now, log: c.Log}, nil
}

// quiet logs what could not be sent, in place of the SDK's global handler.
type quiet struct {
	sdktrace.SpanExporter
	log *slog.Logger
}

func (q quiet) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	if err := q.SpanExporter.ExportSpans(ctx, spans); err != nil {
		q.log.Warn("spans not sent", "spans", len(spans), "err", err)
	}
	return nil
}

// Close sends what is left, for at most three seconds.
func (t *Tracer) Close() {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	if err := t.provider.Shutdown(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		t.log.Warn("traces not closed", "err", err)
	}
}

// Handler makes a span of each request that next serves.
func (t *Tracer) Handler(next http.Handler) http.Handler {
	if t == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, span := t.tracer.Start(r.Context(), r.Method, trace.WithSpanKind(trace.SpanKindServer), trace.WithTimestamp(t.now()), trace.WithNewRoot())
		ctx = traceparent.With(ctx, place(span))
		rec := &served.Status{ResponseWriter: w}
		r = r.WithContext(ctx)
		defer func() {
			route, ids := routeOf(r.URL.Path)
			span.SetName(method(r.Method) + " " + route)
			span.SetAttributes(attribute.String("http.request.method", method(r.Method)), attribute.String("http.route", route), attribute.Int("http.response.status_code", rec.Code()))
			if len(ids) > 0 {
				span.SetAttributes(attribute.StringSlice("agon.ids", ids))
			}
			if rec.Code() >= 500 {
				span.SetStatus(codes.Error, "")
			}
			span.End(trace.WithTimestamp(t.now()))
		}()
		next.ServeHTTP(rec, r)
	})
}

var (
	idPart   = lazyregexp.New(`^(?:[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|sha256:[0-9a-f]{64})$`)
	wordPart = lazyregexp.New(`^[a-z][a-z_-]{0,30}$|^v[0-9]$`)
)

// routeOf is the path with everything but plain words taken out, and the ids
// of ours among that: what a stranger writes into a path may be a secret.
func routeOf(path string) (route string, ids []string) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	if len(parts) > 8 {
		parts = parts[:8]
	}
	for i, p := range parts {
		switch {
		case idPart().MatchString(p):
			ids = append(ids, p)
			parts[i] = "{id}"
		case p != "" && !wordPart().MatchString(p):
			parts[i] = "{}"
		}
	}
	return "/" + strings.Join(parts, "/"), ids
}

func method(m string) string {
	switch m {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return m
	}
	return "_OTHER"
}

// place is where a span stands, as W3C traceparent.
func place(s trace.Span) string {
	at := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(trace.ContextWithSpan(context.Background(), s), at)
	return at.Get("traceparent")
}

// below is a context below a span of another process; "" or what is no place: below none.
func below(ctx context.Context, at string) context.Context {
	if !traceparent.Valid(at) {
		return trace.ContextWithSpan(ctx, nil)
	}
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": at})
}

func idsOf(l *client.Lease) []attribute.KeyValue {
	return []attribute.KeyValue{
		attribute.String("agon.arena", l.Arena.ID), attribute.String("agon.kind", l.Arena.Kind), attribute.String("agon.submission", l.Submission.ID),
		attribute.String("agon.run", l.Run.Run), attribute.Int("agon.attempt", l.Attempt),
	}
}

// Begin starts the span of a lease, below the server's span of its claim. Attempt ends it.
func (t *Tracer) Begin(ctx context.Context, l *client.Lease, from time.Time) context.Context {
	if t == nil {
		return ctx
	}
	ctx, lease := t.tracer.Start(below(ctx, l.Trace), "lease", trace.WithTimestamp(from), trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(idsOf(l)...),
		trace.WithAttributes(attribute.String("agon.lease", l.ID), attribute.Int("agon.tasks", len(l.Run.Tasks))))
	return traceparent.With(ctx, place(lease))
}

// Attempt makes the tree of one lease from its evidence, below the span that Begin put
// into ctx: the lease from when it came until its result was taken (or given up), its
// phases, and each call that the gateway has signed.
func (t *Tracer) Attempt(ctx context.Context, l *client.Lease, a *validator.Attempt, from time.Time) {
	if t == nil {
		return
	}
	end := t.now()
	ids, lease := idsOf(l), trace.SpanFromContext(ctx)
	runCtx, run := t.tracer.Start(ctx, "run", trace.WithTimestamp(from), trace.WithAttributes(ids...), trace.WithAttributes(
		attribute.String("agon.outcome", word(a.Outcome)), attribute.String("agon.fault", string(a.Fault)), attribute.String("agon.driver", word(a.Driver.Name)),
		attribute.Int64("agon.cost_micros", int64(a.Cost)), attribute.Int64("agon.box_ms", a.BoxTime.Milliseconds())))
	if a.Fault.Ours() {
		run.SetStatus(codes.Error, string(a.Fault))
	}
	ended := from.Add(a.Wall)
	t.phases(runCtx, a, ended)
	for i := range a.Receipts {
		t.call(runCtx, &a.Receipts[i], trace.SpanKindClient)
	}
	run.End(trace.WithTimestamp(ended))
	lease.End(trace.WithTimestamp(end))
}

func (t *Tracer) phases(ctx context.Context, a *validator.Attempt, end time.Time) {
	var open trace.Span
	for _, e := range a.Phases() {
		var d struct{ Phase string }
		if json.Unmarshal(e.Data, &d) != nil || (d.Phase != string(agon.RunPlaying) && d.Phase != string(agon.RunJudging)) {
			continue
		}
		if open != nil {
			open.End(trace.WithTimestamp(e.At))
		}
		_, open = t.tracer.Start(ctx, d.Phase, trace.WithTimestamp(e.At))
		if e.At.After(end) { // the lease began a moment before the play
			end = e.At
		}
	}
	if open != nil {
		open.End(trace.WithTimestamp(end))
	}
}

// Called makes a gateway's span of each call, below the lease whose validator opened the
// session. It returns nil where no spans are sent.
func (t *Tracer) Called() func(within string, r *agon.Receipt) {
	if t == nil {
		return nil
	}
	return func(within string, r *agon.Receipt) {
		t.call(below(context.Background(), within), r, trace.SpanKindServer, attribute.String("agon.run", word(r.Run)), attribute.Int("agon.attempt", r.Attempt))
	}
}

// call is a span by the GenAI conventions: https://opentelemetry.io/docs/specs/semconv/gen-ai/.
func (t *Tracer) call(ctx context.Context, r *agon.Receipt, as trace.SpanKind, more ...attribute.KeyValue) {
	op := "chat"
	if r.Prompt+r.Completion == 0 && !strings.Contains(r.Route, "completions") && !strings.Contains(r.Route, "messages") && !strings.Contains(r.Route, "responses") {
		op = "execute_tool"
	}
	name := word(r.Model)
	attrs := []attribute.KeyValue{
		attribute.String("gen_ai.operation.name", op), attribute.String("agon.receipt", r.ID), attribute.String("agon.session", r.Session),
		attribute.String("agon.outcome", word(r.Outcome)), attribute.Int("http.response.status_code", r.Status), attribute.Int64("agon.cost_micros", int64(r.Cost)),
	}
	if op == "chat" {
		attrs = append(attrs, attribute.String("gen_ai.provider.name", word(r.Provider)), attribute.String("gen_ai.request.model", name),
			attribute.Int64("gen_ai.usage.input_tokens", int64(r.Prompt)), attribute.Int64("gen_ai.usage.output_tokens", int64(r.Completion)))
	} else {
		attrs = append(attrs, attribute.String("gen_ai.tool.name", name))
	}
	_, s := t.tracer.Start(ctx, op+" "+name, trace.WithTimestamp(r.Start), trace.WithSpanKind(as), trace.WithAttributes(attrs...), trace.WithAttributes(more...))
	if r.Outcome != "ok" {
		s.SetStatus(codes.Error, word(r.Outcome))
	}
	s.End(trace.WithTimestamp(r.End))
}

// word is a name as it may stand in a span: one line of at most 100 bytes.
func word(s string) string {
	s = plain.Line(s)
	if len(s) > 100 {
		s = strings.ToValidUTF8(s[:100], "")
	}
	return s
}
