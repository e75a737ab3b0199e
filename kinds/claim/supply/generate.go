package supply

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/judge"
	"github.com/agon-arena/agon/engine/tools/index"
	"github.com/agon-arena/agon/internal/plain"
	"github.com/agon-arena/agon/kinds/claim/play"
)

//go:embed prompts/propose.md
var proposeText string

//go:embed prompts/reference.md
var referenceText string

// The prompts; their ids are part of a set's digest.
func proposePrompt() judge.Prompt {
	return judge.Prompt{Name: "propose", Version: 1, System: proposeText, MaxTokens: 4096}
}

func referencePrompt() judge.Prompt {
	return judge.Prompt{Name: "reference", Version: 1, System: referenceText, MaxTokens: 4096}
}

// Champion answers claims as the sitting champion would. A champion that fails
// or breaks the contract answers ok = false, which counts as wrong; err is a
// failure of ours and stops the making.
type Champion interface {
	Answer(ctx context.Context, c play.Claim) (verdict int, ok bool, err error)
}

// Config is what a set is made of. Items, Proposer, Reference and Log are needed.
type Config struct {
	Items     []Item // fresh ones, in the order of Fresh
	Proposer  *judge.Judge
	Reference *judge.Judge
	// Auditor looks at each reference before it counts, and again once it was mended. Optional.
	Auditor *judge.Judge
	// Avoid are claims of sets before: one that is like one of them is a duplicate.
	Avoid []string
	// Champion may be nil: the seat is empty, and every claim counts as hard.
	Champion Champion
	// ChampionID names it in the log, so that another champion is asked anew.
	ChampionID string
	Log        *Log
	Replay     bool // answer from the log only

	Count int // claims of the set; default 12
	// Wrong is the share that the champion must get wrong; default 0.5.
	Wrong float64
	// Draws bounds how many claims are proposed and answered; default 20 × Count.
	Draws int
	Seed  uint64
	// Budget of the claims, in micro-dollars; default 50,000.
	Budget agon.Micros
	Feed   string // uuid of the feed, for context; empty: no context
	Seq    int64  // place in it up to which scripts find items; 0: that of the claim's own item in Items
	// Told gets one line for people after each round. Optional.
	Told func(format string, args ...any)
}

// Task is one claim with its reference answer.
type Task struct {
	Claim     play.Claim     `json:"claim"`
	Reference play.Reference `json:"reference"`
	Item      string         `json:"item"`  // id of its source
	Wrong     bool           `json:"wrong"` // the champion got it wrong
	From      Provenance     `json:"from"`
}

// Report tells how a set came about.
type Report struct {
	Claims   int            `json:"claims"`
	Draws    int            `json:"draws"`
	Dropped  map[string]int `json:"dropped"` // by reason
	Rounds   []Round        `json:"rounds"`
	Wrong    float64        `json:"wrong"` // share that the champion gets wrong
	Target   float64        `json:"target"`
	Complete bool           `json:"complete"` // Count claims, and Wrong ≥ Target
	Why      string         `json:"why,omitempty"`
	Digest   agon.Digest    `json:"digest"` // of the tasks
}

// Round is the set as it stood after a draw that changed it.
type Round struct {
	Draws  int     `json:"draws"`
	Claims int     `json:"claims"`
	Wrong  float64 `json:"wrong"`
}

// Set is what Generate made.
type Set struct {
	Tasks  []Task
	Report Report
}

// errStop ends the making early with a reason, keeping what is there.
type errStop struct{ why string }

func (e *errStop) Error() string { return e.why }

// Generate makes a set. It stops early, with Complete false and no error, when
// money, draws or items are used up: called again with the same log it goes
// on. Everything else is an error, and what was paid for is in the log.
func Generate(ctx context.Context, c Config) (*Set, error) {
	g := &generator{Config: c, dropped: map[string]int{}}
	if err := g.fill(); err != nil {
		return nil, err
	}
	if err := g.begin(); err != nil {
		return nil, err
	}
	why := ""
	for !g.complete() {
		if g.draws >= g.Draws {
			why = fmt.Sprintf("%d claims were drawn and no more may be", g.Draws)
			break
		}
		err := g.round(ctx)
		var stop *errStop
		if errors.As(err, &stop) {
			why = stop.why
			break
		}
		if err != nil {
			return nil, err
		}
	}
	return g.set(why)
}

