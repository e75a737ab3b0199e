package coordinator

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/engine/store"
	kr "github.com/agon-arena/agon/kinds/research/play"
	"github.com/agon-arena/agon/kinds/research/quorum"
)

// statusOf maps a verdict to a status.
func statusOf(verdict int) string {
	switch verdict {
	case quorum.VerdictAccepted:
		return kr.StatusAccepted
	case quorum.VerdictRejected:
		return kr.StatusRejected
	}
	return kr.StatusError
}

// Trust implements platform.Coordinator: by the canaries that each run's validator has replayed.
func (c *Coordinator) Trust(tx *store.Tx, a agon.Arena, runs []store.Run) (map[string]float64, error) {
	out, known := map[string]float64{}, map[string]float64{}
	for _, r := range runs {
		if r.State != agon.RunScored {
			continue
		}
		list, err := tx.Attempts(r.RunSpec.Run)
		if err != nil {
			return nil, err
		}
		for _, at := range list {
			if !at.Counted {
				continue
			}
			v, ok := known[at.Validator]
			if !ok {
				if v, err = validatorTrust(tx, *a.Contest, at.Validator); err != nil {
					return nil, err
				}
				known[at.Validator] = v
			}
			out[r.RunSpec.Run] = v
		}
	}
	return out, nil
}

// maxHits bounds how many of a validator's last canaries count.
const maxHits = 100

func validatorTrust(tx *store.Tx, c agon.Contest, validator string) (float64, error) {
	list, err := hitsOf(tx, validator)
	if err != nil {
		return 0, err
	}
	var can []quorum.Canary
	for _, h := range list {
		x := h.Canary
		if h.Within { // judged by the tolerance of its own task
			x.Observed = x.Known
		} else if x.Want == quorum.VerdictAccepted && x.Verdict == x.Want {
			x.Verdict = quorum.VerdictError
		}
		can = append(can, x)
	}
	return quorum.Trust(c, can), nil
}

// Hit is one replay of a canary.
type Hit struct {
	quorum.Canary
	Validator  string `json:"validator_hotkey"`
	Submission string `json:"submission_id"`
	Within     bool   `json:"within_tolerance"`
	At         Time   `json:"at"`
}

func hitsOf(tx *store.Tx, validator string) ([]Hit, error) {
	rows, err := tx.Docs(tableHits, store.DocFilter{Owner: validator, Limit: maxHits})
	if err != nil {
		return nil, err
	}
	out := make([]Hit, 0, len(rows))
	for _, r := range rows {
		h, err := decode[Hit](r)
		if err != nil {
			return nil, err
		}
		out = append(out, h)
	}
	return out, nil
}

// Contest implements platform.Historian: what takeovers by the second metric have cost of the first.
func (c *Coordinator) Contest(tx *store.Tx, a agon.Arena) (agon.Contest, error) {
	out := *a.Contest
	t := c.taskOfArena(a.ID)
	if out.Secondary == "" || t == nil {
		return out, nil
	}
	spent, err := spentOf(tx, t.id)
	out.Spent = spent
	return out, err
}

// spentOf adds up the gains in the first metric of all records of a task.
func spentOf(tx *store.Tx, taskID string) (float64, error) {
	rows, err := tx.Docs(tableRecords, store.DocFilter{Task: taskID}) // newest first
	if err != nil {
		return 0, err
	}
	var gains []float64
	for _, d := range slices.Backward(rows) {
		r, err := decode[Record](d)
		if err != nil {
			return 0, err
		}
		if r.Delta != nil {
			gains = append(gains, *r.Delta)
		}
	}
	return quorum.Spent(gains), nil
}

// Canary is a submission whose score the operator knows.
type Canary struct {
	Submission string  `json:"submission_id"`
	Verdict    string  `json:"verdict"` // accepted, rejected or error
	Known      float64 `json:"known_value"`
	At         Time    `json:"created_at"`
}

