// Package harnyx speaks the wire of Caster's seed era, so that its miners,
// validators and platforms work with agon unmodified: the platform's endpoints
// over a platform, a validator that takes pushed batches, and the monitoring
// reads. kinds/claim/harnyx.md lists the routes and what differs.
package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth/dialect"
)

// Limits of foreign bytes.
const (
	MaxScript     = 256_000 // bytes of a script
	maxUpload     = 512 << 10
	maxBatch      = 64 << 20
	maxClaims     = 10_000
	maxCandidates = 1_000
	bodyTime      = time.Minute
)

// Option is one verdict.
type Option struct {
	Value       int    `json:"value"`
	Description string `json:"description"`
}

// Options are written {"options": […]}, as validators want them, and read in
// that form or as the bare list of the platform's documentation.
type Options []Option

// MarshalJSON implements json.Marshaler.
func (o Options) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]any{"options": append([]Option{}, o...)})
}

// UnmarshalJSON implements json.Unmarshaler.
func (o *Options) UnmarshalJSON(b []byte) error {
	var list []Option
	if json.Unmarshal(b, &list) == nil {
		*o = list
		return nil
	}
	var wrapped struct {
		Options *[]Option `json:"options"`
	}
	if err := json.Unmarshal(b, &wrapped); err != nil || wrapped.Options == nil {
		return errors.New("verdict_options: want {options: [{value, description}]}")
	}
	*o = *wrapped.Options
	return nil
}

// Rubric is what a claim is judged by.
type Rubric struct {
	Title       string  `json:"title"`
	Description string  `json:"description"`
	Options     Options `json:"verdict_options"`
}

// Citation is a source, of a reference or hydrated.
type Citation struct {
	URL       string `json:"url,omitempty"`
	Note      string `json:"note,omitempty"`
	ReceiptID string `json:"receipt_id,omitempty"`
	ResultID  string `json:"result_id,omitempty"`
}

// Reference is the answer that a script's is compared with.
type Reference struct {
	Verdict       int        `json:"verdict"`
	Justification string     `json:"justification"`
	Citations     []Citation `json:"citations"`
	Spans         []Span     `json:"spans"`
}

// Span is a passage of a source in code points.
type Span struct {
	Excerpt string `json:"excerpt"`
	Start   int    `json:"start"`
	End     int    `json:"end"`
}

// Context places a claim in a feed.
type Context struct {
	FeedID     string `json:"feed_id"`
	EnqueueSeq int64  `json:"enqueue_seq"`
}

// Claim is one task of a batch.
type Claim struct {
	ClaimID   string    `json:"claim_id"`
	Text      string    `json:"text"`
	Rubric    Rubric    `json:"rubric"`
	Reference Reference `json:"reference_answer"`
	BudgetUSD float64   `json:"budget_usd"`
	Context   *Context  `json:"context,omitempty"`
}

// Budget is the claim's budget in micro-dollars.
func (c Claim) Budget() agon.Micros { return agon.Micros(c.BudgetUSD*1e6 + 0.5) }

// scales are the sets of values that options may have.
var scales = []map[int]bool{{-1: true, 1: true}, {-1: true, 0: true, 1: true}, {1: true, 2: true, 3: true, 4: true, 5: true}}

func (c *Claim) check() error {
	if _, err := uuid.Parse(c.ClaimID); err != nil {
		return errors.New("claim_id: want a uuid")
	}
	for name, s := range map[string]string{
		"text": c.Text, "rubric.title": c.Rubric.Title, "rubric.description": c.Rubric.Description, "reference_answer.justification": c.Reference.Justification,
	} {
		if strings.TrimSpace(s) == "" || len(s) > 256<<10 {
			return fmt.Errorf("%s: want 1 to 262144 bytes", name)
		}
	}
	values := map[int]bool{}
	for _, o := range c.Rubric.Options {
		if values[o.Value] || strings.TrimSpace(o.Description) == "" {
			return errors.New("rubric.verdict_options: values are unique and descriptions not empty")
		}
		values[o.Value] = true
	}
	ok := false
	for _, s := range scales {
		same := len(s) == len(values)
		for v := range values {
			same = same && s[v]
		}
		ok = ok || same
	}
	if !ok {
		return errors.New("rubric.verdict_options: want {-1,1}, {-1,0,1} or {1,…,5}")
	}
	if !values[c.Reference.Verdict] {
		return errors.New("reference_answer.verdict: it is none of the options")
	}
	if c.BudgetUSD == 0 {
		c.BudgetUSD = 0.05
	}
	if !(c.BudgetUSD > 0 && c.BudgetUSD <= 100) {
		return errors.New("budget_usd: want more than 0 and at most 100")
	}
	if c.Context != nil {
		if _, err := uuid.Parse(c.Context.FeedID); err != nil || c.Context.EnqueueSeq < 0 {
			return errors.New("context: want a uuid and a sequence number of at least 0")
		}
	}
	return nil
}