type generator struct {
	Config
	order   []int // of items
	next    int   // rounds so far
	draws   int
	tasks   []Task
	said    []string // every claim that was proposed
	seen    []map[string]bool
	dropped map[string]int
	rounds  []Round
	barren  int // rounds in a row that gave no claim at all
}

func (g *generator) fill() error {
	if len(g.Items) == 0 {
		return errors.New("make claims: no item of the last 24 hours is there")
	}
	if g.Log == nil || (!g.Replay && (g.Proposer == nil || g.Reference == nil)) {
		return errors.New("make claims: a log, a proposer and a reference model are needed")
	}
	if g.Count <= 0 {
		g.Count = 12
	}
	if g.Wrong <= 0 || g.Wrong > 1 {
		g.Wrong = 0.5
	}
	if g.Draws <= 0 {
		g.Draws = 20 * g.Count
	}
	if g.Budget <= 0 {
		g.Budget = 50_000
	}
	if g.Told == nil {
		g.Told = func(string, ...any) {}
	}
	if g.Feed != "" {
		if u, err := uuid.Parse(g.Feed); err != nil || u.String() != g.Feed {
			return fmt.Errorf("make claims: feed %.80q is not a uuid", g.Feed)
		}
	}
	for _, c := range g.Avoid {
		g.seen = append(g.seen, termSet(c))
	}
	r := rand.New(rand.NewPCG(g.Seed, 0x61676f6e))
	g.order = r.Perm(len(g.Items))
	return nil
}

// begin compares the log's start with this making, or writes it.
func (g *generator) begin() error {
	ids := make([]string, len(g.Items))
	for i, it := range g.Items {
		ids[i] = it.ID
	}
	prompts := []string{proposePrompt().ID(), referencePrompt().ID()}
	if g.audits() {
		prompts = append(prompts, auditPrompt().ID(), repairPrompt().ID())
	}
	begin := map[string]any{
		"items": ids, "seed": g.Seed, "count": g.Count, "wrong": g.Wrong, "champion": g.ChampionID, "budget": g.Budget, "feed": g.Feed, "prompts": prompts,
	}
	if len(g.Avoid) > 0 {
		b, err := json.Marshal(g.Avoid)
		if err != nil {
			return fmt.Errorf("make claims: %w", err)
		}
		begin["avoid"] = agon.Sum(b)
	}
	start, err := json.Marshal(begin)
	if err != nil {
		return fmt.Errorf("make claims: %w", err)
	}
	if g.Log.start == nil {
		if g.Replay {
			return errors.New("make claims: the log is empty: there is nothing to make the set from")
		}
		g.Log.start = start
		return g.Log.append(Entry{Op: "start", Answer: start})
	}
	if !bytes.Equal(g.Log.start, start) {
		return errors.New("make claims: the log belongs to another making (items, seed, count, share, champion or prompts differ); take a new log")
	}
	return nil
}

// complete: enough claims, and hard enough. A claim that the champion got
// right is in the way only while the share is too small.
func (g *generator) complete() bool { return len(g.tasks) == g.Count && g.share() >= g.Wrong }

func (g *generator) share() float64 {
	if len(g.tasks) == 0 {
		return 0
	}
	n := 0
	for _, t := range g.tasks {
		if t.Wrong {
			n++
		}
	}
	return float64(n) / float64(len(g.tasks))
}

// perRound is how many claims the proposer writes about one item at a time.
const perRound = 4

// round draws claims from the next item.
func (g *generator) round(ctx context.Context) error {
	item := g.Items[g.order[g.next%len(g.order)]]
	lap := g.next / len(g.order)
	g.next++
	props, model, err := g.propose(ctx, item, lap)
	if errors.Is(err, judge.ErrNoVerdict) || errors.Is(err, judge.ErrInput) {
		g.drop("no_proposal")
		props = nil
	} else if err != nil {
		return err
	}
	if len(props) == 0 {
		if g.barren++; g.barren >= 2*len(g.order)+4 {
			return &errStop{"the proposer has nothing new to say about the items"}
		}
		return nil
	}
	g.barren = 0
	for _, p := range props {
		if g.complete() || g.draws >= g.Draws {
			return nil
		}
		g.draws++
		if err := g.draw(ctx, item, p, Provenance{Proposer: model}); err != nil {
			return err
		}
	}
	return nil
}

