// Package wire speaks the protocol of Ridges, so that its miners, screeners,
// validators and readers work with agon: version C of its routes over HTTP, and
// the web socket of version A0. README.md of the kind lists the routes and what
// differs.
package wire

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth/dialect"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/platform"
	"github.com/agon-arena/agon/internal/folder"
	"github.com/agon-arena/agon/internal/plain"
	"github.com/agon-arena/agon/ledger"
)

// Limits of foreign bytes.
const (
	maxBody  = 16 << 20 // of a validator's report: a patch and two logs
	maxSmall = 64 << 10
	bodyTime = time.Minute
)

// Config is what the routes are made of. Platform, Arena, Verifier, Dir and Tree are needed.
type Config struct {
	Platform Platform
	Arena    string // id of the coding arena behind the routes
	// Verifier checks signatures; its Members say who is on the subnet.
	Verifier *dialect.Verifier
	Dir      string // agents, payments, sessions and reports: what was acknowledged is durable
	// Documents has what would stand in Dir, but for keys; nil: Dir has it.
	Documents folder.Documents
	// Tree returns the directory of a task's files.
	Tree func(ctx context.Context, d agon.Digest) (string, error)

	// Owner is the hotkey that uploads without paying.
	Owner string
	// AdminKey opens /admin; empty: 503. ScreenerPassword lets screeners in; empty: none.
	AdminKey, ScreenerPassword string
	// JudgeKey lets judges take and answer jobs; empty: 503.
	JudgeKey string
	// Frozen says why nothing is taken; empty: it is.
	Frozen string
	// Cooldown is how long a hotkey waits for its next upload to a set.
	Cooldown time.Duration
	// Price is what an upload costs in alpha, in rao; Chain checks what was burned.
	// Without Chain only credits and the owner's uploads are taken.
	Price int64
	Chain ledger.Burns
	// Keys validates and keeps the provider's keys of miners; nil: none are asked for.
	Keys *Keys
	// A0 opens the routes of version A0: A0Signed or A0Unsigned; "" keeps them closed.
	A0 string
	// Salt goes into the aliases of problems.
	Salt string

	Now func() time.Time
	Log *slog.Logger
}

// Backend serves the routes.
type Backend struct {
	cfg    Config
	dir    folder.Documents
	secret []byte // of links

	giving   sync.Mutex // held while fees become credits
	entering sync.Mutex // held while an upload is looked at and made, and its payment with it

	mu       sync.Mutex
	agents   map[string]string   // agent ids by submission; guarded by mu
	entered  map[string]string   // submissions by agent id; guarded by mu
	sessions map[string]*session // by id; guarded by mu
	sockets  map[*socket]bool    // guarded by mu
	evals    map[string][]string // evaluations by agent, the oldest first; guarded by mu
	flags    flags               // guarded by mu
	books    books               // of lists for readers
	tasks    taskArchives
}

// flags are what the operator has set.
type flags struct {
	Paused  bool              `json:"validators_paused"`
	Black   []string          `json:"blacklisted_validators"`
	Coldkey map[string]banned `json:"banned_coldkeys"`
}

type banned struct {
	Reason string    `json:"reason"`
	At     time.Time `json:"at"`
}

type route struct {
	pattern string
	serve   func(*Backend, http.ResponseWriter, *http.Request)
}

// Routes lists the patterns of every route.
func Routes() []string {
	var out []string
	for _, r := range routes() {
		out = append(out, r.pattern)
	}
	return out
}