// Seatable implements platform.Coordinator: a canary wins nothing.
func (c *Coordinator) Seatable(tx *store.Tx, e store.Entry) (string, error) {
	_, err := tx.Doc(tableCanaries, e.ID)
	if errors.Is(err, store.ErrNotFound) {
		return "", nil
	}
	return "research.canary", err
}

// Settled implements platform.Coordinator: it writes the coordinator's half of what
// a result or a decision changes.
func (c *Coordinator) Settled(tx *store.Tx, a agon.Arena, e store.Entry, d *agon.Decision) error {
	row, err := tx.Doc(tableSubmissions, e.ID)
	if errors.Is(err, store.ErrNotFound) {
		return nil // entered by another way than the coordinator
	}
	if err != nil {
		return err
	}
	s, err := decode[storedSubmission](row)
	if err != nil {
		return err
	}
	runs, err := tx.RunsOf(e.ID)
	if err != nil {
		return err
	}
	trust, err := c.Trust(tx, a, runs)
	if err != nil {
		return err
	}
	v := agon.View{Arena: a, Submission: e.Submission, Trust: trust}
	for _, r := range runs {
		v.Runs = append(v.Runs, r.Run)
	}
	agree, err := kr.Agreement(v)
	if err != nil {
		return err
	}
	from := s.Status
	if d == nil {
		if err := c.resolve(tx, &s, a, e, runs, agree); err != nil {
			return err
		}
	} else {
		s.Best = &Best{Took: d.Outcome == agon.TookSeat, Incumbent: d.Incumbent, Rule: d.Rule, Numbers: d.Numbers, At: Time{d.At}}
		if s.Best.Took {
			if err := c.record(tx, a, e, &s, runs, trust, agree, d); err != nil {
				return err
			}
		}
	}
	s.UpdatedAt = Time{c.now()}
	return setSubmission(tx, &s, from)
}

func setSubmission(tx *store.Tx, s *storedSubmission, from string) error {
	body, err := encode(s)
	if err != nil {
		return err
	}
	return tx.SetDoc(tableSubmissions, store.Doc{ID: s.ID, Owner: s.Miner, Ref: s.ClaimID, Status: s.Status, Body: body}, from)
}

// resolve ends the replays of a submission.
func (c *Coordinator) resolve(tx *store.Tx, s *storedSubmission, a agon.Arena, e store.Entry, runs []store.Run, agree quorum.Agreement) error {
	t := c.taskOfArena(a.ID)
	if e.State == agon.SubmissionExcluded || !agree.Decided {
		s.Status, s.Reason = kr.StatusError, "no number came of it through no fault of the miner"
		for _, f := range e.Findings {
			if !f.Warning {
				s.Reason = f.Message
			}
		}
	} else {
		s.Status, s.Reason = statusOf(agree.Verdict), detailOf(runs, agree)
		s.Observed = nil
		if agree.Verdict == quorum.VerdictAccepted && t != nil {
			s.Observed = map[string]float64{}
			near := -1.0
			for _, r := range runs {
				if !slices.Contains(agree.Runs, r.RunSpec.Run) {
					continue
				}
				x, _ := kr.ReplayOf(r.Run, nil)
				if dist := max(x.Value-agree.Value, agree.Value-x.Value); near < 0 || dist < near {
					near, s.Observed = dist, observedOf(r.Scores[0].Metrics)
				}
			}
			s.Observed[t.pub.MetricName] = agree.Value
			s.OverClaim = overClaim(t.pub, s.ClaimedMetrics, agree.Value)
			s.Reason = fmt.Sprintf("%d replays agree", len(agree.Runs))
			if len(agree.Runs) == 1 {
				s.Reason = "one replay decides"
			}
		}
	}
	if err := c.settleIdea(tx, s); err != nil {
		return err
	}
	return c.bookCanary(tx, *a.Contest, s, runs)
}

