package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/incentive"
	"github.com/agon-arena/agon/engine/tools"
	"github.com/agon-arena/agon/engine/translog"
	"github.com/agon-arena/agon/gateway"
)

// Options of Check.
type Options struct {
	// LogKey is the log's public key from somewhere else than the bundle; empty:
	// the bundle's own word is taken, and that is said.
	LogKey string
	// Witnesses are public keys whose cosignatures are looked for.
	Witnesses []string
	// Gateways are the keys under which receipts are taken; none: the arena's.
	Gateways []string
	// Rejudge judges evidence again; nil: scores are not judged again, Why says why.
	Rejudge func(ctx context.Context, b *Bundle, r *Run, files map[string][]byte, outcome string) ([]agon.Score, error)
	Why     string
	// Replay plays a run again that asked nobody for anything; nil: nothing is played again.
	Replay func(ctx context.Context, b *Bundle, r *Run) ([]agon.Score, error)
	// BlockHash asks the arena's chain for the hash of a block, "" = it is not there yet;
	// nil: the hash that a submission's seeds come of is the server's word.
	BlockHash func(ctx context.Context, number uint64) (string, error)
	// Pair compares two scores of a task as the arena's kind does; nil: by their values.
	Pair func(numbers map[string]float64, challenger, incumbent agon.Score, baseline bool) incentive.Pair
}

type checker struct {
	Report
	b     *Bundle
	o     Options
	where string // prefix of names where there are several runs
}

func (k *checker) ok(what, format string, args ...any) {
	what = k.where + what
	k.Checked = append(k.Checked, what)
	k.Checks = append(k.Checks, Line{what, "ok", fmt.Sprintf(format, args...)})
}

func (k *checker) open(what, format string, args ...any) {
	what, why := k.where+what, fmt.Sprintf(format, args...)
	k.Unchecked = append(k.Unchecked, Unchecked{what, why})
	k.Checks = append(k.Checks, Line{what, "warn", why})
}

func (k *checker) wrong(what, format string, args ...any) {
	what, where := k.where+what, fmt.Sprintf(format, args...)
	k.Wrong = append(k.Wrong, Wrong{what, where})
	k.Checks = append(k.Checks, Line{what, "fail", where})
}

// Check checks a bundle. It trusts nothing but the keys in o; where these
// are missing the report says whose word was taken.
func Check(ctx context.Context, b *Bundle, o Options) *Report {
	k := &checker{b: b, o: o}
	k.Submission = b.Submission.ID
	k.Checked, k.Unchecked, k.Wrong, k.Checks = []string{}, []Unchecked{}, []Wrong{}, []Line{}
	k.logKey()
	k.submission()
	many := len(b.Runs) != 1
	for i := range b.Runs {
		r := &b.Runs[i]
		if many {
			k.where = "run " + r.Run.RunSpec.Run + ": "
		} else {
			k.Run, k.Attempt = r.Run.RunSpec.Run, r.Attempt
		}
		k.run(ctx, r)
	}
	k.where = ""
	k.seeds(ctx)
	k.hidden()
	k.decision()
	k.Report.OK = len(k.Wrong) == 0
	return &k.Report
}

// logKey says whose word the log's key is.
func (k *checker) logKey() {
	said := k.b.Server.Log
	switch {
	case k.o.LogKey == "" && said == "":
		k.open("log", "the server has no transparency log, or is of an older version: what it shows could have been rewritten")
	case k.o.LogKey == "":
		k.Log = &Head{Key: said}
		k.open("log key", "the server's own word (%s): give --log KEY from somewhere else", said)
	case said != "" && said != k.o.LogKey:
		k.wrong("log key", "the server names %s, you trust %s", said, k.o.LogKey)
		k.Log = &Head{Key: k.o.LogKey}
	default:
		k.Log = &Head{Key: k.o.LogKey}
		k.ok("log key", "%s", k.o.LogKey)
	}
}

