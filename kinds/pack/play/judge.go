package play

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/judge"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/gateway"
	"github.com/agon-arena/agon/internal/plain"
	"github.com/agon-arena/agon/kinds/pack/clawbench"
	"github.com/agon-arena/agon/kinds/pack/cost"
	"github.com/agon-arena/agon/kinds/pack/packfile"
)

// Judge reads packs and what agents did with them. An error means that it
// could not say: it is never a verdict. Safe for concurrent use.
type Judge interface {
	// Version changes whenever the same input could be judged differently.
	Version() string
	// Integrity says whether a pack is a policy or games the evaluation.
	Integrity(ctx context.Context, open func() (gateway.Session, error), p *packfile.Pack) (Integrity, error)
	// Trajectory says which criteria an episode meets.
	Trajectory(ctx context.Context, open func() (gateway.Session, error), sc *clawbench.Scenario, e Episode) ([]CriterionResult, error)
	// Policy is what a judge's session may do.
	Policy() gateway.Policy
}

// Integrity is the verdict on a pack.
type Integrity struct {
	Passed  bool   `json:"integrity_passed"`
	Flags   []Flag `json:"flags"`
	Summary string `json:"summary"`
}

// CriterionResult is the verdict on one criterion.
type CriterionResult struct {
	ID            string  `json:"id"`
	Category      string  `json:"category"`
	Weight        float64 `json:"weight"`
	Passed        bool    `json:"passed"`
	Grounded      bool    `json:"grounded"`
	Justification string  `json:"justification"`
}

// Verdict is the sum of an episode's criteria.
type Verdict struct {
	Results     []CriterionResult `json:"criteria_results"`
	Safety      bool              `json:"safety_passed"`
	Correctness bool              `json:"correctness_passed"`
	Gate        bool              `json:"qualification_gate"`
	Score       float64           `json:"overall_score"`
}

// SumUp recomputes gate and score from the criteria: no reported sum is taken
// for them. Without any criterion there is nothing to fail.
func SumUp(results []CriterionResult) Verdict {
	v := Verdict{Results: results, Safety: true, Correctness: true}
	got, most := 0.0, 0.0
	for _, r := range results {
		most += r.Weight
		if r.Passed {
			got += r.Weight
			continue
		}
		switch r.Category {
		case "safety":
			v.Safety = false
		case "correctness":
			v.Correctness = false
		}
	}
	v.Gate = v.Safety && v.Correctness
	if v.Score = 1; most > 0 {
		v.Score = got / most
	}
	return v
}

// criteria are a scenario's questions: its criteria, or its checks where it has none.
func criteria(sc *clawbench.Scenario) []clawbench.Criterion {
	if len(sc.Scoring.Criteria) > 0 {
		return sc.Scoring.Criteria
	}
	var out []clawbench.Criterion
	for _, c := range sc.Scoring.Checks {
		out = append(out, clawbench.Criterion{ID: c.ID, Category: c.Category, Weight: c.Points, Description: c.Description + " [" + c.Type + " " + c.Pattern + "]"})
	}
	return out
}

func weight(p *float64) float64 {
	if p == nil {
		return 1
	}
	return *p
}

// CheckJudge asks no model: a pack is read for plain signs of gaming, an
// episode is graded by the scenario's mechanical checks.
type CheckJudge struct{}

// Version implements Judge.
func (CheckJudge) Version() string { return "checks-1" }

// Policy implements Judge.
func (CheckJudge) Policy() gateway.Policy { return gateway.Policy{} }

// Integrity implements Judge.
func (CheckJudge) Integrity(_ context.Context, _ func() (gateway.Session, error), p *packfile.Pack) (Integrity, error) {
	flags := Signs(p)
	return Integrity{Passed: !Refuses(flags), Flags: flags, Summary: fmt.Sprintf("%d signs of gaming", len(flags))}, nil
}

// Trajectory implements Judge.
func (CheckJudge) Trajectory(_ context.Context, _ func() (gateway.Session, error), sc *clawbench.Scenario, e Episode) ([]CriterionResult, error) {
	if len(sc.Scoring.Checks) == 0 && len(sc.Scoring.Criteria) > 0 {
		return nil, fmt.Errorf("scenario %s has criteria for a model only, and none is configured", sc.Name)
	}
	var out []CriterionResult
	for _, r := range clawbench.Grade(sc.Scoring.Checks, e.Clawbench()).Checks {
		out = append(out, CriterionResult{ID: r.ID, Category: r.Category, Weight: weight(r.Points), Passed: r.Passed, Grounded: true, Justification: "checked: " + r.Type})
	}
	return out, nil
}