func routes() []route {
	return []route{
		{"POST /upload/agent/check", (*Backend).check},
		{"POST /upload/prepare", (*Backend).prepare},
		{"POST /upload/agent", (*Backend).upload},
		{"POST /upload/agent/ticket", (*Backend).redeem},
		{"POST /upload/ticket/check", (*Backend).checkTicket},
		{"POST /upload/validate-openrouter-keys", (*Backend).checkKeys},
		{"GET /upload/eval-pricing", (*Backend).pricing},

		{"GET /ws", (*Backend).ws},
		{"GET /retrieval/agent", (*Backend).seedAgent},
		{"GET /retrieval/latest-agent", (*Backend).seedAgent},
		{"GET /retrieval/agent-version-file", (*Backend).seedFile},
		{"GET /retrieval/queue", (*Backend).queue},
		{"GET /retrieval/top-agents", (*Backend).topAgents},
		{"GET /retrieval/agent-by-id", (*Backend).agentByID},
		{"GET /retrieval/agent-by-hotkey", (*Backend).agentByHotkey},
		{"GET /retrieval/all-agents-by-hotkey", (*Backend).agentsByHotkey},
		{"GET /retrieval/agents-by-coldkey", (*Backend).agentsByColdkey},
		{"GET /retrieval/evaluations-for-agent", (*Backend).evaluations},
		{"GET /retrieval/agent-code", (*Backend).agentCode},
		{"GET /retrieval/top-scores-over-time", (*Backend).topScores},
		{"GET /retrieval/perfectly-solved-over-time", (*Backend).perfectlySolved},
		{"GET /retrieval/network-statistics", (*Backend).network},
		{"GET /scoring/weights", (*Backend).weights},
		{"GET /scoring/screener-info", (*Backend).screenerInfo},
		{"GET /scoring/latest-set-info", (*Backend).latestSet},
		{"GET /evaluation-sets/{$}", (*Backend).sets},
		{"GET /evaluation-sets/all-latest-set-problems", (*Backend).setProblems},
		{"GET /evaluation-sets/{id}", (*Backend).set},
		{"GET /evaluation-sets/{id}/overview", (*Backend).setOverview},
		{"GET /evaluation-sets/{id}/leaderboard", (*Backend).leaderboard},
		{"GET /evaluation-sets/{id}/approved-agents", (*Backend).approved},
		{"GET /agent/get-by-evaluation-run-id", (*Backend).agentOfRun},
		{"GET /evaluation/get-by-evaluation-run-id", (*Backend).evaluationOfRun},
		{"GET /evaluation-run/get-by-id", (*Backend).runByID},
		{"GET /evaluation-run/get-logs-by-id", (*Backend).runLogs},
		{"GET /statistics/problem-statistics", (*Backend).problemStatistics},
		{"GET /scaling/pending-work", (*Backend).pendingWork},
		{"GET /debug/lock-info", (*Backend).nothing},
		{"GET /debug/query-info", (*Backend).nothing},

		{"POST /validator/register-as-validator", (*Backend).registerValidator},
		{"POST /validator/register-as-screener", (*Backend).registerScreener},
		{"POST /validator/request-evaluation", (*Backend).requestEvaluation},
		{"POST /validator/heartbeat", (*Backend).heartbeat},
		{"POST /validator/task-download-url", (*Backend).taskURL},
		{"POST /validator/update-evaluation-run", (*Backend).update},
		{"POST /validator/check-cancellation", (*Backend).checkCancellation},
		{"POST /validator/cancel-current-evaluation", (*Backend).cancel},
		{"POST /validator/finish-evaluation", (*Backend).finish},
		{"POST /validator/disconnect", (*Backend).disconnect},
		{"GET /validator/connected-validators-info", (*Backend).connected},
		{"GET /validator/tasks/{digest}", (*Backend).taskArchive}, // links of ours
		{"PUT /validator/artifacts/{run}", (*Backend).putArtifact},

		{"POST /admin/upload-credits", (*Backend).grantCredit},
		{"PUT /admin/banned-coldkeys/{coldkey}", (*Backend).ban},
		{"DELETE /admin/banned-coldkeys/{coldkey}", (*Backend).unban},
		{"DELETE /admin/validator-sessions/{hotkey}", (*Backend).kick},
		{"PUT /admin/blacklisted-validators/{hotkey}", (*Backend).blacklist},
		{"DELETE /admin/blacklisted-validators/{hotkey}", (*Backend).blacklist},
		{"PUT /admin/validators-paused", (*Backend).pause},
		{"DELETE /admin/validators-paused", (*Backend).pause},
		{"GET /admin/pre-screening-jobs", listJobs(preScreening)}, // these, and those of judges, are ours
		{"GET /admin/approval-jobs", listJobs(approvals)},
		{"POST /admin/pre-screening-jobs/{job}/review", reviewJob(preScreening)},
		{"POST /admin/approval-jobs/{job}/review", reviewJob(approvals)},
		{"POST /judge/pre-screening-jobs/claim", claimJob(preScreening)},
		{"POST /judge/pre-screening-jobs/{job}/result", answerJob(preScreening)},
		{"POST /judge/approval-jobs/claim", claimJob(approvals)},
		{"POST /judge/approval-jobs/{job}/result", answerJob(approvals)},
	}
}