// entry checks the proof of a fact. open says what the leaf must commit to; nil
// where all of it is public.
func (k *checker) entry(what, typ, id string, secret func() (any, error)) (translog.Entry, bool) {
	if k.Log == nil {
		return translog.Entry{}, false
	}
	p := k.b.Proofs[typ+"/"+id]
	if p == nil {
		k.open(what, "the log has no entry of %s %s", typ, id)
		return translog.Entry{}, false
	}
	e, c, err := translog.CheckProof(p, k.Log.Key, k.o.Witnesses...)
	if err != nil {
		k.wrong(what, "%v", err)
		return e, false
	}
	k.Log.all = append(k.Log.all, c)
	if c.N > k.Log.Size {
		k.Log.Size, k.Log.Checkpoint = c.N, c
		k.Log.Witnesses = slices.Sorted(maps.Keys(c.Witnesses))
	}
	switch {
	case e.Type != typ || e.ID != id || e.Arena != k.b.Arena.ID:
		k.wrong(what, "the proof is of %s %s in arena %q", e.Type, e.ID, e.Arena)
		return e, false
	case secret == nil:
		return e, true
	case p.Salt == "":
		k.open(what, "what entry %d of the log commits to is not public yet", p.Index)
		return e, false
	}
	v, err := secret()
	if err != nil {
		k.wrong(what, "%v", err)
		return e, false
	}
	if err := e.Opens(p.Salt, v); err != nil {
		k.wrong(what, "what is shown is not what entry %d of the log commits to", p.Index)
		return e, false
	}
	k.ok(what, "entry %d of a log of %d", p.Index, c.N)
	return e, true
}

func (k *checker) submission() {
	s := k.b.Submission
	if s.Arena != k.b.Arena.ID || s.Netuid != k.b.Arena.Netuid {
		k.wrong("submission", "it is of arena %q on subnet %d, the arena is %q on subnet %d", s.Arena, s.Netuid, k.b.Arena.ID, k.b.Arena.Netuid)
	}
	if b := s.Beacon; b != nil && b.Rule != agon.BeaconBlock && b.Rule != agon.BeaconNone {
		k.wrong("submission", "its beacon is by a rule %.20q", b.Rule)
	}
	if s.Decision != nil && s.State != agon.SubmissionScored {
		k.wrong("submission", "it is decided, and yet %.20q", s.State)
	}
	k.entry("submission", translog.TypeSubmission, s.ID, func() (any, error) { return translog.SubmissionOf(s.Submission), nil })
}

func (k *checker) run(ctx context.Context, r *Run) {
	t := r.Of()
	id := r.Run.RunSpec.Run
	if t == nil || t.Run != id || r.Run.Submission != k.b.Submission.ID || r.Run.Arena != k.b.Arena.ID {
		k.wrong("run", "the attempt, the run, the submission and the arena do not belong together")
		return
	}
	if won := r.Run.State == agon.RunScored; k.counts(r) != won {
		k.wrong("run", "it is %.20q, and %s of its attempts counts", r.Run.State, map[bool]string{true: "one", false: "none"}[k.counts(r)])
	} else if won && t.Counted && r.Run.Fault != t.Fault {
		k.wrong("run", "its fault is %.20q, that of the attempt which counts %.20q", r.Run.Fault, t.Fault)
	}
	if len(r.Events) == 0 && slices.Contains(r.Run.Gone, agon.GoneSteps) {
		k.open("steps", "the server has removed them since their time was over: bodies, receipts, cost and score cannot be checked")
		return
	}
	receipts, hosted, outcome, seen := k.bodies(r)
	k.result(r, t)
	k.calls(r, t, receipts, seen)
	k.table(r, t, receipts)
	sum := k.chain(t, receipts) + k.tools(hosted)
	switch {
	case seen.hidden > 0:
		k.open("cost", "%d events are not public", seen.hidden)
	case sum == t.CostMicros:
		k.ok("cost", "the receipts sum to %s", money(t.CostMicros))
	default:
		k.wrong("cost", "the receipts sum to %s, the attempt says %s", money(sum), money(t.CostMicros))
	}
	k.scores(ctx, r, t, outcome)
	k.replay(ctx, r, t, len(receipts)+len(hosted), seen)
}

// counts reports whether an attempt of a run counts.
func (k *checker) counts(r *Run) bool {
	return slices.ContainsFunc(r.Run.List, func(t agon.Attempt) bool { return t.Counted })
}

