// Package wire speaks the wire of BitSota's research coordinator under
// /api/v1, so that its miners and validators work with agon unmodified; thin
// over package coordinator. README.md of kinds/research lists what differs.
package wire

import (
	"bytes"
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/auth/dialect"
	"github.com/agon-arena/agon/internal/served"
	"github.com/agon-arena/agon/kinds/research/coordinator"
)

// Limits of requests, in bytes.
const (
	maxSmall = 256 << 10 // of all bodies but submissions and results
)

// Config configures the routes. Coordinator and Verifier are needed.
type Config struct {
	Coordinator *coordinator.Coordinator
	// Verifier checks BT-AUTH-V1 and keeps its replays.
	Verifier *dialect.Verifier
	// AdminToken opens the admin's routes; empty: they are closed.
	AdminToken string
	// Admit, where it is set, says which hotkeys may act as validators, besides
	// the ledger's permits.
	Admit func(ctx context.Context, hotkey string) bool
	// SignedReads demands a signature for lists of submissions too.
	SignedReads bool
	// Verify opens the legacy /verify; else it answers 503.
	Verify bool
	// Version of the OpenAPI document.
	Version string
	Log     *slog.Logger
}

type handler struct {
	Config
	mux *http.ServeMux
}

// New makes the handler of every route in Routes.
func New(cfg Config) (http.Handler, error) {
	if cfg.Coordinator == nil || cfg.Verifier == nil {
		return nil, errors.New("bitsota config: Coordinator and Verifier are needed")
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	h := &handler{Config: cfg, mux: http.NewServeMux()}
	for _, r := range h.routes() {
		h.mux.HandleFunc(r.method+" "+r.path, r.handle)
	}
	h.mux.HandleFunc("/git/{repo}/", h.git)
	h.mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { reply(w, http.StatusNotFound, detail("Not Found")) })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodHead && r.URL.Path == "/readyz" {
			w.Header().Set("Allow", "GET")
			reply(w, http.StatusMethodNotAllowed, detail("Method Not Allowed"))
			return
		}
		h.mux.ServeHTTP(w, r)
	}), nil
}

func detail(v any) map[string]any { return map[string]any{"detail": v} }

func reply(w http.ResponseWriter, status int, v any) {
	served.JSON(w, status, v, `{"detail":"Internal Server Error"}`)
}

// fail answers an error in FastAPI's shape.
func (h *handler) fail(w http.ResponseWriter, r *http.Request, err error) {
	var no *coordinator.Refusal
	var ae *agon.Error
	switch {
	case errors.As(err, &no):
		if no.Plain {
			reply(w, no.Status, detail(no.Message))
			return
		}
		body := map[string]any{}
		for k, v := range no.Context {
			body[k] = v
		}
		body["error"], body["message"] = no.Code, no.Message
		reply(w, no.Status, detail(body))
	case errors.As(err, &ae) && ae.Code == auth.CodeReplayed:
		reply(w, http.StatusUnauthorized, detail("request was used before: sign it again"))
	case errors.As(err, &ae) && ae.Status >= 400:
		if ae.Status >= 500 {
			h.Log.ErrorContext(r.Context(), "research request", "path", r.URL.Path, "err", err)
		}
		body := map[string]any{"error": ae.Code, "message": ae.Message}
		for k, v := range map[string]string{"field": ae.Field, "limit": ae.Limit, "mend": ae.Mend} {
			if v != "" {
				body[k] = v
			}
		}
		if len(ae.Findings) > 0 {
			body["findings"] = ae.Findings
		}
		reply(w, ae.Status, detail(body))
	default:
		h.Log.ErrorContext(r.Context(), "research request", "path", r.URL.Path, "err", err)
		reply(w, http.StatusInternalServerError, detail("Internal Server Error"))
	}
}

// send answers v, or err if there is one.
func (h *handler) send(w http.ResponseWriter, r *http.Request, v any, err error) {
	if err != nil {
		h.fail(w, r, err)
		return
	}
	reply(w, http.StatusOK, v)
}