// proposal is what the proposer wrote.
type proposal struct {
	Factoid string `json:"factoid"`
	Claim   string `json:"claim"`
	True    *bool  `json:"true"`
}

func (g *generator) propose(ctx context.Context, item Item, lap int) ([]proposal, string, error) {
	avoid := g.said
	if len(avoid) > 40 {
		avoid = avoid[len(avoid)-40:]
	}
	in := map[string]any{"title": item.Title, "text": item.Text, "avoid": avoid, "count": perRound, "harder": lap > 0, "lap": lap}
	var out []proposal
	model, err := g.ask(ctx, "propose", g.Proposer, proposePrompt(), in, func(obj []byte) (err error) {
		out, err = parseProposals(obj)
		return err
	})
	return out, model, err
}

const (
	maxClaim  = 600
	maxAnswer = 4000
	maxQuotes = 8
)

func parseProposals(obj []byte) ([]proposal, error) {
	var in struct {
		Claims *[]proposal `json:"claims"`
	}
	d := json.NewDecoder(bytes.NewReader(obj))
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil || in.Claims == nil {
		return nil, errors.New("want {claims: [{factoid, claim, true}]}")
	}
	list := *in.Claims
	if len(list) > perRound {
		list = list[:perRound]
	}
	for i := range list {
		list[i].Claim, list[i].Factoid = plain.Squeeze(list[i].Claim), plain.Squeeze(list[i].Factoid)
		if list[i].True == nil || list[i].Claim == "" || utf8.RuneCountInString(list[i].Claim) > maxClaim {
			return nil, errors.New("a claim is empty, too long or has no truth value")
		}
	}
	return list, nil
}

// draw answers one proposal, checks it and puts it into the set.
func (g *generator) draw(ctx context.Context, item Item, p proposal, from Provenance) error {
	if why := leaks(p.Claim, item); why != "" {
		g.drop(why)
		return nil
	}
	terms := termSet(p.Claim)
	for _, s := range g.seen {
		if overlap(s, terms) >= 0.8 {
			g.drop("duplicate")
			return nil
		}
	}
	g.said, g.seen = append(g.said, p.Claim), append(g.seen, terms)
	c := play.Claim{
		ClaimID: uuid.NewSHA1(uuid.NameSpaceURL, []byte("agon-claim:"+item.ID+":"+p.Claim)).String(),
		Payload: play.Payload{
			ClaimText: p.Claim, RubricTitle: "Accuracy", RubricDescription: "Judge whether the claim is factually correct.",
			VerdictOptions: []play.Option{{Value: -1, Description: "Fail"}, {Value: 1, Description: "Pass"}},
		},
		Budget: g.Budget,
	}
	if g.Feed != "" {
		seq := g.Seq
		if seq == 0 {
			seq = int64(slices.IndexFunc(g.Items, func(i Item) bool { return i.ID == item.ID })) + 1
		}
		c.Payload.Context = &play.FeedContext{FeedID: g.Feed, EnqueueSeq: seq}
	}
	if err := c.Payload.Validate(); err != nil {
		g.drop("invalid")
		return nil
	}
	ref, why, err := g.reference(ctx, item, c, nil, &from)
	if err == nil && why == "" {
		ref, why, err = g.audited(ctx, item, c, ref, &from)
	}
	if err != nil {
		return err
	}
	if why == "" && (ref.Verdict == 1) != *p.True {
		why = "disputed" // the proposer and the reference model do not agree
	}
	if why != "" {
		g.drop(why)
		return nil
	}
	t := Task{Claim: c, Reference: ref, Item: item.ID, Wrong: true, From: from}
	if g.Champion != nil || g.Replay {
		if t.Wrong, err = g.wrong(ctx, c, ref); err != nil {
			return err
		}
	}
	g.keep(t)
	return nil
}

