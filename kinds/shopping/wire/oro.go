// Package oro speaks the wire of ORO's backend, so that its validators, miners
// and readers work with agon: sign-in, work for validators, entries of miners,
// public reads. kinds/shopping/README.md lists the routes and what differs.
package wire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/auth/dialect"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/platform"
	"github.com/agon-arena/agon/internal/folder"
	"github.com/agon-arena/agon/internal/sealed"
	"github.com/agon-arena/agon/internal/served"
	"github.com/agon-arena/agon/kinds/shopping/door"
	"github.com/agon-arena/agon/kinds/shopping/signin"
)

// Limits of foreign bytes.
const (
	maxBody   = 4 << 20
	maxUpload = 32 << 20 // of one trajectory, compressed
	// publicPerMinute and challengesPerMinute are what one address may ask.
	publicPerMinute     = 100
	challengesPerMinute = 10
	maxAddresses        = 10_000
	scanPages           = 25 // of 200 submissions, that a reader may make us look at
)

// Config is what the routes are made of. All but Providers, Paths, Models, Now and Log is needed.
type Config struct {
	Platform Platform
	Arena    string // id of the shopping arena behind the routes
	// Verifier checks dialect.ORO requests; Sessions are its bearer tokens.
	Verifier *dialect.Verifier
	Sessions *signin.Sessions
	// Problem returns a task's problem as it stands in the suite, reward and all.
	Problem func(ctx context.Context, t agon.TaskRef) (json.RawMessage, error)
	Dir     string // leases that foreign validators hold
	// Documents has what would stand in Dir, but for keys; nil: Dir has it.
	Documents folder.Documents
	// Base is the URL under which these routes are reached, for links.
	Base   func() string
	Models func() []string
	// Gateway is what tokens for models draw on, opened when the first is used; nil: validators get none.
	Gateway func(ctx context.Context) (Gateway, error)
	// Providers are the addresses, without /v1, where miners' credentials are tried and hold.
	Providers map[string]string
	// Paths replaces the path or method of a route by its name, where an SDK
	// turns out to use another ("PUT /v1/…").
	Paths map[string]string
	Now   func() time.Time
	Log   *slog.Logger
}

// Backend serves the routes.
type Backend struct {
	cfg   Config
	dir   folder.Documents
	limit *limiter

	rate *door.Limiter // of what a lent token asks for

	// apart keeps what costs hundreds of reads: how far validators are apart, by race,
	// who worked, and trajectories by day
	apart *served.Cache

	pinning sync.Mutex // held while the standings of an epoch are read or made

	lending sync.Mutex
	loans   map[string]*loan // by evaluation run; guarded by lending

	entering sync.Mutex // held while an entry is looked at and made
	wallets  sync.Mutex // held while a miner's credentials are read or changed
	secret   sealed.Key // of credentials on disk

	mu sync.Mutex
	// ids of the arena's submissions by the UUID that readers know them by, and
	// Seq up to which they are complete; guarded by mu
	versions map[string]string
	upto     int64
	// held serialises requests on one evaluation run; guarded by mu
	held map[string]*sync.Mutex
}

// Route is one line of the table.
type Route struct {
	Name    string
	Pattern string // "METHOD /path"
	// Unproven routes were not called by the published SDK (oro-sdk 1.0.50, and 7.0.2
	// for what came later); the others are, unmodified, by interop.
	Unproven bool
	serve    func(*Backend, http.ResponseWriter, *http.Request)
}

