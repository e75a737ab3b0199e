package corpus

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/corpus/trajectory"
)

// Version of the filter; it changes whenever the same runs could give other rows.
const Version = "corpus-1"

// Source is where runs come from. What it withholds becomes no row, so a
// corpus made without a reader's rights holds public data only.
type Source interface {
	Arenas(ctx context.Context) ([]client.Arena, error)
	Submission(ctx context.Context, id string) (*client.Submission, error)
	Runs(ctx context.Context, arena, submission, state, cursor string, limit int) (*client.Page[client.Run], error)
	Run(ctx context.Context, id string) (*client.Run, error)
	Events(ctx context.Context, run string, afterAttempt int, afterSeq int64, limit int) ([]agon.Event, error)
}

// Why a run, or a task of it, did not become a row, beside the structural rejects.
const (
	RejectOpen         = "open_run"         // not final: a corpus is made of what is over
	RejectFailed       = "failed_run"       // through us, or cancelled: there is no score
	RejectWithdrawn    = "withdrawn"        // the submission is banned, excluded or refused
	RejectWithheld     = "withheld"         // the reader may not see its trace
	RejectHidden       = "hidden_task"      // the task is not public
	RejectCut          = "cut_log"          // the log is not whole
	RejectNoModel      = "no_model_call"    // no model took part
	RejectDuplicate    = "duplicate"        // the same calls on the same problem
	RejectNear         = "near_duplicate"   // nearly the same text on the same problem
	RejectClusterCap   = "cluster_cap"      // its cluster has its share
	RejectColdkeyCap   = "coldkey_cap"      // its coldkey has its share
	RejectContaminated = "contaminated"     // it stands in a public benchmark
	RejectLicence      = "licence"          // no licence
	RejectNoReply      = "no_reply"         // the script had nothing to say: no real reply in it
	RejectUnreadable   = "unreadable_event" // the log does not parse
	RejectFiltered     = "filtered"         // who builds wants no such rows
	RejectHeld         = "held"             // another corpus holds it back
)

// Splits.
const (
	Train = "train"
	Eval  = "eval"
	Held  = "held" // never to be trained on or looked at: for the last word
)

// Config configures a build. Zero values mean the default named.
type Config struct {
	Source Source
	Arenas []string // empty: all
	Out    string   // directory to make; it must not exist
	Poison *Poison
	Salt   string // of the split; "agon"

	// Scripted writes rows whose model was a script into the files for trainers,
	// too. Without it they stand, marked, in rows.jsonl only.
	Scripted bool

	PerCluster int // rows of one problem; 32
	PerColdkey int // rows of one coldkey; 2,000
	PerAgent   int // rows of one problem and submission; 4
	EvalShare  float64
	HeldShare  float64 // 0.15 and 0.05 where both are 0

	// Release leaves the rows of the split held out of the directory: what is
	// published is no longer held. Its clusters are named all the same.
	Release bool

	// Only bounds what becomes a row. The zero value takes all.
	Only Want

	// LeakKeys names what problems of a kind share: those that share one stand
	// in one cluster. Optional.
	LeakKeys func(kind string, t agon.TaskRef) []string
	// Finals are the final calls of the kinds that have one. Optional.
	Finals Finals
	// Progress is called with how many runs were read. Optional.
	Progress func(runs, rows int)
	// Wrote is called with how many of the chosen rows were written. Optional.
	Wrote func(rows, of int)
}

// Want says which rows are wanted.
type Want struct {
	Axes, Kinds, Models []string // empty: all
	Solved              bool     // only rows that solve their task
	Quality             float64  // at least
	Judge               float64  // at least, where a judge spoke; rows without a verdict are left out when it is not 0
}

// takes reports whether a row is wanted.
func (f *Want) takes(r *Row) bool {
	in := func(list []string, x string) bool { return len(list) == 0 || slices.Contains(list, x) }
	return in(f.Axes, string(r.Axis)) && in(f.Kinds, r.From.Kind) && in(f.Models, r.From.Model) && (!f.Solved || r.solved()) &&
		r.Quality >= f.Quality && (f.Judge == 0 || r.Reward.Judge != nil && *r.Reward.Judge >= f.Judge)
}