// keep adds a claim, or lets a hard one take the place of an easy one.
func (g *generator) keep(t Task) {
	switch {
	case len(g.tasks) < g.Count:
		g.tasks = append(g.tasks, t)
	case !t.Wrong:
		g.drop("too_easy")
		return
	default:
		i := slices.IndexFunc(g.tasks, func(t Task) bool { return !t.Wrong })
		if i < 0 {
			return // the set is hard enough already
		}
		g.drop("too_easy")
		g.tasks = append(slices.Delete(g.tasks, i, i+1), t)
	}
	r := Round{g.draws, len(g.tasks), g.share()}
	g.rounds = append(g.rounds, r)
	g.Told("%d claims drawn, %d kept, the champion gets %.0f %% wrong (want %.0f %%)", r.Draws, r.Claims, 100*r.Wrong, 100*g.Wrong)
}

func (g *generator) drop(reason string) { g.dropped[reason]++ }

// reference asks for the answer, once more where an auditor objected. why is the
// reason to drop the claim.
func (g *generator) reference(ctx context.Context, item Item, c play.Claim, o *objection, from *Provenance) (ref play.Reference, why string, err error) {
	in, op, prompt := caseOf(item, c), "reference", referencePrompt()
	if o != nil {
		in["answer"], in["objection"] = answerOf(o.Answer), o.Fault
		op, prompt = "repair", repairPrompt()
	}
	var got refReply
	from.Reference, err = g.ask(ctx, op, g.Reference, prompt, in, func(obj []byte) (err error) {
		got, err = parseReference(obj)
		return err
	})
	switch {
	case errors.Is(err, judge.ErrNoVerdict), errors.Is(err, judge.ErrInput):
		return ref, "no_reference", nil
	case err != nil:
		return ref, "", err
	case got.Ambiguous:
		return ref, "ambiguous", nil
	}
	if _, ok := c.Payload.Option(got.Verdict); !ok {
		return ref, "illegal_verdict", nil
	}
	ref = play.Reference{Verdict: got.Verdict, Justification: got.Justification, Citations: []play.RefCitation{}, Spans: []play.Span{}}
	for _, q := range got.Quotes {
		// A quote that does not stand in the source was made up.
		at := strings.Index(item.Text, q)
		if at < 0 || strings.TrimSpace(q) == "" {
			return ref, "unsupported", nil
		}
		start := utf8.RuneCountInString(item.Text[:at])
		ref.Spans = append(ref.Spans, play.Span{Excerpt: q, Start: start, End: start + utf8.RuneCountInString(q)})
		ref.Citations = append(ref.Citations, play.RefCitation{URL: item.URL, Note: q})
	}
	if len(ref.Spans) == 0 {
		return ref, "unsupported", nil
	}
	return ref, "", nil
}

type refReply struct {
	Verdict       int
	Justification string
	Quotes        []string
	Ambiguous     bool
}

func parseReference(obj []byte) (refReply, error) {
	var in struct {
		Verdict       *int      `json:"verdict"`
		Justification *string   `json:"justification"`
		Quotes        *[]string `json:"quotes"`
		Ambiguous     *bool     `json:"ambiguous"`
	}
	d := json.NewDecoder(bytes.NewReader(obj))
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil || in.Verdict == nil || in.Justification == nil || in.Quotes == nil || in.Ambiguous == nil {
		return refReply{}, errors.New("want {verdict, justification, quotes, ambiguous}")
	}
	r := refReply{*in.Verdict, plain.Squeeze(*in.Justification), *in.Quotes, *in.Ambiguous}
	if r.Justification == "" || len(r.Justification) > maxAnswer || len(r.Quotes) > maxQuotes {
		return refReply{}, errors.New("justification is empty or too long, or there are too many quotes")
	}
	return r, nil
}

