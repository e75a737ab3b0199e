package play

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/judge"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/gateway"
	"github.com/agon-arena/agon/internal/plain"
	"github.com/agon-arena/agon/kinds/claim/query"
)

// ItemJudge grades an answer to a benchmark's question. An error means that it could
// not say. Safe for concurrent use.
type ItemJudge interface {
	// Version names the judge with a prompt, as scorers name it.
	Version(p judge.Prompt) string
	Policy() gateway.Policy
	// Grade judges by p; open is as that of SupportJudge.
	Grade(ctx context.Context, open func() (gateway.Session, error), p judge.Prompt, c judge.ItemCase) (judge.ItemVerdict, error)
}

// ModelItems is the ItemJudge that asks models.
type ModelItems struct{ ModelJudge }

// Version implements ItemJudge.
func (m ModelItems) Version(p judge.Prompt) string { return judge.ItemScorer(p, m.Models) }

// Policy implements ItemJudge: a rubric has up to 200 criteria.
func (m ModelItems) Policy() gateway.Policy {
	p := m.ModelJudge.Policy()
	if m.Budget == (agon.Budget{}) {
		p.Budget = agon.Budget{Micros: 5_000_000, Calls: 2000}
	}
	return p
}

// Grade implements ItemJudge.
func (m ModelItems) Grade(ctx context.Context, open func() (gateway.Session, error), p judge.Prompt, c judge.ItemCase) (judge.ItemVerdict, error) {
	return asking(m.ModelJudge, open, 6, func(j *judge.Judge) (judge.ItemVerdict, error) { return j.Item(ctx, p, c) })
}

// LexicalItems is LexicalJudge for benchmarks (judge.ItemLexically).
type LexicalItems struct{}

// Version implements ItemJudge.
func (LexicalItems) Version(judge.Prompt) string { return judge.LexicalItems }

// Policy implements ItemJudge: no session is ever opened.
func (LexicalItems) Policy() gateway.Policy { return gateway.Policy{} }

// Grade implements ItemJudge.
func (LexicalItems) Grade(_ context.Context, _ func() (gateway.Session, error), _ judge.Prompt, c judge.ItemCase) (judge.ItemVerdict, error) {
	return judge.ItemLexically(c), nil
}

// BenchName is the kind of runs in which a script of the query era answers a
// benchmark's questions. No arena has it: what is public must not decide money.
const BenchName = "query-benchmark"

// MetricGraded is 1 in the score of a question that was answered and graded.
const MetricGraded = "graded"

// BenchKind plays as QueryKind does and grades each answer by its item.
type BenchKind struct {
	*QueryKind
	judge ItemJudge
	// prompt grades its items, which are all alike: right or wrong, or by criteria.
	prompt judge.Prompt
	items  map[string]query.Item // by the key of the task
}

// NewBench returns the kind of one benchmark. j nil means LexicalItems.
func NewBench(c QueryConfig, j ItemJudge, items map[string]query.Item) *BenchKind {
	if j == nil {
		j = LexicalItems{}
	}
	p := judge.CorrectPrompt()
	for _, x := range items {
		if x.Rubric != nil {
			p = judge.CriterionPrompt()
		}
	}
	return &BenchKind{NewQuery(c), j, p, items}
}

// Name returns BenchName.
func (k *BenchKind) Name() string { return BenchName }

// Scorer names the grading code and the judge.
func (k *BenchKind) Scorer() string { return "query-benchmark-1+" + k.Judged() }

// Judged names the judge with its prompt, as its calibration does.
func (k *BenchKind) Judged() string { return k.judge.Version(k.prompt) }

// Prompt is what it grades by.
func (k *BenchKind) Prompt() judge.Prompt { return k.prompt }

// BenchFiles are the files of the task that asks a question.
func BenchFiles(id string, x query.Item, budget agon.Micros) (map[string]string, error) {
	q, err := json.Marshal(QueryTask{TaskID: id, Query: json.RawMessage(mustText(x.Question)), Budget: budget})
	if err != nil {
		return nil, fmt.Errorf("write item: %w", err)
	}
	// The reference is never compared with: Judge knows the item.
	ref, err := json.Marshal(QueryReference{Text: "see the benchmark"})
	if err != nil {
		return nil, fmt.Errorf("write item: %w", err)
	}
	return map[string]string{
		"task.toml": "version = \"1.0\"\n[agon]\nkind = \"" + QueryName + "\"\n", "instruction.md": x.Question, QueryFile: string(q), ReferenceFile: string(ref),
	}, nil
}

func mustText(s string) []byte {
	b, _ := json.Marshal(map[string]string{"text": s}) // texts only
	return b
}

// Judge grades each answer. A task without an answer is worth 0 and no judge is asked.
func (k *BenchKind) Judge(ctx context.Context, env kind.Env, r agon.RunSpec, rec agon.Record) ([]agon.Score, error) {
	return scoredPairs(r, rec, func(t agon.TaskRef, p Pair) (agon.Score, error) {
		s := agon.Score{Task: t.Key, Scorer: k.Scorer(), Detail: p.detail(), Metrics: map[string]float64{}}
		x, ok := k.items[t.Key]
		if !ok {
			return s, fmt.Errorf("judge: no item of the benchmark is %s", t.Key)
		}
		if p.Outcome != agon.OutcomeOK || p.Answer == nil {
			return s, nil
		}
		value, why, err := k.grade(ctx, opener(ctx, env, k.judge.Policy(), t.Key), x, p.Answer.shown())
		switch {
		case errors.Is(err, judge.ErrNoVerdict):
			s.Detail = "the judge gave no verdict"
			return s, nil
		case err != nil:
			return s, fmt.Errorf("grade %s: %w", t.Key, err)
		}
		s.Value, s.Detail, s.Solved = value, why, value == 1
		s.Metrics[MetricGraded] = 1
		return s, nil
	})
}

// grade is an answer's score and why: by all criteria where the item has a rubric.
func (k *BenchKind) grade(ctx context.Context, open func() (gateway.Session, error), x query.Item, answer string) (float64, string, error) {
	ask := func(wanted string) (judge.ItemVerdict, error) {
		return k.judge.Grade(ctx, open, k.prompt, judge.ItemCase{Question: x.Question, Wanted: wanted, Answer: answer})
	}
	if x.Rubric == nil {
		v, err := ask(x.Answer)
		if err != nil {
			return 0, "", err
		}
		value := 0.0
		if v.Holds {
			value = 1
		}
		return value, plain.Short(v.Why, 1000), nil
	}
	met := 0
	list := make([]query.Criterion, 0, len(x.Rubric))
	for _, q := range x.Rubric {
		v, err := ask(q.Text)
		if err != nil {
			return 0, "", fmt.Errorf("criterion %s: %w", plain.Short(q.ID, 100), err)
		}
		c := query.Criterion{ID: q.ID, Section: q.Section, Weight: q.Weight, Verdict: "UNMET"}
		if v.Holds {
			met++
			c.Verdict = "MET"
		}
		list = append(list, c)
	}
	value, err := query.Rubric(list)
	return value, fmt.Sprintf("%d of %d criteria met", met, len(list)), err
}
