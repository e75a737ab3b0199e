package platform

import (
	"cmp"
	"context"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/store"
)

// Bounds of what a holder may report.
const (
	maxBatch    = 2000       // events of one request
	maxReceipts = 20_000     // of one result
	maxReason   = 2000       // bytes
	maxDetail   = 4000       // bytes
	maxMetrics  = 200        // of one score
	maxMoney    = 1e15       // micro-dollars: a billion dollars is a mistake
	maxSkew     = time.Hour  // of an event's clock
	maxRefs     = 2000       // files of one evidence tree
	headOfCut   = 4 << 10    // bytes kept of an event that was cut
	maxSeq      = 10_000_000 // events of an attempt are numbered up to this
)

// holder finds a lease, checks who asks and uses up the request's nonce.
// Whether the lease still lives is the caller's question.
func holder(ctx context.Context, tx *store.Tx, c Caller, lease, token string) (store.Lease, error) {
	l, err := held(tx, c, lease, token)
	if err != nil {
		return l, err
	}
	return l, deferred(ctx).use(tx)
}

// held is holder in a read: it uses up no nonce.
func held(tx *store.Tx, c Caller, lease, token string) (store.Lease, error) {
	l, err := tx.Lease(lease)
	if err != nil {
		return l, found(err, "lease", lease)
	}
	sum := tokenHash(token)
	if l.Validator != c.Hotkey || subtle.ConstantTimeCompare([]byte(sum), []byte(l.TokenHash)) != 1 {
		return l, refuse(403, "not_holder", "this lease belongs to another validator, or the token is wrong")
	}
	return l, nil
}

// Heartbeat extends a lease, moves its run and appends events. Repeating it
// changes nothing. A lost lease is not an error: the reply says stop, and events
// are still kept as evidence until the attempt has reported a result.
func (p *Platform) Heartbeat(ctx context.Context, c Caller, lease string, h client.Heartbeat) (*client.HeartbeatReply, error) {
	if err := p.checkEvents(h.Events); err != nil {
		return nil, err
	}
	var reply client.HeartbeatReply
	var a store.Attempt
	err := p.cfg.Store.Write(ctx, func(tx *store.Tx) (err error) {
		l, err := holder(ctx, tx, c, lease, h.Token)
		if err != nil {
			return err
		}
		a = l.Attempt
		run := l.Of
		if a.ResultHash == "" {
			if err := p.appendEvents(tx, &a, run, h.Events); err != nil {
				return err
			}
		}
		if !a.Live() {
			reply = client.HeartbeatReply{Until: a.LeaseUntil, Cancel: true}
			return nil
		}
		to, err := progress(run.State, h.State)
		if err != nil {
			return err
		}
		now := p.now()
		d, _ := agon.StateDeadline(to, p.cfg.Lease, p.cfg.QueueFor)
		until := now.Add(d)
		if end := a.LeasedAt.Add(run.MaxHold); until.After(end) {
			until = end
		}
		a.State, a.LeaseUntil, a.SeenAt = string(to), until, now
		if err := tx.BeatAttempt(a); err != nil {
			return err
		}
		reply = client.HeartbeatReply{Until: until}
		return tx.Touch(a.Run, run.State, to, until)
	})
	if err != nil {
		return nil, err
	}
	deferred(ctx).kept()
	p.noteSeen(ctx, c.Hotkey, "", "", "", agon.Arena{ID: a.Arena})
	p.hub.changed(a.Run)
	return &reply, nil
}

// progress checks a move that a holder reports. An empty or repeated state is
// not a move. Judging straight from leased is two moves whose first report was lost.
func progress(from, to agon.RunState) (agon.RunState, error) {
	if to == "" || to == from {
		return from, nil
	}
	if to != agon.RunPlaying && to != agon.RunJudging {
		e := refuse(422, "bad_state", "a heartbeat reports playing or judging, not %q", cut(string(to), 40))
		e.Field = "state"
		return from, e
	}
	if from == agon.RunLeased && to == agon.RunJudging {
		if err := agon.CheckTransition(from, agon.RunPlaying, agon.ByHolder); err == nil {
			from = agon.RunPlaying
		}
	}
	if err := agon.CheckTransition(from, to, agon.ByHolder); err != nil {
		e := refuse(409, "bad_transition", "%s", err)
		e.Field = "state"
		return from, e
	}
	return to, nil
}

