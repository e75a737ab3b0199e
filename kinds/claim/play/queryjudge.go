package play

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/judge"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/score"
	"github.com/agon-arena/agon/gateway"
	"github.com/agon-arena/agon/internal/plain"
)

// PairJudge compares an answer with a reference in both orders. An error means
// that it could not say: it is never a verdict. Safe for concurrent use.
type PairJudge interface {
	Version() string
	Policy() gateway.Policy
	// Compare judges; open is as that of SupportJudge.
	Compare(ctx context.Context, open func() (gateway.Session, error), c judge.PairCase) (judge.PairVerdict, error)
}

// ModelPairs is the PairJudge that asks models.
type ModelPairs struct{ ModelJudge }

// Version implements PairJudge.
func (m ModelPairs) Version() string {
	return judge.PairwiseScorer(m.Models)
}

// Policy implements PairJudge: both orders are reserved for at once, each with
// answers and evidence of two sides.
func (m ModelPairs) Policy() gateway.Policy {
	p := m.ModelJudge.Policy()
	if n := max(len(m.Models), 1); m.Budget == (agon.Budget{}) {
		p.Budget = agon.Budget{Micros: 600_000 * agon.Micros(n), Calls: 32 * int64(n)}
	}
	return p
}

// Compare implements PairJudge.
func (m ModelPairs) Compare(ctx context.Context, open func() (gateway.Session, error), c judge.PairCase) (judge.PairVerdict, error) {
	return asking(m.ModelJudge, open, 6, func(j *judge.Judge) (judge.PairVerdict, error) { return j.Pairwise(ctx, c) })
}

// LexicalPairs is LexicalJudge for comparisons (judge.PairLexically).
type LexicalPairs struct{}

// Version implements PairJudge.
func (LexicalPairs) Version() string { return judge.LexicalPairs }

// Policy implements PairJudge: no session is ever opened.
func (LexicalPairs) Policy() gateway.Policy { return gateway.Policy{} }

// Compare implements PairJudge.
func (LexicalPairs) Compare(_ context.Context, _ func() (gateway.Session, error), c judge.PairCase) (judge.PairVerdict, error) {
	return judge.PairLexically(c), nil
}

// Judge compares each answer with its reference. What broke the contract is
// worth 0 and no judge is asked.
func (k *QueryKind) Judge(ctx context.Context, env kind.Env, r agon.RunSpec, rec agon.Record) ([]agon.Score, error) {
	return scoredPairs(r, rec, func(t agon.TaskRef, p Pair) (agon.Score, error) {
		s, err := k.compare(ctx, env, t, p)
		if errors.Is(err, judge.ErrNoVerdict) {
			s = agon.Score{Task: t.Key, Value: Half, Scorer: k.Scorer(), Detail: unscoredDetail, Metrics: map[string]float64{score.MetricUnscored: 1}}
		}
		return s, err
	})
}

func (k *QueryKind) compare(ctx context.Context, env kind.Env, t agon.TaskRef, p Pair) (agon.Score, error) {
	s := agon.Score{Task: t.Key, Scorer: k.Scorer(), Detail: p.detail(), Metrics: map[string]float64{"comparison_score": 0}}
	if p.Outcome != agon.OutcomeOK || p.Answer == nil {
		return s, nil
	}
	tk, err := env.Task(ctx, t)
	if err != nil {
		return s, err
	}
	q, ref, err := LoadQuery(tk)
	if err != nil {
		return s, err
	}
	c := judge.PairCase{Query: q.checked.Text, Contract: q.checked.Schema, Reference: judge.PairAnswer{Text: ref.Text, Note: ref.Note}}
	for _, x := range ref.Citations {
		if x == nil {
			c.Reference.Citations = append(c.Reference.Citations, nil)
			continue
		}
		c.Reference.Citations = append(c.Reference.Citations, &judge.PairCited{URL: x.URL, Title: x.Title, Note: x.Note})
	}
	c.Answer = judge.PairAnswer{Text: p.Answer.shown(), Note: str(p.Answer.Note)}
	for _, h := range p.Answer.Citations {
		if h == nil {
			c.Answer.Citations = append(c.Answer.Citations, nil)
			continue
		}
		c.Answer.Citations = append(c.Answer.Citations, &judge.PairCited{URL: str(h.URL), Title: str(h.Title), Note: h.origin() + str(h.Note)})
	}
	v, err := k.cfg.Judge.Compare(ctx, opener(ctx, env, k.cfg.Judge.Policy(), t.Key), c)
	if err != nil {
		return s, fmt.Errorf("compare answers of %s: %w", t.Key, err)
	}
	env.Progress(agon.EventNote, t.Key, Compared{
		Text: NoteCompared, Task: t.Key, Query: plain.Short(q.checked.Text, 2000), Answer: plain.Short(p.Answer.shown(), 4000),
		Reference: plain.Short(ref.Text, 4000), Wins: v.Wins, Rationale: plain.Short(v.Rationales[0], 1000),
	})
	s.Value = float64(v.Wins) / 2
	s.Solved = v.Wins == 2
	s.Metrics["comparison_score"] = s.Value
	s.Detail = fmt.Sprintf("preferred to the reference in %d of 2 orders: %s", v.Wins, plain.Short(v.Rationales[0], 1000))
	if v.Unreadable {
		s.Detail = "the judge answers on other cases in its form and on this one does not: the reference is preferred"
	}
	return s, nil
}

// NoteCompared is the text of the note that says how an answer was compared.
const NoteCompared = "compared"

// Compared is the data of that note. It is withheld where the task is.
type Compared struct {
	Text      string `json:"text"` // NoteCompared
	Task      string `json:"task"`
	Query     string `json:"query"`
	Answer    string `json:"answer"`
	Reference string `json:"reference"`
	Wins      int    `json:"wins"` // of 2 orders
	Rationale string `json:"rationale,omitempty"`
}

func str(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// opener opens the judge's session of a task with the first call.
func opener(ctx context.Context, env kind.Env, pol gateway.Policy, key string) func() (gateway.Session, error) {
	var session gateway.Session
	return func() (gateway.Session, error) {
		if session != nil {
			return session, nil
		}
		pol.Task = key
		s, err := env.Model(ctx, pol)
		if err == nil {
			session = s
		}
		return s, err
	}
}

// LeakKeys implements kind.LeakKeyer: a query by its id and its words, and the
// passages that its reference cites.
func (k *QueryKind) LeakKeys(_ agon.TaskRef, read func(string) ([]byte, error)) ([]string, error) {
	b, err := read(QueryFile)
	if err != nil {
		return nil, err
	}
	var q struct {
		ID    string `json:"task_id"`
		Query struct {
			Text string `json:"text"`
		} `json:"query"`
	}
	if err := json.Unmarshal(b, &q); err != nil {
		return nil, fmt.Errorf("read %s: %w", QueryFile, err)
	}
	keys := []string{"query " + q.ID, "text " + string(agon.Sum([]byte(strings.Join(strings.Fields(strings.ToLower(q.Query.Text)), " "))))}
	return append(keys, factoids(read)...), nil
}

func factoids(read func(string) ([]byte, error)) (keys []string) {
	var r QueryReference
	b, err := read(ReferenceFile)
	if err != nil || json.Unmarshal(b, &r) != nil {
		return nil
	}
	for _, x := range r.Citations {
		if x != nil {
			keys = append(keys, "factoid "+string(agon.Sum([]byte(x.URL+"\n"+x.Note))))
		}
	}
	return keys
}