// Candidate is one script of a batch.
type Candidate struct {
	UID         int    `json:"uid"`
	ArtifactID  string `json:"artifact_id"`
	ContentHash string `json:"content_hash"`
	SizeBytes   int    `json:"size_bytes"`
	// Hotkey and Retries are the query era's: whose script it is, and how often a failed
	// attempt of it is tried again.
	Hotkey  string `json:"miner_hotkey_ss58,omitempty"`
	Retries int    `json:"task_retry_count,omitempty"`
}

// Batch is a frozen set of claims and candidates.
type Batch struct {
	BatchID    string    `json:"batch_id"`
	Entrypoint string    `json:"entrypoint"`
	CutoffAt   time.Time `json:"cutoff_at"`
	CreatedAt  time.Time `json:"created_at"`
	Claims     []Claim   `json:"claims"`
	// Tasks are there in Claims' place in the query era.
	Tasks         []QueryTask `json:"tasks,omitempty"`
	Candidates    []Candidate `json:"candidates"`
	ChampionUID   *int        `json:"champion_uid"`
	Status        string      `json:"status"`
	StatusMessage *string     `json:"status_message"`

	ended time.Time // when it was completed or failed; zero: not known
	crown *string   // the artifact that sits since; nil: who sat before
}

// ids are those of a batch's claims or tasks.
func (b Batch) ids() []string {
	var out []string
	for _, c := range b.Claims {
		out = append(out, c.ClaimID)
	}
	for _, t := range b.Tasks {
		out = append(out, t.TaskID)
	}
	return out
}

// Entrypoint is the seed's.
const Entrypoint = "evaluate_criterion"

// field is one entry of the list that FastAPI answers 422 with.
type field struct {
	Type  string `json:"type"`
	Loc   []any  `json:"loc"`
	Msg   string `json:"msg"`
	Input any    `json:"input"`
}

// invalid answers 422 as FastAPI does.
func invalid(w http.ResponseWriter, typ, msg string, loc ...any) {
	reply(w, http.StatusUnprocessableEntity, map[string]any{"detail": []field{{typ, append([]any{"body"}, loc...), msg, nil}}})
}

// refuse answers in the platform's form.
func refuse(w http.ResponseWriter, status int, code, format string, args ...any) {
	reply(w, status, map[string]string{"error_code": code, "message": fmt.Sprintf(format, args...)})
}

func reply(w http.ResponseWriter, status int, v any) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		status = http.StatusInternalServerError
		b.Reset()
		b.WriteString(`{"error_code":"internal_server_error","message":"internal error"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(bytes.TrimRight(b.Bytes(), "\n"))
}

// readBody reads at most limit bytes within a minute. ok is false when it has answered.
func readBody(w http.ResponseWriter, r *http.Request, limit int64) (b []byte, ok bool) {
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Now().Add(bodyTime)) // a socket's deadline is real time
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	_ = rc.SetReadDeadline(time.Time{})
	if err != nil {
		var big *http.MaxBytesError
		if errors.As(err, &big) {
			reply(w, http.StatusRequestEntityTooLarge, map[string]string{"detail": fmt.Sprintf("body is larger than %d bytes", limit)})
			return nil, false
		}
		reply(w, http.StatusBadRequest, map[string]string{"detail": "There was an error parsing the body"})
		return nil, false
	}
	return b, true
}

// decode reads one JSON object, unknown fields refused where strict. ok is false when it has answered.
func decode(w http.ResponseWriter, b []byte, strict bool, v any) bool {
	if !utf8.Valid(b) {
		invalid(w, "json_invalid", "JSON decode error")
		return false
	}
	d := json.NewDecoder(bytes.NewReader(b))
	if strict {
		d.DisallowUnknownFields()
	}
	if err := d.Decode(v); err != nil {
		var typ *json.UnmarshalTypeError
		switch {
		case errors.As(err, &typ):
			invalid(w, "type_error", "Input should be a valid "+typ.Type.Kind().String(), typ.Field)
		case strings.HasPrefix(err.Error(), "json: unknown field "):
			invalid(w, "extra_forbidden", "Extra inputs are not permitted", strings.Trim(strings.TrimPrefix(err.Error(), "json: unknown field "), `"`))
		case !json.Valid(b):
			invalid(w, "json_invalid", "JSON decode error")
		default:
			invalid(w, "value_error", err.Error())
		}
		return false
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		invalid(w, "json_invalid", "JSON decode error")
		return false
	}
	return true
}

// signed reads a request's body and checks its signature. ok is false when it has answered.
func signed(w http.ResponseWriter, r *http.Request, v *dialect.Verifier, need dialect.Need, limit int64) (dialect.Identity, []byte, bool) {
	b, ok := readBody(w, r, limit)
	if !ok {
		return dialect.Identity{}, nil, false
	}
	id, no := v.Verify(r.Context(), dialect.NewRequest(r, b), need)
	if no != nil {
		_ = no.Write(w) // the caller is gone if this fails
		return dialect.Identity{}, nil, false
	}
	return id, b, true
}