// wrong asks the champion.
func (g *generator) wrong(ctx context.Context, c play.Claim, ref play.Reference) (bool, error) {
	if g.ChampionID == "" {
		return true, nil
	}
	type answer struct {
		Verdict int  `json:"verdict"`
		OK      bool `json:"ok"`
	}
	key := "champion:" + g.ChampionID + ":" + c.ClaimID
	var a answer
	if raw, ok := g.Log.answers[key]; ok {
		if err := json.Unmarshal(raw, &a); err != nil {
			return false, fmt.Errorf("read log: champion's answer: %w", err)
		}
		return !a.OK || a.Verdict != ref.Verdict, nil
	}
	if g.Replay {
		return false, &errStop{"the log ends here"}
	}
	var err error
	if a.Verdict, a.OK, err = g.Champion.Answer(ctx, c); err != nil {
		return false, fmt.Errorf("ask champion: %w", err)
	}
	raw, err := json.Marshal(a)
	if err != nil {
		return false, err
	}
	return !a.OK || a.Verdict != ref.Verdict, g.Log.append(Entry{Op: "champion", Key: key, Answer: raw})
}

// ask answers from the log, else from the model, and logs what it said and which model it was. That a
// model gave nothing usable is logged too: a replay takes the same way.
func (g *generator) ask(ctx context.Context, op string, j *judge.Judge, p judge.Prompt, input any, check func([]byte) error) (model string, err error) {
	doc, err := judge.Document(input)
	if err != nil {
		return "", err
	}
	key := op + ":" + agon.Sum([]byte(p.ID()+"\n"+string(doc))).Hex()
	if raw, ok := g.Log.answers[key]; ok {
		if string(raw) == "null" {
			return "", judge.ErrNoVerdict
		}
		if err := check(raw); err != nil {
			return "", fmt.Errorf("read log: %s: %w", op, err)
		}
		return g.Log.models[key], nil
	}
	if g.Replay {
		return "", &errStop{"the log ends here"}
	}
	before := j.Spent()
	a, err := j.Ask(ctx, p, input, check)
	switch {
	case errors.Is(err, judge.ErrBudget):
		return "", &errStop{"the budget is used up"}
	case errors.Is(err, judge.ErrNoVerdict) && !errors.Is(err, judge.ErrForm):
		return "", &errStop{"the model's provider does not answer"} // not a fact about the claim: nothing is logged
	case errors.Is(err, judge.ErrNoVerdict):
		if lerr := g.Log.append(Entry{Op: op, Key: key, Answer: json.RawMessage("null"), Note: "no usable reply", Cost: j.Spent() - before}); lerr != nil {
			return "", lerr
		}
		return "", err
	case err != nil:
		return "", err
	}
	return a.Model, g.Log.append(Entry{Op: op, Key: key, Model: a.Model, Answer: json.RawMessage(a.Text), Cost: j.Spent() - before})
}

func (g *generator) set(why string) (*Set, error) {
	slices.SortFunc(g.tasks, func(a, b Task) int { return strings.Compare(a.Claim.ClaimID, b.Claim.ClaimID) })
	b, err := json.Marshal(g.tasks)
	if err != nil {
		return nil, fmt.Errorf("make claims: %w", err)
	}
	r := Report{
		Claims: len(g.tasks), Draws: g.draws, Dropped: g.dropped, Rounds: g.rounds, Wrong: g.share(), Target: g.Wrong,
		Complete: g.complete(), Why: why, Digest: agon.Sum(b),
	}
	if !g.Replay {
		raw, err := json.Marshal(r)
		if err != nil {
			return nil, fmt.Errorf("make claims: %w", err)
		}
		if err := g.Log.append(Entry{Op: "done", Answer: raw}); err != nil {
			return nil, err
		}
	}
	return &Set{Tasks: g.tasks, Report: r}, nil
}

func termSet(s string) map[string]bool {
	m := map[string]bool{}
	for t := range index.Terms(s) {
		m[t] = true
	}
	return m
}

// overlap is the Jaccard index. Claims that differ in one number alone are
// close by words and still another claim, so numbers must agree as well.
func overlap(a, b map[string]bool) float64 {
	both, numbers := 0, false
	for t := range a {
		if b[t] {
			both++
		} else if t[0] >= '0' && t[0] <= '9' {
			numbers = true
		}
	}
	if n := len(a) + len(b) - both; n > 0 && !numbers {
		return float64(both) / float64(n)
	}
	return 0
}