// checkEvents refuses events that no engine writes.
func (p *Platform) checkEvents(list []agon.Event) error {
	bad := func(i int, why string) error {
		e := refuse(422, "bad_event", "event %d: %s", i, why)
		e.Field = "events"
		return e
	}
	if len(list) > maxBatch {
		e := refuse(413, "too_large", "%d events in one request are too many", len(list))
		e.Field, e.Limit = "events", strconv.Itoa(maxBatch)+" events"
		return e
	}
	for i, e := range list {
		switch {
		case e.Seq < 1 || e.Seq > maxSeq:
			return bad(i, "seq is out of range")
		case e.Type == "" || len(e.Type) > 40 || !plainLine(e.Type):
			return bad(i, "type is one word of at most 40 bytes")
		case len(e.Data) > 0 && !json.Valid(e.Data):
			return bad(i, "data is not JSON")
		}
	}
	return nil
}

// appendEvents stores events under the attempt's own run and number, whatever
// they say. What passes a limit is replaced by a mark: nothing vanishes silently.
func (p *Platform) appendEvents(tx *store.Tx, a *store.Attempt, run store.Run, list []agon.Event) error {
	if len(list) == 0 {
		return nil
	}
	now := p.now()
	bySeq := func(a, b agon.Event) int { return cmp.Compare(a.Seq, b.Seq) }
	there, err := tx.EventSeqs(a.Run, a.N, slices.MinFunc(list, bySeq).Seq, slices.MaxFunc(list, bySeq).Seq)
	if err != nil {
		return err
	}
	if !a.Live() {
		if err := tx.ArchivedSeqs(a.Run, a.N, there); err != nil {
			return err
		}
	}
	// add stores an event, unless one of its number is there.
	add := func(e agon.Event) (added bool, err error) {
		if there[e.Seq] {
			return false, nil
		}
		there[e.Seq] = true
		if err := tx.InsertEvent(e); err != nil {
			return false, err
		}
		a.EventHead = nextHead(a, e)
		return true, nil
	}
	for _, e := range list {
		e.Run, e.Attempt = a.Run, a.N
		if !slices.ContainsFunc(run.Tasks, func(t agon.TaskRef) bool { return t.Key == e.Task }) {
			e.Task = ""
			if len(run.Tasks) == 1 {
				e.Task = run.Tasks[0].Key // hidden tasks are recognised by it
			}
		}
		if e.At.IsZero() || e.At.After(now.Add(maxSkew)) || e.At.Before(a.LeasedAt.Add(-maxSkew)) {
			e.At = now
		}
		if a.EventCount >= p.cfg.MaxEvents {
			if a.EventCount == p.cfg.MaxEvents {
				// The last event of a full log says so.
				e.Type, e.Data = agon.EventNote, mark("the log is full: later events are not kept", nil)
				if _, err := add(e); err != nil {
					return err
				}
				a.EventCount++
			}
			break
		}
		if int64(len(e.Data)) > p.cfg.MaxEventBytes || a.EventBytes+int64(len(e.Data)) > p.cfg.MaxLogBytes {
			e.Data = mark("", e.Data)
		}
		added, err := add(e)
		if err != nil {
			return err
		}
		if added {
			a.EventCount++
			a.EventBytes += int64(len(e.Data))
		}
	}
	return tx.SetEventUse(*a)
}

// mark stands for data that was cut: how long it was, its hash and how it began.
func mark(text string, data json.RawMessage) json.RawMessage {
	m := map[string]any{"cut": true}
	if text != "" {
		m["text"] = text
	}
	if data != nil {
		m["bytes"], m["sha256"], m["head"] = len(data), agon.Sum(data), cut(string(data[:min(len(data), headOfCut)]), headOfCut)
	}
	b, err := json.Marshal(m)
	if err != nil {
		return json.RawMessage(`{"cut":true}`)
	}
	return b
}

