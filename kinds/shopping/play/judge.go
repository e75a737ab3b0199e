package play

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/judge"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/gateway"
	"github.com/agon-arena/agon/internal/plain"
	"github.com/agon-arena/agon/kinds/shopping/score"
)

// Breaker of the judge: after so many episodes in a row of which nobody could
// say anything it is not asked any more in this run.
const breaker = 3

// Least share of an outage that ends a run on our account (spec/oro.md 1.8).
const minJudgeCalls = 3

// judged is what judging made of one problem.
type judged struct {
	grade Grade
	// quality is nil where the problem was not judged, or nobody could say.
	quality *float64
	word    Reasoning
	ev      *Evidence
	env     Envelope
	asked   bool // a judge was needed
	pub     Public
}

// NoteBasket is the text of the note that says what was bought.
const NoteBasket = "basket"

// Basket is the data of that note: the wish, and each product beside what was
// wanted of it. It is withheld where the problem is.
type Basket struct {
	Text     string `json:"text"` // NoteBasket
	Task     string `json:"task"`
	Query    string `json:"query,omitempty"`
	Category string `json:"category,omitempty"`
	Solved   bool   `json:"solved"`
	// Ended says how an episode ended that gave no answer to grade; empty: it gave one.
	Ended   string         `json:"ended,omitempty"`
	Account *score.Account `json:"account,omitempty"`
}

func (j *judged) note(key string) Basket {
	b := Basket{Text: NoteBasket, Task: key, Query: plain.Short(j.pub.Query, 2000), Category: plain.Short(j.pub.Category, 40), Solved: j.grade.Success, Account: j.grade.Account}
	switch {
	case j.env.Status != StatusSuccess:
		b.Ended = plain.Short(j.env.Status, 100)
	case j.grade.Account == nil:
		b.Ended = "its answer cannot be read"
	}
	return b
}

// Judge grades every episode and says how much reasoning stands behind the
// run. The factor on the share of solved problems is the run's: each solved
// problem of it is worth the factor, each other nothing.
func (k *Kind) Judge(ctx context.Context, env kind.Env, r agon.RunSpec, rec agon.Record) ([]agon.Score, error) {
	if k.cfg.Grader == nil {
		return nil, errors.New("judge: this host has no grader of shopping episodes")
	}
	all := make([]judged, len(r.Tasks))
	desk := &desk{k: k, env: env, problems: len(r.Tasks)}
	for i, t := range r.Tasks {
		if err := k.judgeOne(ctx, env, t, i, rec, desk, &all[i]); err != nil {
			return nil, err
		}
	}
	if desk.calls >= minJudgeCalls && 2*desk.failed > desk.calls {
		return nil, fmt.Errorf("judge: %d of %d calls of the judging models failed", desk.failed, desk.calls)
	}
	var verdicts []score.Verdict
	needed := false
	for _, j := range all {
		needed = needed || j.asked
		if j.quality != nil {
			verdicts = append(verdicts, j.quality)
		}
	}
	q := score.Quality(score.Strict, verdicts)
	if q == nil && needed {
		return nil, errors.New("judge: nobody could say anything of any episode")
	}
	coefficient := score.Coefficient(0)
	if q != nil {
		coefficient = score.Coefficient(*q)
	}
	out := make([]agon.Score, len(all))
	for i, t := range r.Tasks {
		out[i] = all[i].score(t.Key, k.Scorer(), coefficient, q)
		env.Progress(agon.EventNote, t.Key, all[i].note(t.Key))
		if t.Hidden {
			hide(&out[i])
		}
	}
	return out, nil
}

// hide leaves of a score on a hidden problem, which everybody may read, what
// cannot carry its words: no text that an agent or a judge wrote, no count that
// an agent chose.
func hide(s *agon.Score) {
	detail := "hidden"
	for _, begins := range []string{"Gate 1", "Gate 2", "Gate 3", "Gate 4", "All gates", solved, unsolved} {
		if strings.HasPrefix(s.Detail, begins) {
			detail = begins
		}
	}
	s.Detail = detail
	for name, v := range s.Metrics {
		switch {
		case name == "agentic_ratio":
			s.Metrics[name] = math.Round(v*10) / 10
		case strings.HasSuffix(name, "_calls"), strings.HasSuffix(name, "_tokens"), name == "seconds", name == "judge_failed", name == "format", name == "length":
			delete(s.Metrics, name)
		}
	}
}

