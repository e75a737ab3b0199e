package play

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/google/uuid"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/copycat"
	"github.com/agon-arena/agon/engine/judge"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/internal/lazyregexp"
	"github.com/agon-arena/agon/kinds/claim/query"
)

// QueryName is the kind of arenas whose scripts answer queries, QueryEntry the
// function that they register.
const (
	QueryName  = "query"
	QueryEntry = "query"
	QueryFile  = "environment/query.json"
	// MaxQueryBytes bounds a script of this era.
	MaxQueryBytes = 1_000_000

	defaultQueryBudget = agon.Micros(500_000)
)

// QueryTask is a task's environment/query.json.
type QueryTask struct {
	TaskID string          `json:"task_id"`
	Query  json.RawMessage `json:"query"`                   // {text, output_schema?}
	Budget agon.Micros     `json:"budget_micros,omitempty"` // default 500,000

	checked query.Query
}

// QueryReference is a task's tests/reference.json: the answer to compare with.
type QueryReference struct {
	Text      string         `json:"text"` // compact JSON of a structured answer
	Note      string         `json:"note,omitempty"`
	Citations []*CitedSource `json:"citations,omitempty"`
}

// CitedSource is a source of a reference answer.
type CitedSource struct {
	URL   string `json:"url"`
	Note  string `json:"note,omitempty"`
	Title string `json:"title,omitempty"`
}

// CheckQueryTask says what is wrong with a task of the kind.
func CheckQueryTask(t *task.Task) error {
	if err := (task.Form{Files: []string{QueryFile, ReferenceFile}, Limit: MaxClaimFile}).Check(t); err != nil {
		return err
	}
	_, _, err := LoadQuery(t)
	return err
}

// LoadQuery reads the query and its reference answer from a task's tree.
func LoadQuery(t *task.Task) (QueryTask, QueryReference, error) {
	var q QueryTask
	var r QueryReference
	bad := func(file string, err error) (QueryTask, QueryReference, error) {
		return q, r, fmt.Errorf("task %s: %s: %w", t.Key, file, err)
	}
	b, err := t.ReadFile(QueryFile, MaxClaimFile)
	if err != nil {
		return q, r, err
	}
	if err := strict(b, MaxClaimFile, &q); err != nil {
		return bad(QueryFile, err)
	}
	if u, err := uuid.Parse(q.TaskID); err != nil || u.String() != q.TaskID {
		return bad(QueryFile, errors.New("task_id: not a uuid"))
	}
	if q.Budget == 0 {
		q.Budget = defaultQueryBudget
	}
	if q.Budget < 0 || q.Budget > maxBudgetMicros {
		return bad(QueryFile, fmt.Errorf("budget_micros: %d, want at most %d", q.Budget, maxBudgetMicros))
	}
	if q.checked, err = query.ParseQuery(q.Query); err != nil {
		return bad(QueryFile, err)
	}
	if q.checked.Schema != nil {
		if _, err := resolveSchema(q.checked.Schema); err != nil {
			return bad(QueryFile, err)
		}
	}
	if b, err = t.ReadFile(ReferenceFile, MaxClaimFile); err != nil {
		return q, r, err
	}
	if err := strict(b, MaxClaimFile, &r); err != nil {
		return bad(ReferenceFile, err)
	}
	if strings.TrimSpace(r.Text) == "" || chars(r.Text) > query.MaxChars {
		return bad(ReferenceFile, fmt.Errorf("text: want 1 to %d characters", query.MaxChars))
	}
	return q, r, nil
}

func resolveSchema(raw json.RawMessage) (*jsonschema.Resolved, error) {
	var s jsonschema.Schema
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, fmt.Errorf("output_schema: %w", err)
	}
	r, err := s.Resolve(nil)
	if err != nil {
		return nil, fmt.Errorf("output_schema: %w", err)
	}
	return r, nil
}

// QueryKind implements kind.Kind for arenas of queries: a script answers each
// with text or JSON, and a judge compares that with a reference answer, once in
// each order.
type QueryKind struct{ cfg QueryConfig }

// QueryConfig is Config for arenas of queries.
type QueryConfig struct {
	Rootfs string
	Judge  PairJudge // nil means LexicalPairs
	UID    func(agon.Submission) int
}

var (
	_ kind.Kind   = (*QueryKind)(nil)
	_ kind.Copier = (*QueryKind)(nil)
	_ kind.Gauged = (*QueryKind)(nil)
)

// NewQuery returns the kind.
func NewQuery(c QueryConfig) *QueryKind {
	if c.Judge == nil {
		c.Judge = LexicalPairs{}
	}
	if c.UID == nil {
		c.UID = func(agon.Submission) int { return 1 }
	}
	return &QueryKind{cfg: c}
}

// Name returns "query".
func (k *QueryKind) Name() string { return QueryName }

// Scorer names the grading code and the judge's prompt.
func (k *QueryKind) Scorer() string { return "query-1+" + k.cfg.Judge.Version() }

// Plan is Kind.Plan.
func (k *QueryKind) Plan(v agon.View) (agon.Plan, error) { return plan(v), nil }

// Rejudging implements kind.Rejudged.
func (k *QueryKind) Rejudging() kind.Rejudging {
	return kind.Rejudging{Exempt: "its judge is a model, which samples"}
}

// Gauge implements kind.Gauged.
func (k *QueryKind) Gauge() string { return judge.PairwisePrompt().Name }

// Structure implements kind.Copier.
func (k *QueryKind) Structure(files fs.FS) (string, error) {
	src, err := kind.ReadLimited(files, AgentFile, MaxQueryBytes+1)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", AgentFile, err)
	}
	return copycat.StructureHash(string(src))
}

// Check decides whether files hold one Python script that answers queries.
func (k *QueryKind) Check(ctx context.Context, a *agon.Arena, files fs.FS) ([]agon.Finding, error) {
	return kind.CheckOneFile(ctx, files, AgentFile, MaxQueryBytes, transparently(a, CheckQuerySource))
}

// Options implements kind.Chooser.
func (k *QueryKind) Options() map[string][]string { return scriptOptions() }

var registersQuery = lazyregexp.New(`entrypoint\(\s*["']query["']\s*\)|(?s)entrypoint\(\s*\)\s*async\s+def\s+query\b`)

// CheckQuerySource checks the bytes of one script.
func CheckQuerySource(src []byte) []agon.Finding {
	if f := checkText(src, MaxQueryBytes); f != nil {
		return f
	}
	if registersQuery().Match(src) {
		return nil
	}
	if strings.Contains(string(src), Entrypoint) {
		return finding(FindEra, "agent.py is of the claim era: it registers %s; this arena plays the query era: register query (@entrypoint(%q))", Entrypoint, QueryEntry)
	}
	f := finding(FindNoEntry, "agent.py does not seem to register query (@entrypoint(%q)); if it does not, every query scores 0", QueryEntry)
	f[0].Warning = true
	return f
}