// Result settles an attempt. The first result of a live lease is the run's:
// scores without fault, zeros for the agent's fault, a retry for a fault of
// ours. Sending the same result again is answered alike. A result of a lost
// lease is kept as evidence and never counted.
func (p *Platform) Result(ctx context.Context, c Caller, lease string, r client.Result) (*client.ResultReply, error) {
	hash, err := p.checkResult(r)
	if err != nil {
		return nil, err
	}
	refs, err := p.checkEvidence(ctx, c, lease, r)
	if err != nil {
		return nil, err
	}
	closed := p.closing(r)
	var reply client.ResultReply
	var a store.Attempt
	queued := 0
	err = p.cfg.Store.Write(ctx, func(tx *store.Tx) (err error) {
		queued = 0
		l, err := holder(ctx, tx, c, lease, r.Token)
		if err != nil {
			return err
		}
		a = l.Attempt
		run := l.Of
		if a.ResultHash != "" {
			if a.ResultHash != hash {
				return refuse(409, "result_conflict", "this lease has reported another result before")
			}
			return json.Unmarshal([]byte(a.Reply), &reply)
		}
		arena, err := tx.Arena(a.Arena)
		if err != nil {
			return err
		}
		whole := attested(a, r, gatewayKeys(arena, run), closed)
		if whole != nil && !(c.Wire != "" && arena.Evidence == agon.EvidenceForeign) {
			return whole
		}
		if a.Mark, err = p.attestable(arena, c, r); err != nil {
			return err
		}
		if err := checkGPUs(tx, arena, run, c.Hotkey, r); err != nil {
			return err
		}
		if err := p.keepEvidence(tx, &a, run, r, refs, whole == nil && r.Statement != nil && !r.Fault.Ours()); err != nil {
			return err
		}
		a.ResultHash = hash
		reply, queued, err = p.settle(tx, run, l.Code, a, r)
		return err
	})
	if err != nil {
		return nil, err
	}
	deferred(ctx).kept()
	p.noteSeen(ctx, c.Hotkey, r.Driver.Name, "", "", agon.Arena{ID: a.Arena})
	if queued > 0 {
		p.waiters.news(queued)
	}
	p.waiters.freed(c.Hotkey)
	p.hub.changed(a.Run)
	return &reply, nil
}

// closing checks a result's closing statement by itself: its signature, and the
// receipts beside it. It is the slow part, so no transaction waits for it;
// whether the statement is of this attempt and gateway, attested says.
func (p *Platform) closing(r client.Result) error {
	s := r.Statement
	if s == nil || r.Fault.Ours() {
		return nil
	}
	return p.statements.Statement(s, s.Run, s.Attempt, r.Receipts, nil)
}

// attested refuses a result that its gateway's closing statement contradicts,
// or lacks where the arena names the platform's own gateway: a validator must
// neither invent nor leave out what was called. A fault of ours proves nothing
// and needs none. keys are those of the arena's gateway; none: each validator
// meters with its own, whose word is checked for what it says of itself. closed
// is what closing said of the statement.
func attested(a store.Attempt, r client.Result, keys []string, closed error) error {
	if r.Fault.Ours() || (len(keys) == 0 && r.Statement == nil) {
		return nil
	}
	no := func(field, why string) error {
		e := refuse(422, "bad_receipts", "the result's receipts are not all that was called: %s", why)
		e.Field = field
		return e
	}
	if r.Statement == nil {
		return no("statement", "the closing statement of the arena's gateway is missing")
	}
	switch s := r.Statement; {
	case s.Run != a.Run || s.Attempt != a.N:
		return no("statement", "the statement is of another run or attempt")
	case len(keys) > 0 && !slices.Contains(keys, s.Signer):
		return no("statement", fmt.Sprintf("the statement is signed by %.60q, which is not a gateway of this arena", s.Signer))
	case closed != nil:
		return no("receipts", closed.Error())
	case len(keys) > 0 && r.Cost != r.Statement.Cost:
		return no("cost_micros", fmt.Sprintf("the gateway's statement sums to %d micro-dollars, the result says %d", r.Statement.Cost, r.Cost))
	case r.Cost < r.Statement.Cost: // a validator's own tools may cost more
		return no("cost_micros", fmt.Sprintf("the gateway's statement sums to %d micro-dollars, the result says only %d", r.Statement.Cost, r.Cost))
	}
	return nil
}

// gatewayKeys are the keys under which statements of a run are taken: the
// arena's of today, else that which the run was planned with. After an operator
// has changed the key, new statements need the new one.
func gatewayKeys(arena agon.Arena, run store.Run) []string {
	switch {
	case arena.Policy.GatewayKey != "":
		return []string{arena.Policy.GatewayKey}
	case run.Policy.GatewayKey != "":
		return []string{run.Policy.GatewayKey}
	}
	return nil
}

// badDriver tells whether the description of a driver is longer than any true one.
func badDriver(d agon.Driver) bool {
	return len(d.Name) > 80 || len(d.Version) > 200 || len(d.Limits) > 50 || len(d.Images) > 100 || len(d.Datasets) > 100 ||
		slices.ContainsFunc(slices.Concat(d.Images, d.Datasets), func(s string) bool { return len(s) > 80 })
}