// detailOf is what the agreeing replays say of why.
func detailOf(runs []store.Run, agree quorum.Agreement) string {
	for _, r := range runs {
		if slices.Contains(agree.Runs, r.RunSpec.Run) && len(r.Scores) == 1 && r.Scores[0].Detail != "" {
			return r.Scores[0].Detail
		}
	}
	return ""
}

// overClaim is how much better than observed a miner claimed to be; negative for less.
func overClaim(pub kr.Task, claimed map[string]json.RawMessage, observed float64) *float64 {
	x, ok := numbers(claimed)[pub.MetricName]
	if !ok {
		return nil
	}
	d := x - observed
	if pub.MetricDirection == agon.Minimize {
		d = -d
	}
	return &d
}

func (c *Coordinator) settleIdea(tx *store.Tx, s *storedSubmission) error {
	d, err := tx.Doc(tableIdeas, s.ID)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	x, err := decode[Idea](d)
	if err != nil {
		return err
	}
	from := d.Status
	x.Status = s.Status
	if d.Body, err = encode(x); err != nil {
		return err
	}
	d.Status = x.Status
	return tx.SetDoc(tableIdeas, d, from)
}

// bookCanary notes what each validator said of a canary.
func (c *Coordinator) bookCanary(tx *store.Tx, contest agon.Contest, s *storedSubmission, runs []store.Run) error {
	row, err := tx.Doc(tableCanaries, s.ID)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	can, err := decode[Canary](row)
	if err != nil {
		return err
	}
	want := map[string]int{kr.StatusAccepted: quorum.VerdictAccepted, kr.StatusRejected: quorum.VerdictRejected, kr.StatusError: quorum.VerdictError}[can.Verdict]
	for _, r := range runs {
		x, ok := kr.ReplayOf(r.Run, nil)
		if !ok || r.Rival != nil {
			continue
		}
		list, err := tx.Attempts(r.RunSpec.Run)
		if err != nil {
			return err
		}
		for _, at := range list {
			if !at.Counted {
				continue
			}
			h := Hit{
				Canary: quorum.Canary{Known: can.Known, Observed: x.Value, Verdict: x.Verdict, Want: want}, Validator: at.Validator, Submission: s.ID, At: Time{c.now()},
			}
			h.Within = x.Verdict == want && (want != quorum.VerdictAccepted || quorum.Within(contest, can.Known, x.Value))
			body, err := encode(h)
			if err != nil {
				return err
			}
			tx.StandingMoves()
			err = tx.InsertDoc(tableHits, store.Doc{ID: at.Lease, Task: s.TaskID, Owner: at.Validator, Ref: s.ID, Status: "hit", At: h.At.Time, Body: body})
			if err != nil && !errors.Is(err, store.ErrConflict) {
				return err
			}
		}
	}
	return nil
}

func (c *Coordinator) taskOfArena(arena string) *task {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.arena[arena]
}

// lastRecord is the present best of a task, nil if there is none.
func lastRecord(tx *store.Tx, taskID string) (*Record, error) {
	rows, err := tx.Docs(tableRecords, store.DocFilter{Task: taskID, Limit: 1})
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	r, err := decode[Record](rows[0])
	return &r, err
}