// body reads at most limit bytes within a minute. ok is false when it has answered.
func (h *handler) body(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, bool) {
	b, err := served.Body(w, r, limit)
	if err != nil {
		if errors.Is(err, served.ErrLarge) {
			reply(w, http.StatusRequestEntityTooLarge, detail(map[string]any{"error": "body_too_large", "message": fmt.Sprintf("the body is larger than %d bytes", limit), "limit": limit}))
			return nil, false
		}
		reply(w, http.StatusBadRequest, detail("There was an error parsing the body"))
		return nil, false
	}
	return b, true
}

// signed reads the body and checks the signature. ok is false when it has answered.
func (h *handler) signed(w http.ResponseWriter, r *http.Request, limit int64) (hotkey string, b []byte, ok bool) {
	if r.Header.Get("X-Hotkey") == "" || r.Header.Get("X-Signature") == "" { // before anything large is read
		reply(w, http.StatusUnauthorized, detail("missing auth headers"))
		return "", nil, false
	}
	if b, ok = h.body(w, r, limit); !ok {
		return "", nil, false
	}
	id, no := h.Verifier.Verify(r.Context(), dialect.NewRequest(r, b), dialect.Need{})
	if no != nil {
		if no.Status >= 500 {
			h.Log.ErrorContext(r.Context(), "check signature", "err", no)
		}
		_ = no.Write(w) // the caller is gone if this fails
		return "", nil, false
	}
	return id.Hotkey, b, true
}

// viewer is who reads: the admin, a hotkey where the request is signed, else nobody.
func (h *handler) viewer(w http.ResponseWriter, r *http.Request) (coordinator.Viewer, bool) {
	if r.Header.Get(adminHeader) != "" {
		if !h.isAdmin(r) {
			reply(w, http.StatusUnauthorized, detail("invalid admin token"))
			return coordinator.Viewer{}, false
		}
		return coordinator.Viewer{Admin: true}, true
	}
	if r.Header.Get("X-Signature") == "" {
		return coordinator.Viewer{}, true
	}
	hotkey, _, ok := h.signed(w, r, maxSmall)
	return coordinator.Viewer{Hotkey: hotkey}, ok
}

const adminHeader = "X-Admin-Token"

func (h *handler) isAdmin(r *http.Request) bool {
	return h.AdminToken != "" && subtle.ConstantTimeCompare([]byte(r.Header.Get(adminHeader)), []byte(h.AdminToken)) == 1
}

// admin wraps a route of the admin.
func (h *handler) admin(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !h.isAdmin(r) {
			reply(w, http.StatusUnauthorized, detail("invalid admin token"))
			return
		}
		next(w, r)
	}
}

// decode reads one JSON object into v; unknown fields are let be, as FastAPI
// does. An empty body is an empty object where optional. ok is false when it has answered.
func decode(w http.ResponseWriter, b []byte, optional bool, v any) bool {
	bad := func(typ, msg string, loc ...any) bool {
		reply(w, http.StatusUnprocessableEntity, detail([]map[string]any{{"type": typ, "loc": append([]any{"body"}, loc...), "msg": msg, "input": nil}}))
		return false
	}
	if len(bytes.TrimSpace(b)) == 0 {
		if optional {
			return true
		}
		return bad("missing", "Field required")
	}
	if !utf8.Valid(b) {
		return bad("json_invalid", "JSON decode error")
	}
	if string(bytes.TrimSpace(b)) == "null" && optional {
		return true
	}
	if !strings.HasPrefix(string(bytes.TrimSpace(b)), "{") {
		return bad("model_attributes_type", "Input should be a valid dictionary")
	}
	d := json.NewDecoder(bytes.NewReader(b))
	if err := d.Decode(v); err != nil {
		var typ *json.UnmarshalTypeError
		if errors.As(err, &typ) {
			return bad("type_error", "Input should be a valid "+typ.Type.Kind().String(), typ.Field)
		}
		return bad("json_invalid", "JSON decode error")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return bad("json_invalid", "JSON decode error")
	}
	return true
}

// limit reads ?limit=.
func limit(r *http.Request) int {
	n, err := strconv.Atoi(r.URL.Query().Get("limit"))
	if err != nil || n <= 0 {
		return coordinator.DefaultLimit
	}
	return min(n, coordinator.MaxLimit)
}