// judgeOne grades one problem of a run. An error is never the agent's.
func (k *Kind) judgeOne(ctx context.Context, env kind.Env, t agon.TaskRef, i int, rec agon.Record, d *desk, out *judged) error {
	var err error
	if out.env, err = ReadEnvelope(rec.Files[episodeFile(i)]); err != nil {
		return fmt.Errorf("judge %s: %w", t.Key, err)
	}
	out.ev = &Evidence{}
	if err := json.Unmarshal(rec.Files[evidenceFile(i)], out.ev); err != nil {
		return fmt.Errorf("judge %s: read evidence: %w", t.Key, err)
	}
	tk, err := env.Task(ctx, t)
	if err != nil {
		return err
	}
	if out.pub, err = loadPublic(tk); err != nil {
		return err
	}
	if out.env.Status != StatusSuccess || len(out.env.Dialogue) == 0 {
		return nil
	}
	problem, err := tk.ReadFile(RewardFile, maxProblem)
	if err != nil {
		return err
	}
	if out.grade, err = k.cfg.Grader.Grade(ctx, problem, out.env.Dialogue); err != nil {
		return fmt.Errorf("judge %s: %w", t.Key, err)
	}
	if string(out.env.Dialogue) == "[]" {
		return nil // an empty episode is graded, and not judged
	}
	out.asked = true
	w, done := gate1(out.ev)
	if !done {
		if w, err = d.reason(ctx, t.Key, reasoningCase(out.pub.Query, out.ev, out.env.Dialogue)); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			out.word.Explanation = "no verdict: " + plain.Short(err.Error(), 200)
			return nil // unknown, never zero
		}
	}
	out.word, out.quality = w, &w.Quality
	return nil
}

// desk asks the judge for the problems of one run.
type desk struct {
	k             *Kind
	env           kind.Env
	problems      int
	session       gateway.Session
	calls, failed int  // of models
	row           int  // episodes in a row without a verdict
	muted         bool // an episode was to blame that it got none
}

var errBroken = errors.New("the judge was given up for this run")

func (d *desk) reason(ctx context.Context, key string, c judge.ReasoningCase) (Reasoning, error) {
	if d.row >= breaker {
		return Reasoning{}, errBroken
	}
	if d.session == nil {
		if pol := d.k.cfg.Judge.Policy(d.problems); len(pol.Models) > 0 {
			pol.Task = key
			s, err := d.env.Model(ctx, pol)
			if err != nil {
				return Reasoning{}, err
			}
			d.session = s
		}
	}
	w, err := d.k.cfg.Judge.Reason(ctx, d.session, c)
	if err != nil && ctx.Err() == nil && d.mute(ctx, c, &w, err) {
		return w, nil
	}
	d.calls += w.Tries
	d.failed += w.Failed
	if err != nil {
		d.row++
		return w, err
	}
	d.row = 0
	return w, nil
}

// mute settles an episode of which the judge said nothing. An agent can write what its
// judge chokes on, and must gain nothing by it: where the judge speaks of an episode of
// ours and again not of this one, this one passes no gate of the judge's. Nor does one for
// which such episodes of its run left no budget. Otherwise the cause is not known: false.
func (d *desk) mute(ctx context.Context, c judge.ReasoningCase, w *Reasoning, err error) bool {
	again := Reasoning{}
	if !errors.Is(err, judge.ErrBudget) {
		if _, err = d.k.cfg.Judge.Reason(ctx, d.session, plainCase()); err == nil {
			again, err = d.k.cfg.Judge.Reason(ctx, d.session, c)
			d.muted = d.muted || err != nil && ctx.Err() == nil && !errors.Is(err, judge.ErrBudget)
		} else if !errors.Is(err, judge.ErrBudget) {
			return false
		}
	}
	switch {
	case err == nil:
		*w = again
	case ctx.Err() != nil || !d.muted:
		return false
	default:
		why := "Gate 2: the judge speaks of other episodes, and twice gave no verdict on this one"
		if errors.Is(err, judge.ErrBudget) {
			why = "Gate 2: episodes of this run that got no verdict have used up the judge's budget"
		}
		*w = Reasoning{Quality: judge.GateResults, Explanation: why, Model: "gateway", Tries: w.Tries + again.Tries}
	}
	d.calls += w.Tries
	d.row = 0
	return true
}

