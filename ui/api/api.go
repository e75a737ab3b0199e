// Package api serves agon's own HTTP API under /v1: OpenAPI 3.1 generated from
// the handlers, problem+json for errors, SSE with resume for live runs. It is
// thin: signatures and limits here, use cases in platform.
package api

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/platform"
)

// Verifier checks the agon-v1 signature of a request. Errors are *agon.Error
// with status 401.
type Verifier interface {
	// CheckHeaders refuses what no body can make valid; the hotkey is only claimed.
	CheckHeaders(method string, h http.Header) (hotkey string, err error)
	VerifyRequest(ctx context.Context, method, pathAndQuery string, h http.Header, body []byte) (hotkey string, err error)
}

// Graphs shows the subnets of a ledger.
type Graphs interface {
	Metagraph(ctx context.Context, netuid uint16) (*client.Metagraph, error)
}

// Ledger is the part of the embedded ledger that /v1 offers to other processes.
type Ledger interface {
	Metagraph(ctx context.Context, netuid uint16) (*client.Metagraph, error)
	// Register registers a hotkey for signer, whom it checks; a permit is asked for
	// by the operator only.
	Register(ctx context.Context, netuid uint16, signer string, r client.RegisterRequest) (uid uint16, err error)
	// Fund gives money of the embedded ledger to a coldkey and returns what it has.
	Fund(ctx context.Context, r client.FundRequest) (*client.Balance, error)
	SetWeights(ctx context.Context, netuid uint16, hotkey string, r client.SetWeightsRequest) error
}

// Webhooks is what /v1 needs of them; nil: this server tells nobody.
type Webhooks interface {
	Add(ctx context.Context, url string, types []string) (*agon.Webhook, error)
	List(ctx context.Context) ([]agon.Webhook, error)
	Remove(ctx context.Context, id string) error
	PublicKey() string
}

// Config configures the API.
type Config struct {
	Webhooks Webhooks
	Platform Platform
	Ledger   Ledger
	// LedgerOf is the ledger that an arena is on; nil: all are on Ledger.
	LedgerOf func(a agon.Arena) Graphs
	Verifier Verifier
	Server   client.Server // Time is filled in per request
	// Permit says who is a validator; asked before a blob's bytes are read. nil:
	// only the platform asks, afterwards.
	Permit func(ctx context.Context, hotkey string) (bool, error)
	Now    func() time.Time
	Log    *slog.Logger
}

// Body limits in bytes. A request over its limit is answered 413 before it is read whole.
const (
	limitDefault = 256 << 10
	limitSubmit  = 16 << 20
	limitReport  = 48 << 20
	limitBlob    = 64 << 20
)

// New returns the handler of /v1 and of /openapi.json.
func New(cfg Config) http.Handler {
	a := &server{cfg: cfg}
	mux := http.NewServeMux()
	hc := huma.DefaultConfig("agon", agon.Version)
	hc.Info.Description = "Open competitions of agents. Requests that change anything carry an agon-v1 signature: " +
		"headers Agon-Hotkey, Agon-Timestamp (ms), Agon-Nonce (uuid), Agon-Signature, sr25519 over " +
		"agon-v1\\nMETHOD\\npath?query\\nsha256hex(body)\\nnonce\\ntimestamp\\naudience."
	hc.DocsPath = "" // its page would load scripts from elsewhere
	hc.SchemasPath = ""
	hc.CreateHooks = nil
	hc.Components.Schemas = huma.NewMapRegistry("#/components/schemas/", schemaName)
	emptyFiles(hc.Components.Schemas)
	// huma knows no other way to shape its own errors than this variable.
	huma.NewErrorWithContext = func(ctx huma.Context, status int, msg string, errs ...error) huma.StatusError {
		e := &agon.Error{Code: codeFor(status), Status: status, Message: msg}
		for _, err := range errs {
			var d huma.ErrorDetailer
			if errors.As(err, &d) {
				det := d.ErrorDetail()
				e.Findings = append(e.Findings, agon.Finding{Code: "invalid", Field: det.Location, Message: det.Message})
				if e.Field == "" {
					e.Field, e.Message = det.Location, msg+": "+det.Message
				}
			} else if err != nil {
				e.Message += ": " + err.Error()
			}
		}
		return problemOf(ctx.Context(), e)
	}
	api := humago.New(mux, hc)
	a.routes(mux, api)
	a.streams(mux, api.OpenAPI())
	return a.wrap(mux, a.shared(mux))
}