// Patterns are the prefixes that a server gives to the handler.
func Patterns() []string {
	return []string{
		"/ws", "/upload/", "/retrieval/", "/scoring/", "/evaluation-sets/", "/agent/", "/evaluation/", "/evaluation-run/", "/statistics/", "/scaling/",
		"/debug/", "/validator/", "/admin/", "/judge/",
	}
}

// SecretName is the document of Config.Dir that has the key of links.
const SecretName = "secret"

// New takes over what is in Documents.
func New(c Config) (*Backend, error) {
	if c.Platform == nil || c.Arena == "" || c.Verifier == nil || c.Dir == "" || c.Tree == nil {
		return nil, errors.New("ridges: Platform, Arena, Verifier, Dir and Tree are needed")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	b := &Backend{cfg: c, dir: folder.Or(c.Documents, c.Dir), agents: map[string]string{}, entered: map[string]string{}, sessions: map[string]*session{}, sockets: map[*socket]bool{}, evals: map[string][]string{}}
	var key struct{ Key []byte }
	own := folder.Folder(c.Dir) // keys do not stand beside what they protect
	ok, err := own.Get(SecretName, &key)
	if err != nil {
		return nil, err
	}
	if !ok {
		if key.Key, err = randomBytes(32); err != nil {
			return nil, err
		}
		if err := own.Put(SecretName, key); err != nil {
			return nil, err
		}
	}
	b.secret = key.Key
	if _, err := b.dir.Get("flags", &b.flags); err != nil {
		return nil, err
	}
	if err := b.loadAgents(); err != nil {
		return nil, err
	}
	if err := b.loadEvaluations(); err != nil {
		return nil, err
	}
	return b, b.loadSessions()
}

// Handler serves every route.
func (b *Backend) Handler() http.Handler {
	m := http.NewServeMux()
	for _, r := range routes() {
		m.HandleFunc(r.pattern, func(w http.ResponseWriter, q *http.Request) { r.serve(b, w, q) })
	}
	m.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if _, pattern := m.Handler(&http.Request{Method: http.MethodPost, URL: r.URL, Host: r.Host}); pattern != "/" && r.Method != http.MethodPost {
			refuse(w, http.StatusMethodNotAllowed, "Method Not Allowed")
			return
		}
		refuse(w, http.StatusNotFound, "Not Found")
	})
	return m
}

// Run looks after sessions until ctx ends.
func (b *Backend) Run(ctx context.Context) {
	t := time.NewTicker(5 * time.Second)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			b.Sweep(ctx)
		}
	}
}

// operator reads what the backend itself needs.
var operator = platform.Caller{Operator: true}

// wireName names the protocol in results.
const wireName = "ridges"

// reply answers with JSON.
func reply(w http.ResponseWriter, status int, v any) {
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		status = http.StatusInternalServerError
		buf.Reset()
		buf.WriteString(`{"detail":"Internal Server Error"}`)
	}
	raw(w, status, bytes.TrimRight(buf.Bytes(), "\n"))
}

func raw(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that is gone reads no error
}

// refuse answers as FastAPI's HTTPException does.
func refuse(w http.ResponseWriter, status int, format string, args ...any) {
	reply(w, status, map[string]string{"detail": fmt.Sprintf(format, args...)})
}

// field is one entry of the list that FastAPI answers 422 with.
type field struct {
	Type  string `json:"type"`
	Loc   []any  `json:"loc"`
	Msg   string `json:"msg"`
	Input any    `json:"input"`
}

// invalid answers what does not parse as FastAPI does; where is body or query.
func invalid(w http.ResponseWriter, typ, msg, where string, loc ...any) {
	reply(w, http.StatusUnprocessableEntity, map[string]any{"detail": []field{{typ, append([]any{where}, loc...), msg, nil}}})
}

// refusal is an answer that is not 200.
type refusal struct {
	status int
	detail string
}

func (r *refusal) Error() string { return r.detail }