func (c *Config) fill() error {
	if c.Source == nil || c.Out == "" {
		return errors.New("corpus config: Source and Out are needed")
	}
	c.Salt = cmp.Or(c.Salt, "agon")
	c.PerCluster, c.PerColdkey, c.PerAgent = cmp.Or(c.PerCluster, 32), cmp.Or(c.PerColdkey, 2000), cmp.Or(c.PerAgent, 4)
	if c.EvalShare == 0 && c.HeldShare == 0 {
		c.EvalShare, c.HeldShare = 0.15, 0.05
	}
	if c.EvalShare < 0 || c.HeldShare < 0 || c.EvalShare+c.HeldShare >= 1 {
		return fmt.Errorf("corpus config: shares %v and %v leave nothing to train on", c.EvalShare, c.HeldShare)
	}
	return nil
}

// Result sums up a build.
type Result struct {
	Rows     int            `json:"rows"`
	Scripted int            `json:"scripted_rows"` // of them, by the stand-in script
	Rejected map[string]int `json:"rejected"`
	Dir      string         `json:"dir"`
}

// builder is one build under way.
type builder struct {
	cfg    Config
	ctx    context.Context //nolint:containedctx // a builder lives no longer than one call
	spool  *os.File
	w      *bufio.Writer
	at     int64
	rows   []kept
	faked  int // rows by the stand-in script
	names  names
	report *Report
	scrub  *Scrubber
	union  *union
	asked  map[string]*question // by normalised query
	order  []string             // of asked, as they came
	// tallies sum up all plays of a problem, also of those that became no row.
	tallies map[name]*tally
	// weights are those of the rows of a mix, by id.
	weights map[[16]byte]float64
	// suspects are rows in which words of a public benchmark stand, by their id; grams
	// says in how many different queries each such run of words stands.
	suspects map[[16]byte]suspect
	grams    map[uint64]map[string]bool
	subs     map[string]*client.Submission
}

func newBuilder(ctx context.Context, cfg Config) *builder {
	return &builder{
		cfg: cfg, ctx: ctx, names: names{at: map[string]name{}}, report: newReport(), scrub: NewScrubber(), union: newUnion(), subs: map[string]*client.Submission{},
		asked: map[string]*question{}, tallies: map[name]*tally{}, suspects: map[[16]byte]suspect{}, grams: map[uint64]map[string]bool{},
	}
}

// Build reads every final run of the arenas and writes a corpus. The directory
// appears whole or not at all.
func Build(ctx context.Context, cfg Config) (*Result, error) {
	if err := cfg.fill(); err != nil {
		return nil, err
	}
	if _, err := os.Lstat(cfg.Out); err == nil {
		return nil, &agon.Error{Code: "exists", Status: 409, Field: "out", Message: cfg.Out + " is there already", Mend: "name a new directory"}
	}
	tmp, err := os.MkdirTemp(filepath.Dir(filepath.Clean(cfg.Out)), ".corpus-")
	if err != nil {
		return nil, fmt.Errorf("build corpus: %w", err)
	}
	defer os.RemoveAll(tmp)
	b := newBuilder(ctx, cfg)
	if b.spool, err = os.Create(filepath.Join(tmp, "spool")); err != nil {
		return nil, fmt.Errorf("build corpus: %w", err)
	}
	defer b.spool.Close()
	b.w = bufio.NewWriterSize(b.spool, 1<<20)
	if err := b.read(); err != nil {
		return nil, err
	}
	if err := b.w.Flush(); err != nil {
		return nil, fmt.Errorf("build corpus: %w", err)
	}
	if err := b.choose(); err != nil {
		return nil, err
	}
	dir := filepath.Join(tmp, "out")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, fmt.Errorf("build corpus: %w", err)
	}
	if err := b.write(dir); err != nil {
		return nil, err
	}
	if err := os.Rename(dir, cfg.Out); err != nil {
		return nil, fmt.Errorf("build corpus: %w", err)
	}
	return &Result{Rows: len(b.rows), Scripted: b.faked, Rejected: b.report.Rejected, Dir: cfg.Out}, nil
}