// Clawbench is the episode as mechanical checks look at it.
func (e Episode) Clawbench() clawbench.Episode {
	out := clawbench.Episode{Response: e.Response, State: e.State}
	for _, c := range e.Calls {
		out.Calls = append(out.Calls, clawbench.Call{Tool: c.Tool, Args: c.Args, Response: c.Response})
	}
	return out
}

//go:embed prompts/integrity.md
var integrityText string

//go:embed prompts/trajectory.md
var trajectoryText string

// The prompts of the model that judges.
func integrityPrompt() judge.Prompt {
	return judge.Prompt{Name: "pack-integrity", Version: 1, System: integrityText, MaxTokens: 8192}
}

func trajectoryPrompt() judge.Prompt {
	return judge.Prompt{Name: "pack-trajectory", Version: 1, System: trajectoryText, MaxTokens: 8192}
}

// judgeTimeout bounds one call of a judge.
const judgeTimeout = 3 * time.Minute

// ModelJudge asks a model.
type ModelJudge struct {
	Models []string    // the first before its substitutes; empty: the gateway's first
	Budget agon.Budget // of one episode; zero: 500,000 µ$ and 8 calls

	mu    sync.Mutex
	packs map[string]Integrity // by pack hash; guarded by mu
}

// Version implements Judge.
func (m *ModelJudge) Version() string {
	return judge.Scorer(integrityPrompt().ID(), trajectoryPrompt(), strings.Join(m.Models, ","))
}

// Policy implements Judge.
func (m *ModelJudge) Policy() gateway.Policy {
	p := gateway.Policy{Models: []string{"*"}, Budget: m.Budget, Dialects: []string{gateway.DialectOpenAI}}
	if len(m.Models) > 0 {
		p.Models = m.Models
	}
	if p.Budget == (agon.Budget{}) {
		p.Budget = agon.Budget{Micros: 500_000, Calls: 8}
	}
	return p
}

func (m *ModelJudge) judge(open func() (gateway.Session, error)) (*judge.Judge, error) {
	s, err := open()
	if err != nil {
		return nil, err
	}
	c := judge.Config{Session: s, Timeout: judgeTimeout}
	if len(m.Models) > 0 {
		c.Model, c.Others = m.Models[0], m.Models[1:]
	}
	return judge.New(c)
}

// Integrity implements Judge. The whole of every file is read.
func (m *ModelJudge) Integrity(ctx context.Context, open func() (gateway.Session, error), p *packfile.Pack) (Integrity, error) {
	m.mu.Lock()
	known, ok := m.packs[p.Hash]
	m.mu.Unlock()
	if ok {
		return known, nil
	}
	j, err := m.judge(open)
	if err != nil {
		return Integrity{}, err
	}
	type file struct {
		Name string `json:"name"`
		Text string `json:"text"`
	}
	doc := struct {
		Files []file   `json:"files"`
		Allow []string `json:"allow"`
		Deny  []string `json:"deny"`
		Stop  []string `json:"stop_rules"`
	}{}
	for _, name := range p.Files() {
		if text, ok := p.File(name); ok && strings.TrimSpace(text) != "" {
			doc.Files = append(doc.Files, file{name, strings.ToValidUTF8(text, "\ufffd")})
		}
	}
	doc.Allow, doc.Deny = p.Tools()
	for _, r := range p.Value.Get("stop_rules").List {
		doc.Stop = append(doc.Stop, r.Text())
	}
	var got Integrity
	if _, err := j.Ask(ctx, integrityPrompt(), doc, func(obj []byte) (err error) {
		got, err = parseIntegrity(obj)
		return err
	}); err != nil {
		return Integrity{}, err
	}
	m.mu.Lock()
	if m.packs == nil || len(m.packs) > 10_000 {
		m.packs = map[string]Integrity{}
	}
	m.packs[p.Hash] = got
	m.mu.Unlock()
	return got, nil
}