// schemaName names a type in the document. A noun and what the API shows of it
// share a Go name; the latter is the view.
func schemaName(t reflect.Type, hint string) string {
	name := huma.DefaultSchemaNamer(t, hint)
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	switch t {
	case reflect.TypeFor[client.Arena](), reflect.TypeFor[client.Submission](), reflect.TypeFor[client.Run]():
		return name + "View"
	}
	return name
}

type server struct {
	cfg      Config
	inflight inflight
}

type ctxKey int

const (
	keyCaller ctxKey = iota
	keyRequestID
)

func caller(ctx context.Context) platform.Caller {
	c, _ := ctx.Value(keyCaller).(platform.Caller)
	return c
}

func requestID(ctx context.Context) string {
	s, _ := ctx.Value(keyRequestID).(string)
	return s
}

// noRoute is the pattern of what no route is for.
const noRoute = "/"

// wrap gives each request an id, bounds and reads its body, and checks the
// signature: always when something may change, else when one is sent. A request that
// mux has no route for is told so, signed or not.
func (a *server) wrap(mux *http.ServeMux, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var idb [8]byte
		_, _ = rand.Read(idb[:]) // never fails (crypto/rand)
		id := "req_" + hex.EncodeToString(idb[:])
		w.Header().Set("X-Request-Id", id)
		w.Header().Set("X-Content-Type-Options", "nosniff")
		ctx := context.WithValue(r.Context(), keyRequestID, id)
		defer func() {
			if p := recover(); p != nil {
				a.cfg.Log.Error("handler panicked", "request", id, "path", r.URL.Path, "panic", p)
				writeProblem(w, problemOf(ctx, &agon.Error{Code: "internal", Status: 500, Message: "internal error", Fault: agon.FaultPlatform}))
			}
		}()
		mutates := r.Method != http.MethodGet && r.Method != http.MethodHead
		if mutates {
			if h, pattern := mux.Handler(r); pattern == noRoute {
				h.ServeHTTP(w, r.WithContext(ctx))
				return
			}
		}
		limit := bodyLimit(r)
		if r.ContentLength > limit {
			writeProblem(w, problemOf(ctx, tooLarge(limit)))
			return
		}
		signed := mutates || r.Header.Get("Agon-Signature") != "" || r.Header.Get("X-Bittensor-Signature") != ""
		claimed := ""
		if signed {
			var err error
			if claimed, err = a.cfg.Verifier.CheckHeaders(r.Method, r.Header); err == nil {
				err = a.mayUpload(ctx, r, claimed)
			}
			if err != nil {
				refuseUnread(w, r, problemOf(ctx, err))
				return
			}
		}
		body, done, err := a.inflight.read(r, claimed, limit)
		defer done()
		if errors.Is(err, errInflight) {
			w.Header().Set("Retry-After", "1")
			refuseUnread(w, r, problemOf(ctx, noRoom()))
			return
		}
		if err != nil {
			writeProblem(w, problemOf(ctx, &agon.Error{Code: "bad_body", Status: 400, Message: "the body could not be read"}))
			return
		}
		if int64(len(body)) > limit {
			writeProblem(w, problemOf(ctx, tooLarge(limit)))
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		if strings.HasPrefix(r.URL.Path, pathLeases) || strings.HasPrefix(r.URL.Path, pathJudging) {
			ctx = platform.DeferNonce(ctx)
		}
		if signed {
			hotkey, err := a.cfg.Verifier.VerifyRequest(ctx, r.Method, r.URL.RequestURI(), r.Header, body)
			if err != nil {
				writeProblem(w, problemOf(ctx, err))
				return
			}
			ctx = context.WithValue(ctx, keyCaller, platform.Caller{Hotkey: hotkey, Operator: hotkey == a.cfg.Server.Operator})
		}
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// mayUpload refuses the largest bodies to who claims to be no validator.
func (a *server) mayUpload(ctx context.Context, r *http.Request, claimed string) error {
	if a.cfg.Permit == nil || claimed == a.cfg.Server.Operator || !strings.HasPrefix(r.URL.Path, "/v1/blobs/") || r.Method != http.MethodPut {
		return nil
	}
	ok, err := a.cfg.Permit(ctx, claimed)
	if err == nil && !ok {
		err = &agon.Error{Code: "no_permit", Status: 403, Message: "only validators of an arena here store blobs"}
	}
	return err
}

// refuseUnread answers without the body; a long one is not waited for.
func refuseUnread(w http.ResponseWriter, r *http.Request, p *problem) {
	if r.ContentLength < 0 || r.ContentLength > limitDefault {
		w.Header().Set("Connection", "close")
	}
	writeProblem(w, p)
}

func bodyLimit(r *http.Request) int64 {
	p := r.URL.Path
	switch {
	case strings.HasPrefix(p, "/v1/blobs/"):
		return limitBlob
	case strings.HasPrefix(p, "/v1/leases/"):
		return limitReport
	case strings.HasSuffix(p, "/submissions"):
		return limitSubmit
	}
	return limitDefault
}

func tooLarge(limit int64) *agon.Error {
	return &agon.Error{Code: "too_large", Status: 413, Field: "body", Limit: strconv.FormatInt(limit, 10) + " bytes", Message: "the request body is too large"}
}

func codeFor(status int) string {
	switch status {
	case 400:
		return "bad_request"
	case 401:
		return "unauthenticated"
	case 403:
		return "forbidden"
	case 404:
		return "not_found"
	case 409:
		return "conflict"
	case 413:
		return "too_large"
	case 415:
		return "unsupported_media_type"
	case 422:
		return "invalid"
	case 429:
		return "too_many"
	}
	return "internal"
}

// problem is the one public error. It implements huma.StatusError.
type problem struct{ client.Problem }

func (p *problem) Error() string             { return p.Detail }
func (p *problem) GetStatus() int            { return p.Status }
func (p *problem) ContentType(string) string { return "application/problem+json" }

// problemOf is the one place where errors become public. Errors that are not
// *agon.Error are ours and their text stays inside.
func problemOf(ctx context.Context, err error) *problem {
	var e *agon.Error
	if away := platform.Away(err); away != nil {
		e = away
	} else if !errors.As(err, &e) {
		var p *problem
		if errors.As(err, &p) {
			return p
		}
		e = &agon.Error{Code: "internal", Status: 500, Message: "internal error", Fault: agon.FaultPlatform}
	}
	status := e.Status
	if status == 0 {
		status = 500
	}
	return &problem{client.Problem{
		Type: errorType(e.Code), Title: http.StatusText(status), Status: status, Detail: e.Message, Code: e.Code,
		Field: e.Field, Limit: e.Limit, Mend: e.Mend, Fault: e.Fault, Findings: e.Findings, RequestID: requestID(ctx),
	}}
}

// errorType is the type of a problem (RFC 9457): the place of the documentation,
// on this server, that says what its code means and what to do.
func errorType(code string) string {
	if code == "" {
		return "about:blank"
	}
	return "/docs/errors#" + strings.ReplaceAll(code, "_", "-")
}

// emptyFiles lets a file be empty: huma wants at least one character of what it
// calls base64. The decoder checks the rest.
func emptyFiles(r huma.Registry) {
	r.Schema(reflect.TypeFor[client.File](), true, "")
	if c := r.Map()["File"].Properties["content"]; c != nil {
		c.ContentEncoding, c.Format = "", "byte"
	}
}