// Routes is the table, in the order of the documentation.
func Routes() []Route {
	const run, version, auth = "/v1/validator/evaluation-runs/{id}", "/v1/public/agent-versions/{id}", "/v1/miner/inference-auth"
	return []Route{
		{"claim", "POST /v1/validator/work/claim", false, (*Backend).claim},
		{"heartbeat", "POST " + run + "/heartbeat", false, (*Backend).heartbeat},
		{"problems", "GET " + run + "/problems", false, (*Backend).problems},
		{"progress", "POST " + run + "/progress", false, (*Backend).progress},
		{"presign", "POST /v1/validator/uploads/presign", false, (*Backend).presign},
		{"complete", "POST " + run + "/complete", false, (*Backend).complete},
		{"code", "GET " + run + "/code", true, (*Backend).code},                         // a link of ours
		{"upload", "PUT /v1/validator/uploads/{id}/{problem}", true, (*Backend).upload}, // likewise
		{"submit", "POST /v1/miner/submit", false, (*Backend).submit},
		{"agents", "GET /v1/miner/agents", false, (*Backend).agents},
		{"agent-versions", "GET /v1/miner/agents/{id}/versions", false, (*Backend).agentVersions},
		{"own-version", "GET /v1/miner/agent-versions/{id}", false, (*Backend).ownVersion},
		{"inference-auth", "GET " + auth, false, (*Backend).inferenceAuth},
		{"inference-auth-one", "GET " + auth + "/{provider}", false, (*Backend).inferenceAuthOf},
		{"inference-auth-store", "POST " + auth + "/{provider}", false, (*Backend).storeCredential},
		{"inference-auth-delete", "DELETE " + auth + "/{provider}", false, (*Backend).inferenceAuthOf},
		{"inference-auth-default", "PATCH " + auth + "/default", false, (*Backend).inferenceDefault},
		{"consent", "PUT " + auth + "/{provider}/consent", true, (*Backend).consents},           // a route of ours
		{"consent-delete", "DELETE " + auth + "/{provider}/consent", true, (*Backend).consents}, // likewise
		{"chutes-auth", "POST /v1/miner/chutes-auth", false, (*Backend).storeCredential},
		{"chutes-status", "GET /v1/miner/chutes-auth/status", false, (*Backend).chutesStatus},
		{"suites", "GET /v1/public/suites", false, (*Backend).suites},
		{"suite", "GET /v1/public/suites/current", false, (*Backend).suite},
		{"suite-problems", "GET /v1/public/suites/{id}/problems", false, (*Backend).suiteProblems},
		{"version", "GET " + version, false, (*Backend).version},
		{"version-status", "GET " + version + "/status", false, (*Backend).versionStatus},
		{"version-runs", "GET " + version + "/runs", false, (*Backend).versionRuns},
		{"version-problems", "GET " + version + "/problems", false, (*Backend).versionProblems},
		{"version-code", "GET " + version + "/code", true, (*Backend).versionCode}, // a link of ours
		{"artifact", "POST /v1/public/artifacts/download-url", false, (*Backend).artifact},
		{"evaluation-run", "GET /v1/public/evaluation-runs/{id}", false, (*Backend).evaluationRun},
		{"validators", "GET /v1/public/validators", false, (*Backend).validators},
		{"running", "GET /v1/public/evaluations/running", false, (*Backend).running},
		{"pending", "GET /v1/public/evaluations/pending", false, (*Backend).pending},
		{"leaderboard", "GET /v1/public/leaderboard", false, (*Backend).leaderboard},
		{"top", "GET /v1/public/top", false, (*Backend).top},
		{"top-history", "GET /v1/public/top/history", false, (*Backend).topHistory},
		{"race", "GET /v1/public/races/current", false, (*Backend).race},
		{"race-history", "GET /v1/public/races/history", false, (*Backend).raceHistory},
		{"race-detail", "GET /v1/public/races/{id}", false, (*Backend).race},
		{"race-variance", "GET /v1/public/races/{id}/validator-variance", false, (*Backend).raceVariance},
		{"seed-commitment", "GET /v1/public/races/{id}/seed-commitment", false, (*Backend).seedCommitment},
		{"trajectories", "GET /v1/public/trajectories/history", false, (*Backend).trajectories},
		{"feedback", "GET /v1/public/episode-results/{id}/feedback", false, (*Backend).feedback},
		{"weight-salt", "GET /v1/validator/weight-salt", false, (*Backend).weightSalt},
		{"pack", "GET /v1/validator/pack/{sha}", false, (*Backend).noPack},
		{"race-pack", "POST /v1/validator/race/{id}/pack", false, (*Backend).noPack},
		{"episode-presign", "POST /v1/validator/episode-artifacts/presign", false, (*Backend).noPack},
		{"race-select", "PUT /v1/miner/race-selection", false, (*Backend).raceSelection},
		{"race-unselect", "DELETE /v1/miner/race-selection", false, (*Backend).raceSelection},
		{"payout", "GET /v1/public/top-miner-payout", false, (*Backend).payout},
		{"trajectory", "GET /v1/public/evaluation-runs/{id}/problems/{problem}/trajectory", true, (*Backend).trajectory}, // a link of ours
		{"health", "GET /health", false, (*Backend).health},
		{"health-deep", "GET /health/deep", false, (*Backend).deepHealth},
		{"chat", "POST /v1/chat/completions", true, (*Backend).inference},        // as the provider of the token has it
		{"chat-models", "GET /v1/models", true, (*Backend).inference},            // likewise
		{"utilization", "GET /chutes/utilization", true, (*Backend).utilization}, // likewise
		{"models", "GET /v1/public/inference/models", false, (*Backend).models},
	}
}