// read goes over the arenas' runs, oldest first, and spools a row for each
// task that passes the filters that need no other row.
func (b *builder) read() error {
	arenas, err := b.cfg.Source.Arenas(b.ctx)
	if err != nil {
		return fmt.Errorf("list arenas: %w", err)
	}
	for _, id := range b.cfg.Arenas {
		if !slices.ContainsFunc(arenas, func(a client.Arena) bool { return a.ID == id }) {
			return &agon.Error{Code: "not_found", Status: 404, Field: "arena", Message: "there is no arena " + id}
		}
	}
	slices.SortFunc(arenas, func(x, y client.Arena) int { return strings.Compare(x.ID, y.ID) })
	for _, a := range arenas {
		if len(b.cfg.Arenas) > 0 && !slices.Contains(b.cfg.Arenas, a.ID) {
			continue
		}
		b.report.arena(a)
		ids, err := b.runIDs(a.ID)
		if err != nil {
			return err
		}
		for _, id := range ids {
			if err := b.ctx.Err(); err != nil {
				return err
			}
			if err := b.run(&a, id); err != nil {
				return fmt.Errorf("read run %s: %w", id, err)
			}
			if b.cfg.Progress != nil {
				b.cfg.Progress(b.report.Runs, len(b.rows))
			}
		}
	}
	return nil
}

// runIDs lists the runs of an arena by id, which grows with time.
func (b *builder) runIDs(arena string) ([]string, error) {
	var ids []string
	for cursor := ""; ; {
		p, err := b.cfg.Source.Runs(b.ctx, arena, "", "", cursor, 200)
		if err != nil {
			return nil, fmt.Errorf("list runs of %s: %w", arena, err)
		}
		for _, r := range p.Items {
			ids = append(ids, r.Run.Run)
		}
		if cursor = p.Next; cursor == "" {
			slices.Sort(ids)
			return ids, nil
		}
	}
}

func (b *builder) submission(id string) (*client.Submission, error) {
	if s := b.subs[id]; s != nil {
		return s, nil
	}
	s, err := b.cfg.Source.Submission(b.ctx, id)
	if err == nil {
		if len(b.subs) > 10_000 {
			clear(b.subs)
		}
		b.subs[id] = s
	}
	return s, err
}