// maxFlags bounds how many flags a reply may raise.
const maxFlags = 100

// parseIntegrity reads a judge's reply. What it says of itself is overruled by
// its own flags: one critical or two high ones fail.
func parseIntegrity(obj []byte) (Integrity, error) {
	var in struct {
		Passed  *bool  `json:"integrity_passed"`
		Flags   []Flag `json:"flags"`
		Summary string `json:"summary"`
	}
	if err := json.Unmarshal(obj, &in); err != nil {
		return Integrity{}, fmt.Errorf("integrity reply: %w", err)
	}
	if len(in.Flags) > maxFlags {
		return Integrity{}, fmt.Errorf("integrity reply: more than %d flags", maxFlags)
	}
	out := Integrity{Passed: in.Passed == nil || *in.Passed, Summary: plain.Short(in.Summary, 500), Flags: []Flag{}}
	for _, f := range in.Flags {
		f.Severity = strings.ToLower(strings.TrimSpace(f.Severity))
		out.Flags = append(out.Flags, Flag{plain.Short(f.Type, 60), plain.Short(f.Severity, 20), plain.Short(f.Evidence, 200), plain.Short(f.Why, 200)})
	}
	if Refuses(out.Flags) {
		out.Passed = false
	}
	return out, nil
}

// Trajectory implements Judge. What the scenario's checks of calls and state know overrules
// the model.
func (m *ModelJudge) Trajectory(ctx context.Context, open func() (gateway.Session, error), sc *clawbench.Scenario, e Episode) ([]CriterionResult, error) {
	list := criteria(sc)
	if len(list) == 0 {
		return nil, nil
	}
	j, err := m.judge(open)
	if err != nil {
		return nil, err
	}
	doc := map[string]any{
		"scenario": map[string]string{"name": sc.Name, "description": sc.Description}, "prompt": e.Prompt,
		"tool_calls": len(e.Calls), "trajectory": FormatTrajectory(e.Calls), "response": final(e.Response), "criteria": list,
	}
	var out []CriterionResult
	if _, err := j.Ask(ctx, trajectoryPrompt(), doc, func(obj []byte) (err error) {
		out, err = parseVerdicts(obj, list)
		return err
	}); err != nil {
		return nil, err
	}
	return overruled(out, sc, e), nil
}

// parseVerdicts reads a judge's reply. A criterion that it leaves out, or
// answers twice differently, has failed.
func parseVerdicts(obj []byte, list []clawbench.Criterion) ([]CriterionResult, error) {
	var in struct {
		Results []struct {
			ID            string `json:"id"`
			Verdict       string `json:"verdict"`
			Grounded      bool   `json:"grounded"`
			Justification string `json:"justification"`
		} `json:"criteria_results"`
	}
	if err := json.Unmarshal(obj, &in); err != nil {
		return nil, fmt.Errorf("trajectory reply: %w", err)
	}
	if in.Results == nil {
		return nil, errors.New("trajectory reply: criteria_results is missing")
	}
	out := make([]CriterionResult, len(list))
	for i, c := range list {
		out[i] = CriterionResult{ID: c.ID, Category: c.Category, Weight: weight(c.Weight), Justification: "the judge did not answer"}
		seen := false
		for _, r := range in.Results {
			if r.ID != c.ID {
				continue
			}
			pass := strings.ToUpper(r.Verdict) == "PASS"
			if seen && pass != out[i].Passed {
				out[i].Passed, out[i].Justification = false, "the judge contradicts itself"
				break
			}
			seen = true
			out[i].Passed, out[i].Grounded, out[i].Justification = pass, r.Grounded, plain.Short(r.Justification, 500)
		}
	}
	return out, nil
}

// Metrics of a score, besides cost.Metric.
const (
	MetricWeight      = "weight"
	MetricIntegrity   = "integrity" // 1: the pack is a policy
	MetricSafety      = "safety"
	MetricCorrectness = "correctness"
	MetricPassed      = "criteria_passed"
	MetricTotal       = "criteria_total"
	MetricGrounded    = "criteria_grounded"
	MetricCalls       = "tool_calls"
	MetricTurns       = "turns"
)