// checkResult checks what can be checked without the run, and returns the hash of the result.
func (p *Platform) checkResult(r client.Result) (string, error) {
	bad := func(field, format string, args ...any) (string, error) {
		e := refuse(422, "bad_result", format, args...)
		e.Field = field
		return "", e
	}
	switch {
	case r.Fault != agon.FaultNone && !slices.Contains(agon.Faults, r.Fault):
		return bad("fault", "unknown fault %q", cut(string(r.Fault), 40))
	case r.Cost < 0 || r.Cost > maxMoney:
		return bad("cost_micros", "cost is out of range")
	case r.BoxMS < 0 || r.BoxMS > math.MaxInt32*1000:
		return bad("box_ms", "box time is out of range")
	case badDriver(r.Driver):
		return bad("driver", "the driver's description is too long")
	case len(r.Receipts) > maxReceipts:
		return bad("receipts", "over %d receipts", maxReceipts)
	}
	for _, x := range r.Receipts {
		if x.ID == "" || len(x.ID) > 200 || x.Cost < 0 || x.Cost > maxMoney {
			return bad("receipts", "receipt %q: id or cost is out of range", cut(x.ID, 40))
		}
	}
	if err := p.checkEvents(r.Events); err != nil {
		return "", err
	}
	r.Token = "" // a secret; the lease is proved already
	b, err := json.Marshal(r)
	if err != nil {
		return bad("scores", "a number is not finite")
	}
	return agon.Sum(b).Hex(), nil
}

// keepEvidence stores what an attempt left, counted or not. sealed says that a
// statement was checked over its receipts.
func (p *Platform) keepEvidence(tx *store.Tx, a *store.Attempt, run store.Run, r client.Result, refs []store.BlobRef, sealed bool) error {
	if err := p.appendEvents(tx, a, run, r.Events); err != nil {
		return err
	}
	for _, x := range r.Receipts {
		x.Run, x.Attempt = a.Run, a.N
		if sealed {
			x.Sig = "" // not checked: the statement's stands for it
		}
		if err := tx.InsertReceipt(a.Run, a.N, x); err != nil {
			return err
		}
	}
	for _, ref := range refs {
		ref.Owner = a.Run
		if err := tx.AddRef(ref); err != nil {
			return err
		}
	}
	a.Outcome, a.Driver, a.CostMicros, a.BoxMS, a.Evidence = cut(r.Outcome, 200), r.Driver, r.Cost, r.BoxMS, r.Evidence
	a.Statement = r.Statement
	return tx.DropUploads(a.Lease)
}

// checkScores wants one finite score in [0, 1] for each task of the run, and
// returns them in the order of the tasks.
func checkScores(run store.Run, list []agon.Score) ([]agon.Score, error) {
	bad := func(format string, args ...any) error {
		e := refuse(422, "bad_scores", format, args...)
		e.Field = "scores"
		return e
	}
	by := map[string]agon.Score{}
	for _, s := range list {
		if !slices.ContainsFunc(run.Tasks, func(t agon.TaskRef) bool { return t.Key == s.Task }) {
			return nil, bad("task %q is not part of the run", cut(s.Task, 80))
		}
		if _, twice := by[s.Task]; twice {
			return nil, bad("task %q is scored twice", s.Task)
		}
		if !(s.Value >= 0 && s.Value <= 1) { // NaN fails both
			return nil, bad("task %q: value is not in 0..1", s.Task)
		}
		if s.Scorer == "" || len(s.Scorer) > 200 {
			return nil, bad("task %q: scorer is missing or over 200 bytes", s.Task)
		}
		if len(s.Metrics) > maxMetrics {
			return nil, bad("task %q: over %d metrics", s.Task, maxMetrics)
		}
		for k, v := range s.Metrics {
			if len(k) > 100 || math.IsNaN(v) || math.IsInf(v, 0) {
				return nil, bad("task %q: metric %q is not finite or its name is over 100 bytes", s.Task, cut(k, 40))
			}
		}
		s.Run, s.Detail = run.RunSpec.Run, cut(s.Detail, maxDetail)
		by[s.Task] = s
	}
	out := make([]agon.Score, 0, len(run.Tasks))
	for _, t := range run.Tasks {
		s, ok := by[t.Key]
		if !ok {
			return nil, bad("task %q has no score", t.Key)
		}
		out = append(out, s)
	}
	return out, nil
}

// zeros are the scores of a run that ended by the agent's fault.
func (p *Platform) zeros(a agon.Arena, run store.Run, r client.Result) []agon.Score {
	scorer := "none"
	if k := p.cfg.Kinds[a.Kind]; k != nil {
		scorer = k.Scorer()
	}
	out := make([]agon.Score, 0, len(run.Tasks))
	for _, t := range run.Tasks {
		out = append(out, agon.Score{
			Run: run.RunSpec.Run, Task: t.Key, Scorer: scorer,
			Detail: cut(fmt.Sprintf("%s: %s", r.Outcome, r.Reason), maxDetail),
		})
	}
	return out
}