// result opens the run's entry in the log with everything that is shown of it.
func (k *checker) result(r *Run, t *agon.Attempt) {
	id := fmt.Sprintf("%s/%d", r.Run.RunSpec.Run, t.N)
	if k.b.Proofs[translog.TypeResult+"/"+id] == nil && (t.State != "done" || t.Late) {
		k.open("result", "the attempt has no result in the log: it is %s", t.State)
		return
	}
	k.entry("result", translog.TypeResult, id, func() (any, error) {
		b, err := json.Marshal(r.Run.Policy)
		if err != nil {
			return nil, fmt.Errorf("encode policy: %w", err)
		}
		var head agon.Digest
		for _, e := range r.Events {
			head = translog.HeadOf(head, e)
		}
		var scores []agon.Score
		if t.Counted {
			scores = r.Run.Scores
		}
		return translog.ResultOf(r.Run.RunSpec, agon.Sum(b), r.Run.Submission, *t, scores, int64(len(r.Events)), head, r.Receipts)
	})
}

type counts struct{ whole, part, cut, hidden, messages int }

// bodies hashes what was said, puts the messages together again, and returns the
// receipts and the outcome that the events tell.
func (k *checker) bodies(r *Run) (list []agon.Receipt, hosted []tools.Receipt, outcome string, n counts) {
	bad := ""
	say := func(format string, args ...any) {
		if bad == "" {
			bad = fmt.Sprintf(format, args...)
		}
	}
	whole := func(id, what string, b gateway.Body, want agon.Digest) bool {
		switch {
		case b.Cut:
			n.part++
			if int64(len(b.Content())) >= b.Bytes {
				say("%s of %s is marked as cut and is not", what, id)
			}
			return false
		case agon.Sum(b.Content()) != want:
			say("%s of %s does not have the hash of its receipt", what, id)
			return false
		}
		n.whole++
		return true
	}
	last := int64(0)
	for _, e := range r.Events {
		if e.Run != r.Run.RunSpec.Run || e.Attempt != r.Attempt {
			say("event %d is of run %.60q, attempt %d", e.Seq, e.Run, e.Attempt)
		}
		if e.Seq <= last {
			say("event %d stands after event %d", e.Seq, last)
		}
		last = e.Seq
		if bytes.Contains(e.Data[:min(len(e.Data), 40)], []byte(`"withheld":true`)) {
			n.hidden++
			continue
		}
		switch e.Type {
		case agon.EventModel:
			var m gateway.ModelCall
			if json.Unmarshal(e.Data, &m) != nil || m.Receipt.ID == "" {
				n.cut++
				continue
			}
			list = append(list, m.Receipt)
			whole(m.Receipt.ID, "the request", m.Request, m.Receipt.RequestHash)
			if whole(m.Receipt.ID, "the response", m.Response, m.Receipt.ResponseHash) && m.Message != nil {
				n.messages++
				if got, ok := gateway.MessageOf(m.Response.Content(), m.Stream, m.Form); !ok || !sameJSON(got, m.Message) {
					say("the message of %s is not what its response says", m.Receipt.ID)
				}
			}
			if m.Over != 0 && (m.Over < 0 || m.Receipt.Cost != m.Receipt.Reserved) {
				say("%s says it cost %d beyond a reservation that it did not use up", m.Receipt.ID, m.Over)
			}
		case agon.EventTool:
			var host struct {
				Tool *tools.Receipt `json:"tool"`
			}
			if json.Unmarshal(e.Data, &host) == nil && host.Tool != nil {
				hosted = append(hosted, *host.Tool)
				continue
			}
			var t gateway.ToolCallEvent
			if json.Unmarshal(e.Data, &t) != nil || t.Receipt.ID == "" {
				n.cut++
				continue
			}
			list = append(list, t.Receipt)
			whole(t.Receipt.ID, "the response", t.Response, t.Receipt.ResponseHash)
			if !sameBytes(t.Arguments, t.Receipt.RequestHash) {
				n.part++ // written in another way than it was sent
			}
		}
	}
	outcome = OutcomeOf(r)
	switch {
	case bad != "":
		k.wrong("bodies", "%s", bad)
	case n.hidden > 0:
		k.open("bodies", "%d events are not public", n.hidden)
	case n.part > 0:
		k.open("bodies", "%d match; of %d only the beginning is kept", n.whole, n.part)
	default:
		k.ok("bodies", "%d requests and responses match their hashes, %d messages their responses", n.whole, n.messages)
	}
	return list, hosted, outcome, n
}

// sameBytes reports whether arguments have a hash, as they stand or as compact JSON.
func sameBytes(raw json.RawMessage, want agon.Digest) bool {
	if agon.Sum(raw) == want {
		return true
	}
	var b bytes.Buffer
	return json.Compact(&b, raw) == nil && agon.Sum(b.Bytes()) == want
}