func no(status int, format string, args ...any) error {
	return &refusal{status, fmt.Sprintf(format, args...)}
}

// fail answers an error: a refusal as it says, the platform's as Ridges would, and ours as 500.
func (b *Backend) fail(w http.ResponseWriter, what string, err error) {
	var r *refusal
	if !errors.As(err, &r) {
		r = &refusal{http.StatusInternalServerError, "Internal Server Error"}
		var d *dialect.Refusal
		var e *agon.Error
		switch {
		case errors.As(err, &d) && d.Status < 500:
			r = &refusal{d.Status, d.Code}
		case errors.As(err, &e) && (e.Status < 500 || e.Fault == agon.FaultLedger):
			r = &refusal{e.Status, e.Message}
			switch e.Status {
			case http.StatusUnprocessableEntity, http.StatusRequestEntityTooLarge:
				r.status = http.StatusBadRequest
			case http.StatusForbidden:
				r.status = http.StatusBadRequest // "not registered"; a ban is told before
			}
			if strings.HasPrefix(e.Code, "arena_") {
				r.status = http.StatusServiceUnavailable
			}
		default:
			b.cfg.Log.Error("request failed", "what", what, "err", err)
		}
	}
	refuse(w, r.status, "%s", r.detail)
}

// body reads at most limit bytes. ok is false when it has answered.
func body(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, bool) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTime)) // a socket's deadline is real time
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		refuse(w, http.StatusRequestEntityTooLarge, "body is larger than %d bytes", limit)
		return nil, false
	case err != nil:
		refuse(w, http.StatusBadRequest, "There was an error parsing the body")
		return nil, false
	}
	return raw, true
}

// decode reads a JSON object of at most limit bytes whose fields need are there.
// ok is false when it has answered.
func decode(w http.ResponseWriter, r *http.Request, limit int64, v any, need ...string) bool {
	raw, ok := body(w, r, limit)
	if !ok {
		return false
	}
	var have map[string]json.RawMessage
	if !utf8.Valid(raw) || json.Unmarshal(raw, &have) != nil || have == nil {
		invalid(w, "json_invalid", "JSON decode error", "body", 0)
		return false
	}
	for _, n := range need {
		if s, ok := have[n]; !ok || string(s) == "null" {
			invalid(w, "missing", "Field required", "body", n)
			return false
		}
	}
	if err := json.Unmarshal(raw, v); err != nil {
		var typ *json.UnmarshalTypeError
		if errors.As(err, &typ) {
			invalid(w, "type_error", "Input should be a valid "+typ.Type.String(), "body", typ.Field)
		} else {
			invalid(w, "value_error", "Input is not valid: "+clip(err.Error(), 200), "body")
		}
		return false
	}
	return true
}

// query returns a query parameter that must be there. ok is false when it has answered.
func query(w http.ResponseWriter, r *http.Request, name string) (string, bool) {
	if !r.URL.Query().Has(name) {
		invalid(w, "missing", "Field required", "query", name)
		return "", false
	}
	return r.URL.Query().Get(name), true
}

// queryID is query for a UUID.
func queryID(w http.ResponseWriter, r *http.Request, name string) (string, bool) {
	s, ok := query(w, r, name)
	if !ok {
		return "", false
	}
	u, err := uuid.Parse(s)
	if err != nil {
		invalid(w, "uuid_parsing", "Input should be a valid UUID", "query", name)
		return "", false
	}
	return u.String(), true
}

// base is the address under which a client reaches these routes.
func base(r *http.Request) string {
	scheme := "http"
	if r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https" {
		scheme = "https"
	}
	return scheme + "://" + r.Host
}

// stamp writes a time as this wire does; nil for none.
func stamp(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	s := t.UTC().Format("2006-01-02T15:04:05.000000Z")
	return &s
}

// clip makes foreign text one line of at most n bytes.
func clip(s string, n int) string { return plain.Head(plain.Line(s), n) }

func (b *Backend) nothing(w http.ResponseWriter, _ *http.Request) { reply(w, http.StatusOK, []any{}) }

// arena reads the arena behind the routes.
func (b *Backend) arena(ctx context.Context) (*client.Arena, error) {
	return b.cfg.Platform.Arena(ctx, b.cfg.Arena)
}