// Patterns are the prefixes that a server gives to New's handler.
func Patterns() []string {
	return []string{"/v1/validator/", "/v1/miner/", "/v1/public/", "/v1/auth/", "/v1/chat/", "/v1/models", "/chutes/", "/health", "/health/"}
}

// New returns a handler of every route.
func New(c Config) (http.Handler, error) {
	b, err := newBackend(c)
	if err != nil {
		return nil, err
	}
	return b.routes()
}

func newBackend(c Config) (*Backend, error) {
	if c.Platform == nil || c.Arena == "" || c.Verifier == nil || c.Sessions == nil || c.Problem == nil || c.Dir == "" || c.Base == nil {
		return nil, errors.New("oro backend: API, Arena, Verifier, Sessions, Problem, Dir and Base are needed")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Models == nil {
		c.Models = func() []string { return nil }
	}
	secret, err := sealed.Open(c.Dir)
	if err != nil {
		return nil, err
	}
	return &Backend{cfg: c, secret: secret, dir: folder.Or(c.Documents, c.Dir), versions: map[string]string{}, held: map[string]*sync.Mutex{}, loans: map[string]*loan{}, limit: &limiter{now: c.Now}, apart: served.NewCache(c.Now, time.Minute), rate: door.NewLimiter(c.Now)}, nil
}

func (b *Backend) routes() (http.Handler, error) {
	m := http.NewServeMux()
	known := map[string]bool{}
	for _, r := range Routes() {
		known[r.Name] = true
		pattern := r.Pattern
		if p, ok := b.cfg.Paths[r.Name]; ok {
			pattern = p
		}
		public := strings.Contains(pattern, "/v1/public/")
		m.HandleFunc(pattern, func(w http.ResponseWriter, q *http.Request) {
			if public && !b.limit.allow("public "+auth.RemoteHost(q), publicPerMinute) {
				refuse(w, http.StatusTooManyRequests, "RATE_LIMITED", "too many requests, at most %d a minute", publicPerMinute)
				return
			}
			r.serve(b, w, q)
		})
	}
	for name := range b.cfg.Paths {
		if !known[name] {
			return nil, fmt.Errorf("oro backend: there is no route %q to move", name)
		}
	}
	sessions := http.StripPrefix("/v1/auth", b.cfg.Sessions.Handler())
	m.HandleFunc("POST /v1/auth/", func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/challenge") && !b.limit.allow("challenge "+auth.RemoteHost(r), challengesPerMinute) {
			refuse(w, http.StatusTooManyRequests, "RATE_LIMITED", "too many challenges, at most %d a minute", challengesPerMinute)
			return
		}
		sessions.ServeHTTP(w, r)
	})
	m.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { refuse(w, http.StatusNotFound, "NOT_FOUND", "Not Found") })
	return m, nil
}

// limiter counts requests of an address in whole minutes.
type limiter struct {
	now func() time.Time

	mu     sync.Mutex
	minute int64          // guarded by mu
	counts map[string]int // of minute; guarded by mu
}

func (l *limiter) allow(key string, n int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if m := l.now().Unix() / 60; m != l.minute || l.counts == nil || len(l.counts) > maxAddresses {
		l.minute, l.counts = m, map[string]int{}
	}
	l.counts[key]++
	return l.counts[key] <= n
}