// record appends to the ledger of bests, attested.
func (c *Coordinator) record(tx *store.Tx, a agon.Arena, e store.Entry, s *storedSubmission, runs []store.Run, trust map[string]float64, agree quorum.Agreement, d *agon.Decision) error {
	t := c.taskOfArena(a.ID)
	if t == nil {
		return fmt.Errorf("arena %s: its task is not open", a.ID)
	}
	r := Record{
		Submission: s.ID, TaskID: t.id, Slug: t.pub.Slug, Miner: s.Miner, Parent: opt(d.Incumbent), Implemented: s.Implemented,
		Metric: t.pub.MetricName, Direction: t.pub.MetricDirection, Value: agree.Value, Band: cmp.Or(d.Numbers["band"], a.Contest.Band), Observed: s.Observed, Rule: d.Rule, Numbers: d.Numbers,
		PatchDigest: s.PatchDigest, Files: string(e.Digest), TaskDigest: string(a.Tasks[0].Digest), BaseSHA: s.BaseSHA, At: Time{d.At},
	}
	if g, ok := d.Numbers["gain"]; ok {
		r.Delta = &g
	}
	if cl, err := tx.Doc(tableClaims, s.ClaimID); err == nil {
		x, err := decode[Claim](cl)
		if err != nil {
			return err
		}
		r.Base = x.Base
	} else if !errors.Is(err, store.ErrNotFound) {
		return err
	}
	for _, run := range runs {
		x, ok := kr.ReplayOf(run.Run, trust)
		if !ok {
			continue
		}
		list, err := tx.Attempts(run.RunSpec.Run)
		if err != nil {
			return err
		}
		for _, at := range list {
			if at.Counted {
				r.Replays = append(r.Replays, RecordReplay{
					ID: at.Lease, Validator: at.Validator, Verdict: statusOf(x.Verdict), Value: x.Value, Trust: x.Trust,
					Agrees: slices.Contains(agree.Runs, run.RunSpec.Run), Duel: run.Rival != nil, Driver: at.Driver.Name, Hardware: at.Driver.HardwareClass(),
				})
			}
		}
	}
	return c.appendRecord(tx, &r)
}

// appendRecord numbers, attests and stores a record.
func (c *Coordinator) appendRecord(tx *store.Tx, r *Record) error {
	n, err := tx.CountDocs(tableRecords, store.DocFilter{Task: r.TaskID})
	if err != nil {
		return err
	}
	r.Number = int(n) + 1
	if c.cfg.Signer != nil {
		statement, err := encode(r)
		if err != nil {
			return err
		}
		sig, err := c.cfg.Signer.Sign(append([]byte(attestPrefix), statement...))
		if err != nil {
			return fmt.Errorf("attest record: %w", err)
		}
		r.Attestation = &Attestation{Signer: c.cfg.Signer.SS58(), Statement: string(statement), Signature: hex.EncodeToString(sig)}
	}
	body, err := encode(r)
	if err != nil {
		return err
	}
	return tx.InsertDoc(tableRecords, store.Doc{ID: r.Submission, Task: r.TaskID, Owner: r.Miner, Ref: r.Submission, Status: "record", At: r.At.Time, Body: body})
}

const attestPrefix = "agon-record-v1\n"

// AttestedBytes are what the signature of a record covers. The caller checks
// that the statement says what the record says: Statement must be the record
// without its attestation.
func AttestedBytes(r Record) ([]byte, error) {
	if r.Attestation == nil {
		return nil, errors.New("record has no attestation")
	}
	a := *r.Attestation
	r.Attestation = nil
	b, err := encode(r)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(b, []byte(a.Statement)) {
		return nil, errors.New("the record is not what was attested")
	}
	return append([]byte(attestPrefix), b...), nil
}

// VerifyRecord checks the coordinator's signature on a record, offline.
func VerifyRecord(r Record) error {
	msg, err := AttestedBytes(r)
	if err != nil {
		return err
	}
	sig, err := hex.DecodeString(r.Attestation.Signature)
	if err != nil {
		return fmt.Errorf("read signature: %w", err)
	}
	return auth.Verify(r.Attestation.Signer, msg, sig)
}

// age is for decay: how long ago at was.
func (c *Coordinator) age(at Time) time.Duration { return c.now().Sub(at.Time) }

// CanariesOf implements platform.CanaryBook: the replays and duels of known
// outcome that a validator made.
func (c *Coordinator) CanariesOf(tx *store.Tx, validator string) (played, missed int, err error) {
	list, err := hitsOf(tx, validator)
	for _, h := range list {
		played++
		if !h.Within {
			missed++
		}
	}
	return played, missed, err
}