func sameJSON(a, b any) bool {
	x, err1 := json.Marshal(a)
	y, err2 := json.Marshal(b)
	return err1 == nil && err2 == nil && bytes.Equal(x, y)
}

// calls compares the receipts with the gateway's closing statement.
func (k *checker) calls(r *Run, t *agon.Attempt, receipts []agon.Receipt, n counts) {
	keys := k.gateways(r, t.EndedAt)
	for _, x := range receipts {
		if x.Run != t.Run || x.Attempt != t.N {
			k.wrong("statement", "receipt %s is of run %.60q, attempt %d", x.ID, x.Run, x.Attempt)
			return
		}
	}
	switch {
	case n.hidden > 0 || n.cut > 0:
		k.open("statement", "%d events of calls are not public or were cut from a full log", n.hidden+n.cut)
	case t.Statement == nil && t.Fault.Ours():
		k.open("statement", "an attempt that ended by a fault of ours needs none")
	case t.Statement == nil && len(receipts) == 0 && t.CostMicros == 0:
		k.open("statement", "no gateway has signed that nothing was called")
	case t.Statement == nil:
		k.open("statement", "no gateway has signed how many calls there were: receipts at the end could be missing")
	default:
		if err := gateway.CheckStatement(t.Statement, t.Run, t.N, receipts, keys); err != nil {
			k.wrong("statement", "%v", err)
			return
		}
		k.ok("statement", "%d calls, signed by %s", t.Statement.Calls, t.Statement.Signer)
	}
	if len(keys) == 0 && (t.Statement != nil || len(receipts) > 0) {
		k.open("gateway key", "the arena names no gateway: each validator meters with its own")
	}
}

// table compares the stored receipts with those of the events. A platform keeps
// none of their signatures where the closing statement's stands for them.
func (k *checker) table(r *Run, t *agon.Attempt, fromEvents []agon.Receipt) {
	if r.Receipts == nil {
		k.open("receipts", "the stored receipts are not public")
		return
	}
	by := map[string]agon.Receipt{}
	for _, x := range fromEvents {
		by[x.ID] = x
	}
	for _, x := range r.Receipts {
		e, ok := by[x.ID]
		if ok && x.Sig == "" && t.Statement != nil {
			e.Sig = ""
		}
		if ok && !sameJSON(x, e) {
			k.wrong("receipts", "%s is stored in two ways", x.ID)
			return
		}
	}
	k.ok("receipts", "%d stored, as the events have them", len(r.Receipts))
}

// chain follows the receipts of the gateway and returns what they cost.
func (k *checker) chain(t *agon.Attempt, receipts []agon.Receipt) agon.Micros {
	var keys []string
	for i := range k.b.Runs {
		if k.b.Runs[i].Run.RunSpec.Run == t.Run {
			keys = k.gateways(&k.b.Runs[i], t.EndedAt)
		}
	}
	c := gateway.VerifyChain(receipts, keys)
	k.Chain = c
	switch {
	case len(c.Problems) > 0:
		p := c.Problems[0]
		k.wrong("chain", "receipt %d (%s): %s: %s; %d problems in all", p.N, p.ID, p.Code, p.Message, len(c.Problems))
	case len(receipts) == 0:
		k.ok("chain", "the attempt called no model")
	default:
		k.ok("chain", "%d receipts, signed by %s", c.Receipts, strings.Join(c.Signers, ", "))
	}
	return c.Cost
}

// tools checks what a tool host wrote: a chain for each of its sessions. It
// returns what the tools cost; models are paid through the gateway's receipts.
func (k *checker) tools(list []tools.Receipt) (cost agon.Micros) {
	if len(list) == 0 {
		return 0
	}
	chains := map[string][]agon.Receipt{}
	n, unsigned, bad := 0, 0, ""
	for _, r := range list {
		if r.Tool != tools.LLMChat {
			cost += r.Cost
		}
		s := r.Signed
		switch {
		case s != nil:
			n++
			chains[s.Run] = append(chains[s.Run], *s)
			if s.ID != r.ReceiptID || s.Cost != r.Cost || s.Model != r.Tool || s.RequestHash.Hex() != r.RequestHash {
				bad = fmt.Sprintf("receipt %s is not what was signed", r.ReceiptID)
			}
		case r.Cost != 0 || r.Reserved != 0 && r.Outcome == tools.OutcomeOK:
			unsigned++
		}
	}
	for _, id := range slices.Sorted(maps.Keys(chains)) {
		if c := gateway.VerifyChain(chains[id], k.o.Gateways); len(c.Problems) > 0 && bad == "" {
			bad = fmt.Sprintf("session %s: receipt %d: %s", id, c.Problems[0].N, c.Problems[0].Message)
		}
	}
	switch {
	case bad != "":
		k.wrong("tools", "%s", bad)
	case unsigned > 0:
		k.open("tools", "%d calls of tools that cost money are under no signature", unsigned)
	default:
		k.ok("tools", "%d receipts of tools in %d chains", n, len(chains))
	}
	return cost
}