// reply answers with JSON.
func reply(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		status, b = http.StatusInternalServerError, []byte(`{"detail":"Internal Server Error","error_code":"INTERNAL"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(b) // a client that is gone reads no error
}

// refuse answers with ORO's own error shape.
func refuse(w http.ResponseWriter, status int, code, format string, args ...any) {
	reply(w, status, map[string]string{"detail": fmt.Sprintf(format, args...), "error_code": code})
}

// invalid answers a body of the wrong shape as FastAPI does.
func invalid(w http.ResponseWriter, typ, msg string, loc ...any) {
	reply(w, http.StatusUnprocessableEntity, map[string]any{"detail": []any{map[string]any{"type": typ, "loc": append([]any{"body"}, loc...), "msg": msg}}})
}

// broken answers an error of the platform, or of ours.
func (b *Backend) broken(w http.ResponseWriter, what string, err error) {
	var e *agon.Error
	if errors.As(err, &e) && e.Status < 500 {
		refuse(w, e.Status, strings.ToUpper(e.Code), "%s", e.Message)
		return
	}
	b.cfg.Log.Error("request failed", "what", what, "err", err)
	refuse(w, http.StatusInternalServerError, "INTERNAL", "Internal Server Error")
}

// signed reads the body and checks the signature or session.
func (b *Backend) signed(w http.ResponseWriter, r *http.Request, need dialect.Need, limit int64) (dialect.Identity, []byte, bool) {
	body, err := served.Body(w, r, limit)
	switch {
	case errors.Is(err, served.ErrLarge):
		refuse(w, http.StatusRequestEntityTooLarge, "FILE_TOO_LARGE", "the body is larger than %d bytes", limit)
		return dialect.Identity{}, nil, false
	case err != nil:
		invalid(w, "json_invalid", "body broke off")
		return dialect.Identity{}, nil, false
	}
	id, refusal := b.cfg.Verifier.Verify(r.Context(), dialect.NewRequest(r, body), need)
	if refusal != nil {
		_ = refusal.Write(w) // a client that is gone reads no error
		return id, nil, false
	}
	return id, body, true
}

var (
	asValidator = dialect.Need{Registered: true, Validator: true}
	asMiner     = dialect.Need{Registered: true}
	// operator reads what the backend itself needs to hand out.
	operator = platform.Caller{Operator: true}
)

// decode reads a JSON object; an empty body is an empty one.
func decode(w http.ResponseWriter, body []byte, v any) bool {
	if len(body) == 0 {
		body = []byte("{}")
	}
	if err := json.Unmarshal(body, v); err != nil {
		var typ *json.UnmarshalTypeError
		if errors.As(err, &typ) {
			invalid(w, "type_error", "Input should be a valid "+typ.Type.String(), typ.Field)
		} else {
			invalid(w, "json_invalid", "JSON decode error")
		}
		return false
	}
	return true
}

// space names our ids as UUIDs; readers of this wire want no others.
var space = uuid.MustParse("6f3d0d0e-6a4e-5a53-9a53-0c1d8b0f7a11")

func uuidOf(kind, id string) string { return uuid.NewSHA1(space, []byte(kind+":"+id)).String() }

func versionID(submission string) string { return uuidOf("version", submission) }

// attemptID names one lease of a run: what the wire calls an evaluation run.
func attemptID(run string, attempt int) string {
	return uuidOf("attempt", fmt.Sprintf("%s/%d", run, attempt))
}

// submissionOf finds the submission behind a version's UUID; "" if there is none.
func (b *Backend) submissionOf(ctx context.Context, version string) (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if id, ok := b.versions[version]; ok {
		return id, nil
	}
	cursor, top := "", b.upto
	for range scanPages {
		page, err := b.cfg.Platform.Submissions(ctx, operator, b.cfg.Arena, "", cursor, 200)
		if err != nil {
			return "", err
		}
		for _, s := range page.Items {
			if s.Seq <= b.upto {
				page.Next = ""
				break
			}
			b.versions[versionID(s.ID)] = s.ID
			top = max(top, s.Seq)
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	b.upto = top
	return b.versions[version], nil
}

// submissions lists the arena's, newest first.
func (b *Backend) submissions(ctx context.Context, miner string) ([]client.Submission, error) {
	var out []client.Submission
	cursor := ""
	for range scanPages {
		page, err := b.cfg.Platform.Submissions(ctx, operator, b.cfg.Arena, miner, cursor, 200)
		if err != nil {
			return nil, err
		}
		out = append(out, page.Items...)
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	return out, nil
}

// stamp writes a time as this wire does.
func stamp(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	s := t.UTC().Format("2006-01-02T15:04:05.000000Z")
	return &s
}
