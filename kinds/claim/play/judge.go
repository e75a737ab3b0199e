package play

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/judge"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/score"
	"github.com/agon-arena/agon/internal/plain"
)

// mismatch is what a miner reads where no judge was asked. The engine withholds
// it while the task is hidden.
func mismatch(given, wanted int) string {
	return fmt.Sprintf("verdict %d, the reference says %d", given, wanted)
}

// Judge grades each pair. The model is asked only where the verdict is right.
func (k *Kind) Judge(ctx context.Context, env kind.Env, r agon.RunSpec, rec agon.Record) ([]agon.Score, error) {
	return scoredPairs(r, rec, func(t agon.TaskRef, p Pair) (agon.Score, error) {
		s, err := k.judgePair(ctx, env, t, p)
		if errors.Is(err, judge.ErrNoVerdict) {
			s = Grade{VerdictScore: Half, Total: Half}.score(t.Key, k.Scorer(), unscoredDetail)
			s.Metrics[score.MetricUnscored] = 1
		}
		return s, err
	})
}

// unscoredDetail is what a miner reads of a pair that no judge judged.
const unscoredDetail = "unscored: the judge gave no verdict; the pair does not count"

// scoredPairs gives each pair of a run to one. What was judged stays judged: the score that
// comes with judge.ErrNoVerdict stands for its pair, which counts for nobody.
func scoredPairs(r agon.RunSpec, rec agon.Record, one func(agon.TaskRef, Pair) (agon.Score, error)) ([]agon.Score, error) {
	pairs, err := DecodePairs(rec.Files[PairsFile])
	if err != nil {
		return nil, err
	}
	if len(pairs) != len(r.Tasks) {
		return nil, fmt.Errorf("judge: %d pairs for %d tasks", len(pairs), len(r.Tasks))
	}
	out := make([]agon.Score, 0, len(pairs))
	var unscored []error
	for i, t := range r.Tasks {
		if pairs[i].Task != t.Key {
			return nil, fmt.Errorf("judge: pair %d is of task %s, not %s", i, pairs[i].Task, t.Key)
		}
		s, err := one(t, pairs[i])
		if errors.Is(err, judge.ErrNoVerdict) {
			unscored = append(unscored, err)
		} else if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	if len(unscored)*maxUnscored > len(pairs) {
		return nil, unscored[0]
	}
	return out, nil
}

// maxUnscored: where more than one of so many pairs got no verdict, the judge is
// down, and the whole is judged later.
const maxUnscored = 4

func (k *Kind) judgePair(ctx context.Context, env kind.Env, t agon.TaskRef, p Pair) (agon.Score, error) {
	if p.Outcome != agon.OutcomeOK || p.Response == nil {
		return Grade{}.score(t.Key, k.Scorer(), p.detail()), nil
	}
	tk, err := env.Task(ctx, t)
	if err != nil {
		return agon.Score{}, err
	}
	c, ref, err := LoadTask(tk)
	if err != nil {
		return agon.Score{}, err
	}
	a := answerOf(c, ref, p)
	if p.Response.Verdict != ref.Verdict {
		env.Progress(agon.EventNote, t.Key, a)
		return GradeOf(p.Response.Verdict, ref.Verdict, nil).score(t.Key, k.Scorer(), mismatch(p.Response.Verdict, ref.Verdict)), nil
	}
	in := SupportInput{Claim: c.Payload.ClaimText, ReferenceJustification: ref.Justification, Justification: p.Response.Justification}
	in.ReferenceOption, _ = c.Payload.Option(ref.Verdict)
	in.Option, _ = c.Payload.Option(p.Response.Verdict)
	for _, h := range p.Response.Citations {
		in.Citations = append(in.Citations, citationLine(h))
	}
	open := opener(ctx, env, k.cfg.Judge.Policy(), t.Key)
	v, err := k.cfg.Judge.Support(ctx, open, in)
	if err != nil {
		return agon.Score{}, fmt.Errorf("judge support of %s: %w", t.Key, err)
	}
	a.Supported, a.Rationale = &v.OK, plain.Short(v.Rationale, 1000)
	env.Progress(agon.EventNote, t.Key, a)
	s := GradeOf(p.Response.Verdict, ref.Verdict, &v.OK).score(t.Key, k.Scorer(), fmt.Sprintf("verdict %v, as the reference; support: %s", p.Response.Verdict, plain.Short(v.Rationale, 1000)))
	if v.Votes > 1 {
		s.Metrics["judges"], s.Metrics["judges_agree"] = float64(v.Votes), float64(v.For)
	}
	return s, nil
}

// NoteAnswer is the text of the note that says what was answered to a claim.
const NoteAnswer = "answer"

// Answer is the data of that note: the claim, what the script said of it and what
// was wanted. It is withheld where the task is.
type Answer struct {
	Text          string `json:"text"` // NoteAnswer
	Task          string `json:"task"`
	Claim         string `json:"claim"`
	Verdict       int    `json:"verdict"`
	Option        string `json:"option,omitempty"` // what the verdict means
	Wanted        int    `json:"wanted"`
	WantedOption  string `json:"wanted_option,omitempty"`
	Justification string `json:"justification,omitempty"`
	Citations     []Seen `json:"citations,omitempty"`
	// Supported says whether the judge found the justification to agree with the
	// reference; nil: the verdict differs, so that it was not asked.
	Supported *bool  `json:"supported,omitempty"`
	Rationale string `json:"rationale,omitempty"`
}

// Agrees tells that the judge found the justification to agree.
func (a Answer) Agrees() bool { return a.Supported != nil && *a.Supported }

// Seen is a citation as a reader sees it.
type Seen struct {
	Title string `json:"title,omitempty"`
	URL   string `json:"url,omitempty"`
	Note  string `json:"note,omitempty"`
}

const maxShownCitations = 20

func answerOf(c Claim, ref Reference, p Pair) Answer {
	a := Answer{Text: NoteAnswer, Task: p.Task, Claim: plain.Short(c.Payload.ClaimText, 2000), Verdict: p.Response.Verdict, Wanted: ref.Verdict, Justification: plain.Short(p.Response.Justification, 4000)}
	if o, ok := c.Payload.Option(a.Verdict); ok {
		a.Option = strings.TrimSuffix(plain.Short(o, 200), ".") // it stands in brackets within a sentence
	}
	if o, ok := c.Payload.Option(a.Wanted); ok {
		a.WantedOption = strings.TrimSuffix(plain.Short(o, 200), ".")
	}
	str := func(s *string) string {
		if s == nil {
			return ""
		}
		return plain.Short(*s, 1000)
	}
	for _, h := range p.Response.Citations[:min(len(p.Response.Citations), maxShownCitations)] {
		a.Citations = append(a.Citations, Seen{Title: str(h.Title), URL: str(h.URL), Note: str(h.Note)})
	}
	return a
}

// citationLine is what a judge sees of a citation: the first that is there.
func citationLine(h Hydrated) string {
	for _, s := range []*string{h.Note, h.URL} {
		if s != nil && *s != "" {
			return h.origin() + *s
		}
	}
	return h.ReceiptID
}

// origin marks what was found in a code repository, by whatever tool, or on the pages of
// one: the miner may have written it himself.
func (h Hydrated) origin() string {
	const mark = "(from a code repository that anybody may write, no support by itself) "
	if h.Repository {
		return mark
	}
	if h.URL == nil {
		return ""
	}
	u, err := url.Parse(*h.URL)
	if err != nil {
		return mark // what cannot be read as an address is from nowhere
	}
	host := "." + strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	for _, of := range []string{"github.com", "githubusercontent.com", "github.io", "gitlab.com", "gitlab.io", "bitbucket.org", "bitbucket.io", "codeberg.org", "codeberg.page"} {
		if strings.HasSuffix(host, "."+of) {
			return mark
		}
	}
	return ""
}

// Rejudging implements kind.Rejudged.
func (k *Kind) Rejudging() kind.Rejudging {
	return kind.Rejudging{Exempt: "its judge is a model, which samples"}
}

// Gauge implements kind.Gauged.
func (k *Kind) Gauge() string { return judge.SupportPrompt().Name }