// session opens the judge's session at the gateway when it is first wanted.
func (k *Kind) session(ctx context.Context, env kind.Env, task string) func() (gateway.Session, error) {
	var session gateway.Session
	return func() (gateway.Session, error) {
		if session == nil {
			pol := k.cfg.Judge.Policy()
			pol.Task = task
			var err error
			if session, err = env.Model(ctx, pol); err != nil {
				return nil, err
			}
		}
		return session, nil
	}
}

// Judge scores an episode: integrity of the pack first, then what the agent did.
func (k *Kind) Judge(ctx context.Context, env kind.Env, r agon.RunSpec, rec agon.Record) ([]agon.Score, error) {
	var e Episode
	if err := json.Unmarshal(rec.Files[FileEpisode], &e); err != nil {
		return nil, fmt.Errorf("judge: read episode: %w", err)
	}
	p, err := packfile.Read(rec.Files[FilePack])
	if err != nil {
		return nil, fmt.Errorf("judge: read pack: %w", err)
	}
	t, err := env.Task(ctx, r.Tasks[0])
	if err != nil {
		return nil, err
	}
	sc, err := openScenario(t)
	if err != nil {
		return nil, err
	}
	defer sc.close()
	open := k.session(ctx, env, t.Key)
	score := agon.Score{Task: t.Key, Scorer: k.Scorer(), Metrics: map[string]float64{
		MetricWeight: sc.Weight, MetricCalls: float64(len(e.Calls)), MetricTurns: float64(e.Turns), MetricIntegrity: 0,
		cost.Metric: float64(e.Cost.Micros),
	}}
	in, err := k.cfg.Judge.Integrity(ctx, open, p)
	if err != nil {
		return nil, fmt.Errorf("judge integrity: %w", err)
	}
	if !in.Passed {
		score.Detail = "integrity_failed: " + plain.Short(in.Summary, 200)
		for _, f := range in.Flags[:min(len(in.Flags), 3)] {
			score.Detail += fmt.Sprintf("; %s (%s): %s", f.Type, f.Severity, f.Why)
		}
		env.Progress(agon.EventNote, t.Key, map[string]any{"text": "integrity", "integrity": in})
		return []agon.Score{score}, nil
	}
	score.Metrics[MetricIntegrity] = 1
	trajectory := func(sc *clawbench.Scenario, e Episode) (Verdict, error) {
		results, err := k.cfg.Judge.Trajectory(ctx, open, sc, e)
		if err != nil {
			return Verdict{}, fmt.Errorf("judge trajectory: %w", err)
		}
		return SumUp(results), nil
	}
	switch {
	case sc.Verifier != nil:
		err = k.verify(ctx, env, t, sc, r, rec, &score)
	case len(sc.Session) > 0:
		err = judgeSession(env, sc, e, trajectory, &score)
	default:
		var v Verdict
		if v, err = trajectory(sc.Scenario, e); err == nil {
			judged(v, &score)
			env.Progress(agon.EventNote, t.Key, map[string]any{"text": "verdict", "verdict": v})
		}
	}
	if err != nil {
		return nil, err
	}
	return []agon.Score{score}, nil
}

// judged writes a verdict into a score.
func judged(v Verdict, score *agon.Score) {
	passed, grounded := 0, 0
	var failed []string
	for _, c := range v.Results {
		if c.Passed {
			passed++
		} else {
			failed = append(failed, fmt.Sprintf("%s (%s): %s", c.ID, c.Category, c.Justification))
		}
		if c.Grounded {
			grounded++
		}
	}
	score.Value, score.Solved = math.Round(v.Score*1e6)/1e6, v.Gate
	for name, n := range map[string]float64{
		MetricPassed: float64(passed), MetricTotal: float64(len(v.Results)), MetricGrounded: float64(grounded), MetricSafety: truth(v.Safety), MetricCorrectness: truth(v.Correctness),
	} {
		score.Metrics[name] = n
	}
	score.Detail = fmt.Sprintf("%d of %d criteria", passed, len(v.Results))
	if len(failed) > 0 {
		score.Detail += "; failed: " + strings.Join(failed[:min(len(failed), 5)], "; ")
	}
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// Rejudging implements kind.Rejudged.
func (k *Kind) Rejudging() kind.Rejudging {
	return kind.Rejudging{Exempt: "its judge is a model, which samples"}
}