// OutcomeOf is how the play of a bundled attempt ended, in its kind's word.
func OutcomeOf(r *Run) (outcome string) {
	for _, e := range r.Events {
		var p struct {
			Outcome string `json:"outcome"`
		}
		if e.Type == agon.EventPhase && json.Unmarshal(e.Data, &p) == nil && p.Outcome != "" {
			outcome = p.Outcome
		}
	}
	return outcome
}

// scores judges the stored evidence again.
func (k *checker) scores(ctx context.Context, r *Run, t *agon.Attempt, outcome string) {
	switch {
	case !t.Counted:
		k.ok("score", "the attempt was not counted: it has no score")
		return
	case t.Fault == agon.FaultAgent:
		for _, s := range r.Run.Scores {
			if s.Value != 0 || s.Solved {
				k.wrong("score", "%s: %.4f, though the fault was the agent's", s.Task, s.Value)
				return
			}
		}
		k.ok("score", "0: the fault was the agent's (%s)", t.Reason)
		return
	case k.o.Rejudge == nil:
		k.open("score", "%s", k.o.Why)
		return
	case t.Evidence == "":
		k.open("score", "no evidence is stored")
		return
	}
	files, err := k.b.Evidence(r)
	if err != nil {
		k.open("score", "not judged again: %v", err)
		return
	}
	scores, err := k.o.Rejudge(ctx, k.b, r, files, outcome)
	if err != nil {
		k.open("score", "not judged again: %v", err)
		return
	}
	by := map[string]agon.Score{}
	for _, s := range scores {
		by[s.Task] = s
	}
	for _, s := range r.Run.Scores {
		got, ok := by[s.Task]
		switch {
		case !ok:
			k.wrong("score", "%s: stored %.4f, judged again there is none", s.Task, s.Value)
			return
		case got.Value != s.Value || got.Solved != s.Solved:
			k.wrong("score", "%s: stored %.4f, judged again %.4f", s.Task, s.Value, got.Value)
			return
		}
	}
	k.ok("score", "%d scores, judged again alike", len(scores))
}

// replay plays a run again where the same must come out: it asked no model and
// no tool. Another score proves nothing, since programs may draw numbers of
// their own, but is told.
func (k *checker) replay(ctx context.Context, r *Run, t *agon.Attempt, calls int, n counts) {
	switch {
	case k.o.Replay == nil:
		return
	case !t.Counted:
		k.open("replay", "the attempt was not counted")
		return
	case calls+n.hidden+n.cut > 0:
		k.open("replay", "it made %d calls: what models and tools answer is not the same twice", calls+n.hidden+n.cut)
		return
	case slices.ContainsFunc(r.Run.Tasks, func(t agon.TaskRef) bool { return t.Hidden }):
		k.open("replay", "a task of it is hidden")
		return
	}
	scores, err := k.o.Replay(ctx, k.b, r)
	if err != nil {
		k.open("replay", "not played again: %v", err)
		return
	}
	by := map[string]agon.Score{}
	for _, s := range scores {
		by[s.Task] = s
	}
	for _, s := range r.Run.Scores {
		if got, ok := by[s.Task]; !ok || got.Value != s.Value || got.Solved != s.Solved {
			k.open("replay", "%s: stored %.4f, played again %.4f: the program, or the machine, is not the same twice", s.Task, s.Value, got.Value)
			return
		}
	}
	k.ok("replay", "%d scores, played again alike", len(r.Run.Scores))
}

func money(m agon.Micros) string { return fmt.Sprintf("$%.6f", float64(m)/1e6) }

// Trusted is the key under which a report's log was checked, and whether it came
// from elsewhere than the server.
func (r *Report) Trusted() bool { return slices.Contains(r.Checked, "log key") }