func (b *builder) run(a *client.Arena, id string) error {
	r, err := b.cfg.Source.Run(b.ctx, id)
	if err != nil {
		return err
	}
	b.report.Runs++
	whole := func(reason string) { // a reason that stops all tasks of the run
		for range max(1, len(r.Tasks)) {
			b.report.reject(reason, a.Kind)
		}
	}
	sub, err := b.submission(r.Submission)
	if err != nil {
		return err
	}
	switch {
	case !r.State.Final():
		b.report.Open = append(b.report.Open, id)
		whole(RejectOpen)
		return nil
	case sub.State == agon.SubmissionExcluded || sub.State == agon.SubmissionRefused:
		whole(RejectWithdrawn)
		return nil
	case r.State != agon.RunScored:
		whole(RejectFailed)
		return nil
	case sub.Licence == "":
		whole(RejectLicence)
		return nil
	}
	var att agon.Attempt
	for _, x := range r.List {
		if x.Counted {
			att = x
		}
	}
	events, err := b.events(id, att.N)
	if err != nil {
		return err
	}
	for _, t := range r.Tasks {
		if t.Hidden && !shown(a, t) {
			b.report.reject(RejectHidden, a.Kind)
			continue
		}
		row, reason := b.row(a, r, sub, att, t, events)
		if reason != "" {
			b.report.reject(reason, a.Kind)
			continue
		}
		spool, err := spoolOf(row)
		if err == nil {
			err = b.keep(row, t, spool)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// shown reports that a task which was hidden when it was played may be read now:
// the arena lists it openly, or it has retired.
func shown(a *client.Arena, t agon.TaskRef) bool {
	same := func(x agon.TaskRef) bool {
		return !x.Hidden && (x.Digest == t.Digest || t.Digest == "" && x.Key == t.Key)
	}
	return slices.ContainsFunc(a.Tasks, same) || slices.ContainsFunc(a.Retired, same)
}

func (b *builder) events(run string, attempt int) ([]agon.Event, error) {
	var out []agon.Event
	for seq := int64(0); ; {
		list, err := b.cfg.Source.Events(b.ctx, run, attempt, seq, 500)
		if err != nil {
			return nil, err
		}
		for _, e := range list {
			if e.Attempt != attempt {
				return out, nil
			}
			out = append(out, e)
			seq = e.Seq
			b.report.EventBytes += int64(len(e.Data))
		}
		if len(list) == 0 {
			return out, nil
		}
	}
}

// row makes the record of one task of a run, or says why there is none.
func (b *builder) row(a *client.Arena, r *client.Run, sub *client.Submission, att agon.Attempt, t agon.TaskRef, all []agon.Event) (*Row, string) {
	var events []agon.Event
	said := len(r.Tasks) > 1 && slices.ContainsFunc(all, func(e agon.Event) bool { return e.Type == agon.EventModel && e.Task != "" })
	for _, e := range all {
		if e.Task != "" && e.Task != t.Key || e.Task == "" && said && (e.Type == agon.EventModel || e.Type == agon.EventTool) {
			continue // of another task; or of none, where calls say of which they are
		}
		if bytes.Equal(e.Data, []byte(`{"withheld":true}`)) {
			return nil, RejectWithheld
		}
		if bytes.HasPrefix(e.Data, []byte(`{"cut":true`)) {
			return nil, RejectCut
		}
		events = append(events, e)
	}
	final := b.cfg.Finals[a.Kind]
	var rules *trajectory.Rules
	if final != nil {
		rules = final.Credit
	}
	talks, ev, err := trajectory.Conversations(events, att.N, rules)
	if err != nil {
		return nil, RejectUnreadable
	}
	if ev.ModelCalls == 0 || len(talks) == 0 {
		return nil, RejectNoModel
	}
	main := talks[0]
	for _, c := range talks[1:] {
		if len(c.Said) > len(main.Said) {
			main = c
		}
	}
	row := &Row{Messages: chatOf(main.Said), Tools: []json.RawMessage{}, From: Provenance{
		Arena: a.ID, Kind: a.Kind, Task: t.Key, TaskDigest: t.Digest, Run: r.Run.Run, Attempt: att.N, Seed: r.Seed,
		Submission: sub.ID, Agent: sub.Digest, Miner: sub.Miner, Coldkey: sub.Coldkey, Validator: att.Validator,
		Model: main.Model, Licence: sub.Licence,
		Scripted: slices.ContainsFunc(talks, func(c trajectory.Conversation) bool { return c.Provider == agon.Script }),
	}}
	row.Tools, row.Sampling = append(row.Tools, main.Tools...), main.Sampling
	row.Reward.CostMicros, row.Reward.JudgeMicros = ev.Cost, ev.Judged
	for _, s := range r.Scores {
		if s.Task == t.Key {
			v, solved := s.Value, 0
			if s.Solved {
				solved = 1
			}
			row.Reward.Outcome, row.Reward.Rule, row.From.Scorer = &solved, &v, s.Scorer
			row.Reward.Components = map[string]float64{}
			judge := "judge"
			if final != nil {
				judge = cmp.Or(final.Judge, judge)
				if x, ok := s.Metrics[final.Rule]; ok {
					row.Reward.Rule = &x
				}
			}
			row.Reward.Value = &v
			for k, x := range s.Metrics {
				if k == judge {
					row.Reward.Judge = &x
				} else {
					row.Reward.Components[k] = x
				}
			}
		}
	}
	b.tallyOf(t, sub.ID, row)
	if row.From.Scripted && !replied(row.Messages) {
		return nil, RejectNoReply
	}
	b.scrub.row(row)
	calls, credited := ev.Dispatched, ev.Credited
	if calls == 0 { // tools of the agent's own: what a model asked for, of all calls in the conversation
		for _, m := range row.Messages {
			if m.Role == "assistant" {
				calls += len(m.ToolCalls)
				if !m.harness {
					credited += len(m.ToolCalls)
				}
			}
		}
	}
	if calls > 0 {
		row.Ratio = round(float64(credited)/float64(calls), 6)
	}
	row.Axis = axisOf(row.Ratio, calls, ev.ModelCalls)
	if final != nil {
		row.Messages = final.ended(row.Messages)
	}
	row.Messages = closeLast(row.Messages)
	row.Dispatches = Dispatches{ev.Dispatched, ev.Credited}
	if why := structure(row.Messages, final); len(why) > 0 {
		return nil, why[0]
	}
	over, n, exact := overLimit(chatText(row.Messages, row.Tools))
	if over {
		return nil, RejectTooLong
	}
	if exact {
		row.Tokens = n // else they are counted when the row is written, if it is
	}
	row.annotate()
	if !b.cfg.Only.takes(row) {
		return nil, RejectFiltered
	}
	id := appendString(append([]byte(nil), '['), a.ID)
	id = appendString(append(id, ','), r.Run.Run)
	id = appendString(append(id, ','), t.Key)
	id = append(appendMessages(append(id, ','), row.Messages), ']')
	row.ID = agon.Sum(id).Hex()[:32]
	return row, ""
}

// keep spools a row, which is spool there, and remembers what choosing needs.
func (b *builder) keep(r *Row, t agon.TaskRef, spool []byte) error {
	q := Normalise(r.query())
	calls := sha256.Sum256([]byte(r.callSequence()))
	keys := []string{"task " + string(t.Digest), "key " + r.From.Kind + " " + t.Key}
	k := kept{
		calls: [16]byte(calls[:16]), offset: b.at, agentic: r.Axis == Agentic, quality: r.Quality, cost: r.Reward.CostMicros,
		task: b.names.of(keys[0]), kind: b.names.of(r.From.Kind), coldkey: b.names.of(r.From.Coldkey), submission: b.names.of(r.From.Submission),
	}
	if _, err := hex.Decode(k.id[:], []byte(r.ID)); err != nil {
		return fmt.Errorf("row %s: %w", r.ID, err)
	}
	if r.Reward.Outcome != nil {
		k.success = *r.Reward.Outcome == 1
	}
	if r.Reward.Rule != nil {
		k.value = *r.Reward.Rule
	}
	if q != "" {
		key := "query " + agon.Sum([]byte(q)).Hex()
		keys = append(keys, key)
		if b.asked[key] == nil {
			b.asked[key] = &question{shingles(q, 3)}
			b.order = append(b.order, key)
		}
	}
	var ids []string
	if b.cfg.LeakKeys != nil {
		for _, x := range b.cfg.LeakKeys(r.From.Kind, t) {
			keys = append(keys, "leak "+r.From.Kind+" "+x)
			ids = append(ids, x)
		}
	}
	for _, x := range b.cfg.Finals.named(r) {
		ids = append(ids, x)
		if k.success { // the right answer is the ground truth
			keys = append(keys, "leak "+r.From.Kind+" "+x)
		}
	}
	var texts []string
	for _, m := range r.Messages {
		if m.Role == "user" {
			texts = append(texts, m.Content)
		}
	}
	if hit, ok := b.cfg.Poison.whole(texts, ids); ok {
		b.report.contaminated(&r.From, hit)
		b.report.reject(RejectContaminated, r.From.Kind)
		return nil
	}
	if hits := b.cfg.Poison.grammed(texts); len(hits) > 0 {
		b.suspects[k.id] = suspect{r.From, hits}
		for _, h := range hits {
			if b.grams[h.gram] == nil {
				b.grams[h.gram] = map[string]bool{}
			}
			if len(b.grams[h.gram]) < boilerplate {
				b.grams[h.gram][q] = true
			}
		}
	}
	for _, x := range keys[1:] {
		b.union.join(keys[0], x)
	}
	if err := b.spoolBytes(spool); err != nil {
		return err
	}
	b.rows = append(b.rows, k)
	return nil
}

// choose ranks the rows of each cluster, drops duplicates, applies the caps and
// gives whole clusters to splits. The order is the same for the same rows.
func (b *builder) choose() error {
	b.joinQuestions()
	b.cutContaminated()
	clusters := map[name]string{} // of a task
	for i := range b.rows {
		k := &b.rows[i]
		c, ok := clusters[k.task]
		if !ok {
			c = agon.Sum([]byte(b.union.find(b.names.all[k.task]))).Hex()[:16]
			clusters[k.task] = c
		}
		k.cluster, k.split = c, splitOf(c, b.cfg.Salt, b.cfg.EvalShare, b.cfg.HeldShare)
	}
	slices.SortFunc(b.rows, func(x, y kept) int {
		return cmp.Or(
			strings.Compare(x.cluster, y.cluster), -boolCmp(x.success, y.success), -boolCmp(x.agentic, y.agentic), -cmp.Compare(x.value, y.value),
			-cmp.Compare(x.quality, y.quality), cmp.Compare(x.cost, y.cost), bytes.Compare(x.id[:], y.id[:]))
	})
	coldkeys := map[name]int{}
	var out []kept
	for i := 0; i < len(b.rows); {
		j := i
		for j < len(b.rows) && b.rows[j].cluster == b.rows[i].cluster {
			j++
		}
		list, err := b.cluster(b.rows[i:j], coldkeys)
		if err != nil {
			return err
		}
		out = append(out, list...)
		i = j
	}
	b.rows = out
	return nil
}