// plainCase is an episode of ours, which every judge can judge.
func plainCase() judge.ReasoningCase {
	const said = "The search returned 100001 for 20 and 100002 for 30. I take 100001, since it is the cheaper of the two and both are red."
	c := judge.ReasoningCase{Query: "a red lamp, as cheap as can be"}
	c.Calls.Search, c.Calls.Inference, c.Calls.Completion = 1, 2, 90
	c.Calls.List = []judge.ReasoningCall{
		{Name: "find_product", Params: `{"q":"red lamp"}`, Status: http.StatusOK, IDs: []string{"100001", "100002"}},
		{Name: "model", Status: http.StatusOK, Said: said},
	}
	c.Steps = []judge.ReasoningStep{{Step: 1, Thinking: said, Tools: []judge.ReasoningTool{{Name: "recommend_product", Params: `{"product_ids":"100001"}`}}}}
	return c
}

// score is a problem's score in the engine's words.
func (j *judged) score(key, version string, coefficient float64, q *float64) agon.Score {
	m := map[string]float64{
		"model_calls": float64(j.ev.Models), "tool_calls": float64(j.ev.Tools), "failed_calls": float64(j.ev.Failed), "refused_calls": float64(j.ev.Refused),
		"credited_calls": float64(j.ev.Credited), "completion_tokens": float64(j.ev.Completion), "coefficient": coefficient, "seconds": j.env.Seconds,
		"judge_calls": float64(j.word.Tries), "judge_failed": float64(j.word.Failed),
	}
	if r, ok := j.ev.Ratio(); ok {
		m["agentic_ratio"] = math.Round(r*1e6) / 1e6 // as rows of a corpus and their classifier say it
	}
	if q != nil {
		m["run_quality"] = *q
	}
	if j.quality != nil {
		m["quality"] = *j.quality
	}
	for name, v := range j.grade.Fields {
		m[strings.ReplaceAll(name, " ", "")] = v
	}
	s := agon.Score{Task: key, Scorer: version, Solved: j.grade.Success, Metrics: m}
	if j.grade.Success {
		s.Value = coefficient
		m["success"] = 1
	}
	switch {
	case j.env.Error != nil:
		s.Detail = plain.Short(j.env.Status+": "+j.env.Error.Type+": "+j.env.Error.Message, 500)
	case len(j.env.Dialogue) == 0:
		s.Detail = "agent_main returned no list"
	case !j.grade.Success:
		s.Detail = unsolved
		if a := j.grade.Account; a != nil && !slices.ContainsFunc(a.Items, func(m score.Matched) bool { return m.Chosen != nil }) {
			s.Detail = unsolved + ": it names no product of the catalogue"
		}
	default:
		s.Detail = j.word.Explanation
		if coefficient < 1 {
			s.Detail = fmt.Sprintf("%s, times %.4g for the reasoning behind it: %s", solved, coefficient, j.word.Explanation)
		}
	}
	return s
}

// How the detail of a score begins: whether what was chosen is what was asked for.
const (
	solved   = "solved"
	unsolved = "what it chose is not what was asked for"
)

// judgeSpread is how far two judgings of one run may lie apart, as its coefficient: the
// models that judge reasoning sample.
const judgeSpread = 0.2

// Rejudging implements kind.Rejudged. Answers are graded by rule, so the solved
// tasks must be equal; only what a model says of the reasoning may differ.
func (k *Kind) Rejudging() kind.Rejudging { return kind.Rejudging{Same: sameScore} }

func sameScore(x, y agon.Score) bool {
	gated := func(s agon.Score) bool { return s.Metrics["quality"] == judge.GateModel } // by the gateway's books alone
	if x.Solved != y.Solved || gated(x) != gated(y) {
		return false
	}
	if x.Scorer == y.Scorer && strings.HasSuffix(x.Scorer, "+"+RuleJudge{}.Version()) {
		return x.Value == y.Value
	}
	return math.Abs(x.Value-y.Value) <= judgeSpread
}
