package wire

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/internal/fetch"
	"github.com/agon-arena/agon/kinds/claim/query"
	"github.com/agon-arena/agon/kinds/claim/roster"
	"github.com/agon-arena/agon/kinds/claim/signin"
)

// A batch with registered validators is driven: pushed to each of them, its grades
// fetched, and the medians of what they say move the roster. Everything that a
// validator said is on disk before it counts; a platform that was stopped goes on.

// Driver pushes batches. The zero value pushes none.
type Driver struct {
	// Key is a hotkey of the subnet's owner, which validators take batches from.
	Key auth.Signer
	// Private lets validators be at private addresses: where the platform is only
	// reached from its own machine.
	Private bool
	// Every is how often validators are asked; default 5 s. Grace is how long the rest
	// may take once most have answered; default 15 min. Deadline is how long a batch
	// may take; default 24 h.
	Every, Grace, Deadline time.Duration
	// Split is what the places of the roster earn; default roster.DefaultSplit.
	Split [roster.Places]float64
	// Margin is how much more than the first's a challenger's mean score must be.
	Margin float64
	// SameColdkey lets one coldkey hold several places.
	SameColdkey bool
}

func (d *Driver) defaults() {
	if d.Every <= 0 {
		d.Every = 5 * time.Second
	}
	if d.Grace <= 0 {
		d.Grace = 15 * time.Minute
	}
	if d.Deadline <= 0 {
		d.Deadline = 24 * time.Hour
	}
	if d.Split == [roster.Places]float64{} {
		d.Split = roster.DefaultSplit
	}
}

// States of a delivery.
const (
	deliveryWaiting  = "waiting"  // not accepted yet
	deliveryAccepted = "accepted" // it plays
	deliveryGraded   = "graded"
	deliveryRefused  = "refused" // its grades do not count; Error says why
	deliveryLate     = "late"    // no grades when the batch ended
)

// delivery is a batch at one validator.
type delivery struct {
	Hotkey    string    `json:"hotkey"`
	UID       int       `json:"uid"`
	BaseURL   string    `json:"base_url"`
	State     string    `json:"state"`
	Completed int       `json:"completed"`
	Error     string    `json:"error,omitempty"` // the last one
	At        time.Time `json:"at"`              // of its last answer
	// Differs is how many of its grades are not the median.
	Differs int `json:"differs"`
	// Kin is how many of its grades are left out, as they are of scripts of its own coldkey.
	Kin int `json:"kin,omitempty"`
}

// drive is the driving of a batch.
type drive struct {
	Deliveries []delivery  `json:"deliveries"`
	Majority   *time.Time  `json:"majority,omitempty"` // when most had answered
	Ended      *time.Time  `json:"ended,omitempty"`
	Failed     string      `json:"failed,omitempty"` // why the batch failed
	Grid       *gradedGrid `json:"grid,omitempty"`
	// Trial is why nobody is seated by the batch, whatever its grades; "": somebody may be.
	Trial string `json:"trial,omitempty"`
	// By is the coldkey of the validator that made it; "": the owner did.
	By string `json:"by,omitempty"`
	// Handed is when a claim of it was first given to validators, if that was before; Late
	// are the scripts that came after: they are graded and neither seated nor paid.
	Handed *time.Time `json:"handed,omitempty"`
	Late   []string   `json:"late,omitempty"`
	// Entered is the artifact that took the first place, if one did.
	Entered string `json:"entered,omitempty"`
	// Of the query era: whether the scripts were compared with earlier ones, what the
	// validators said of them, and how the seat was decided.
	Compared bool               `json:"compared,omitempty"`
	Rounds   int                `json:"rounds,omitempty"` // in which they were asked
	Votes    map[string]*ballot `json:"votes,omitempty"`  // by artifact
	Outcome  *query.Outcome     `json:"outcome,omitempty"`
}

type gradedGrid struct {
	Totals map[string]float64            `json:"totals"` // mean score of an artifact
	Costs  map[string]float64            `json:"costs"`  // USD
	Scores map[string]map[string]float64 `json:"scores"` // artifact, claim: the median
}

// grade is what one validator says of a script on a claim.
type grade struct {
	ArtifactID    string     `json:"artifact_id"`
	ClaimID       string     `json:"claim_id"`
	Verdict       int        `json:"verdict"`
	Justification string     `json:"justification"`
	Citations     []Citation `json:"citations"`
	VerdictScore  float64    `json:"verdict_score"`
	SupportScore  float64    `json:"support_score"`
	Rationale     string     `json:"grader_rationale,omitempty"`
	ErrorCode     string     `json:"error_code,omitempty"`
	ErrorMessage  string     `json:"error_message,omitempty"`
	CostUSD       float64    `json:"cost_usd"`
	// Of the query era, whose score is in VerdictScore.
	ElapsedMS *float64        `json:"elapsed_ms,omitempty"`
	Answer    json.RawMessage `json:"response,omitempty"`
}

func (g grade) score() float64 { return g.VerdictScore + g.SupportScore }

func driveName(id string) string { return "drive-" + id }

func gradesName(id, hotkey string) string { return "grades-" + id + "-" + sha([]byte(hotkey))[:16] }

// registeredFor is how long a registration is remembered. Validators register once a
// minute, those of the seed when they start.
const registeredFor = 7 * 24 * time.Hour

func (p *Platform) driven(id string) (d drive, ok bool, err error) {
	ok, err = p.dir.Get(driveName(id), &d)
	return d, ok, err
}

// Run drives batches until ctx ends.
func (p *Platform) Run(ctx context.Context) {
	if p.cfg.Driver.Key == nil && !p.pulls() {
		return
	}
	if p.pulls() {
		defer close(p.work.ended)
	}
	t := time.NewTicker(p.cfg.Driver.Every)
	defer t.Stop()
	for {
		p.Step(ctx)
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
	}
}

// Step asks each validator of each running batch once, and ends what is over.
func (p *Platform) Step(ctx context.Context) {
	names, err := p.dir.Names("drive-")
	if err != nil {
		p.cfg.Log.Error("listing batches", "err", err)
		return
	}
	for _, n := range names {
		var d drive
		if ok, err := p.dir.Get(n, &d); err != nil || !ok || d.Ended != nil {
			continue
		}
		if err := p.turn(ctx, strings.TrimPrefix(n, "drive-"), &d); err != nil && ctx.Err() == nil {
			p.cfg.Log.Error("driving a batch", "batch", n, "err", err)
		}
	}
}

func (p *Platform) turn(ctx context.Context, id string, d *drive) error {
	var b Batch
	if ok, err := p.dir.Get(batchName(id), &b); err != nil || !ok {
		return err // a batch whose making was cut off has no file
	}
	visit := p.visit
	if p.pulls() {
		visit = func(_ context.Context, b Batch, v *delivery) error { return p.tally(b, v) }
		if ready, err := p.prepare(ctx, &b, d); err != nil || !ready {
			return errors.Join(err, p.giveUp(b, d))
		}
	}
	open, graded := 0, 0
	for i := range d.Deliveries {
		v := &d.Deliveries[i]
		if v.State == deliveryWaiting || v.State == deliveryAccepted {
			if err := visit(ctx, b, v); err != nil {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				v.Error = err.Error()
			}
		}
		switch v.State {
		case deliveryGraded:
			graded++
		case deliveryWaiting, deliveryAccepted:
			open++
		}
	}
	now := p.cfg.Now().UTC()
	if 2*graded > len(d.Deliveries) && d.Majority == nil {
		d.Majority = &now
	}
	over := open == 0 || now.Sub(b.CreatedAt) > p.cfg.Driver.Deadline || d.Majority != nil && now.Sub(*d.Majority) > p.cfg.Driver.Grace
	if over {
		for i := range d.Deliveries {
			if v := &d.Deliveries[i]; v.State == deliveryWaiting || v.State == deliveryAccepted {
				v.State = deliveryLate
			}
		}
		if err := p.settle(b, d, now); err != nil {
			return err
		}
	}
	if err := p.dir.Put(driveName(id), *d); err != nil {
		return err
	}
	if d.Ended != nil && p.pulls() {
		p.closeBoard(b)
	}
	return nil
}

// giveUp ends a batch that could not be prepared in its time.
func (p *Platform) giveUp(b Batch, d *drive) error {
	now := p.cfg.Now().UTC()
	if now.Sub(b.CreatedAt) <= p.cfg.Driver.Deadline {
		return nil
	}
	d.Ended, d.Failed = &now, "its scripts could not be compared with earlier ones"
	return p.dir.Put(driveName(b.BatchID), *d)
}

// visit pushes a batch to a validator, or asks how far it is.
func (p *Platform) visit(ctx context.Context, b Batch, v *delivery) error {
	if v.State == deliveryWaiting {
		body, err := json.Marshal(map[string]any{
			"batch_id": b.BatchID, "entrypoint": b.Entrypoint, "cutoff_at_iso": b.CutoffAt, "created_at_iso": b.CreatedAt, "claims": b.Claims, "candidates": b.Candidates,
		})
		if err != nil {
			return err
		}
		if _, err := p.call(ctx, http.MethodPost, v.BaseURL+"/validator/miner-task-batches/batch", body); err != nil {
			return err
		}
		v.State, v.Error, v.At = deliveryAccepted, "", p.cfg.Now().UTC()
		return nil
	}
	raw, err := p.call(ctx, http.MethodGet, v.BaseURL+"/validator/miner-task-batches/"+b.BatchID+"/progress", nil)
	if err != nil {
		return err
	}
	var in struct {
		Total, Completed int
		Results          []json.RawMessage `json:"miner_task_results"`
	}
	if err := json.Unmarshal(raw, &in); err != nil {
		return errors.New("its progress is not what it should be")
	}
	v.Completed, v.At, v.Error = in.Completed, p.cfg.Now().UTC(), ""
	if len(in.Results) == 0 {
		return nil
	}
	list, err := readGrades(b, in.Results)
	if err != nil {
		v.State, v.Error = deliveryRefused, err.Error()
		return nil //nolint:nilerror // it stands in the delivery
	}
	if err := p.dir.Put(gradesName(b.BatchID, v.Hotkey), list); err != nil {
		return err
	}
	v.State = deliveryGraded
	return nil
}

// readGrades reads what a validator says of a batch: each script on each claim once,
// with scores that a grade can have. A row that the validator could not play for its
// own fault spoils the whole.
func readGrades(b Batch, rows []json.RawMessage) ([]grade, error) {
	if len(rows) != total(b) {
		return nil, fmt.Errorf("%d grades, want %d", len(rows), total(b))
	}
	want := map[[2]string]bool{}
	for _, c := range b.Candidates {
		for _, cl := range b.Claims {
			want[[2]string{c.ArtifactID, cl.ClaimID}] = true
		}
	}
	out := make([]grade, 0, len(rows))
	for i, raw := range rows {
		var in struct {
			Evaluation struct {
				ArtifactID    string `json:"artifact_id"`
				ClaimID       string `json:"claim_id"`
				Verdict       int
				Justification string
				Citations     []Citation
			} `json:"criterion_evaluation"`
			Score struct {
				Verdict   float64 `json:"verdict_score"`
				Support   float64 `json:"support_score"`
				Rationale *string `json:"grader_rationale"`
				Code      *string `json:"error_code"`
				Message   *string `json:"error_message"`
			}
			Usage struct {
				Search float64 `json:"search_tool_cost"`
				LLM    float64 `json:"llm_cost"`
			} `json:"total_tool_usage"`
		}
		if err := json.Unmarshal(raw, &in); err != nil {
			return nil, fmt.Errorf("grade %d is not what it should be", i)
		}
		e, s := in.Evaluation, in.Score
		at := [2]string{e.ArtifactID, e.ClaimID}
		cost := in.Usage.Search + in.Usage.LLM
		switch {
		case !want[at]:
			return nil, fmt.Errorf("grade %d is of a pair that the batch has not, or has graded already", i)
		case s.Verdict != 0 && s.Verdict != 0.5 || s.Support != 0 && s.Support != 0.5 || s.Support > s.Verdict:
			return nil, fmt.Errorf("grade %d: %v and %v cannot be", i, s.Verdict, s.Support)
		case !(cost >= 0) || math.IsInf(cost, 0):
			return nil, fmt.Errorf("grade %d: its cost is not a number to count with", i)
		}
		delete(want, at)
		g := grade{e.ArtifactID, e.ClaimID, e.Verdict, e.Justification, e.Citations, s.Verdict, s.Support, deref(s.Rationale), deref(s.Code), deref(s.Message), cost, nil, nil}
		if g.ErrorCode == CodeStart {
			return nil, fmt.Errorf("it could not play: %s", g.ErrorCode)
		}
		out = append(out, g)
	}
	return out, nil
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// settle ends a batch: medians over the validators that count, and who sits then.
func (p *Platform) settle(b Batch, d *drive, now time.Time) error {
	d.Ended = &now
	if len(b.Candidates) == 0 {
		return nil
	}
	var cells []roster.GridCell
	said := map[int][]grade{}
	for i, v := range d.Deliveries {
		if v.State != deliveryGraded {
			continue
		}
		var list []grade
		if ok, err := p.dir.Get(gradesName(b.BatchID, v.Hotkey), &list); err != nil || !ok {
			return fmt.Errorf("read grades of %s: %w", v.Hotkey, cmpErr(err, "they are gone"))
		}
		said[i] = list
		for _, g := range list {
			cells = append(cells, roster.GridCell{Validator: v.Hotkey, Artifact: g.ArtifactID, Task: g.ClaimID, Score: g.score(), Cost: g.CostUSD, ElapsedMS: g.ElapsedMS})
		}
	}
	from, err := p.entrants(b)
	if err != nil {
		return err
	}
	grid, err := p.medians(d, cells, from)
	if errors.Is(err, roster.ErrQuorum) {
		d.Failed = fmt.Sprintf("%d of %d validators have graded it, and most must", len(said), len(d.Deliveries))
		return nil
	}
	if err != nil {
		return err
	}
	d.Grid = &gradedGrid{Totals: map[string]float64{}, Costs: map[string]float64{}, Scores: map[string]map[string]float64{}}
	for _, r := range grid.Rows {
		d.Grid.Totals[r.Artifact], d.Grid.Costs[r.Artifact] = r.Total/float64(len(grid.Tasks)), r.Cost
		d.Grid.Scores[r.Artifact] = map[string]float64{}
		for i, t := range grid.Tasks {
			d.Grid.Scores[r.Artifact][t] = r.Vector[i]
		}
	}
	for i, list := range said {
		for _, g := range list {
			if g.score() != d.Grid.Scores[g.ArtifactID][g.ClaimID] {
				d.Deliveries[i].Differs++
			}
		}
	}
	d.Late = nil
	for _, c := range b.Candidates {
		if d.Handed != nil && from[c.ArtifactID].at.After(*d.Handed) {
			d.Late = append(d.Late, c.ArtifactID)
		}
	}
	switch {
	case p.pulls():
		return p.crown(b, d, grid)
	case d.Trial != "":
		return nil
	}
	return p.seat(b, d)
}

// place is one of the roster that batches have made.
type place struct {
	ArtifactID string  `json:"artifact_id"`
	Hotkey     string  `json:"hotkey"`
	Score      float64 `json:"score"` // in the batch in which it entered
	BatchID    string  `json:"batch_id"`
}

const rosterName = "roster"

// places reads that roster, the first first; nil before any batch.
func (p *Platform) places() (out []place, err error) {
	_, err = p.dir.Get(rosterName, &out)
	return out, err
}

// seat lets the best script of a batch enter, if it beats the first in the same batch.
func (p *Platform) seat(b Batch, d *drive) error {
	now, err := p.places()
	if err != nil {
		return err
	}
	if len(now) > 0 && now[0].BatchID == b.BatchID {
		d.Entered = now[0].ArtifactID // the platform was stopped between the two files
		return nil
	}
	var first *float64
	if len(now) > 0 {
		if s, ok := d.Grid.Totals[now[0].ArtifactID]; ok {
			first = &s
		} else {
			first = &now[0].Score // its miner has left; what it had is still to be beaten
		}
	}
	best := -1
	for i, c := range b.Candidates {
		if len(now) > 0 && c.ArtifactID == now[0].ArtifactID || slices.Contains(d.Late, c.ArtifactID) {
			continue
		}
		if s := d.Grid.Totals[c.ArtifactID]; s > 0 && (best < 0 || s > d.Grid.Totals[b.Candidates[best].ArtifactID]) {
			best = i
		}
	}
	if best < 0 {
		return nil
	}
	c := b.Candidates[best]
	score := d.Grid.Totals[c.ArtifactID]
	if _, enters := roster.Enters(score, first, p.cfg.Driver.Margin); !enters {
		return nil
	}
	s, err := p.cfg.Arenas.Submission(context.Background(), operator, c.ArtifactID)
	if err != nil {
		return err
	}
	d.Entered = c.ArtifactID
	owner, err := p.coldkey(s.Miner)
	if err != nil {
		return err
	}
	next := []place{{c.ArtifactID, s.Miner, score, b.BatchID}}
	for _, x := range now {
		cold, err := p.coldkey(x.Hotkey)
		if err != nil {
			return err
		}
		own := x.Hotkey == s.Miner || cold != "" && cold == owner && !p.cfg.Driver.SameColdkey
		if !own && len(next) < roster.Places {
			next = append(next, x)
		}
	}
	return p.dir.Put(rosterName, next)
}

// caller is the client that validators are asked with.
func (d Driver) client() *http.Client {
	dial := &net.Dialer{Timeout: 10 * time.Second}
	if !d.Private {
		dial.Control = func(_, address string, _ syscall.RawConn) error {
			at, err := netip.ParseAddrPort(address)
			if err != nil || !fetch.Public(at.Addr().Unmap()) {
				return errors.New("the address is a private one")
			}
			return nil
		}
	}
	return &http.Client{
		Timeout:       time.Minute,
		Transport:     &http.Transport{Proxy: nil, DialContext: dial.DialContext, TLSHandshakeTimeout: 10 * time.Second, MaxResponseHeaderBytes: 64 << 10, IdleConnTimeout: time.Minute},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // a signature is for one address
	}
}

// call sends one signed request and returns the body of a 200.
func (p *Platform) call(ctx context.Context, method, address string, body []byte) ([]byte, error) {
	return p.callWith(ctx, p.client, method, address, body)
}

func (p *Platform) callWith(ctx context.Context, client *http.Client, method, address string, body []byte) ([]byte, error) {
	if p.cfg.Driver.Key == nil {
		return nil, errors.New("there is no key of the subnet's owner here")
	}
	u, err := url.Parse(address)
	if err != nil {
		return nil, errors.New("its address is none")
	}
	sig, err := p.cfg.Driver.Key.Sign(signin.Message(method, u.RequestURI(), body))
	if err != nil {
		return nil, fmt.Errorf("sign request: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", fmt.Sprintf(`Bittensor ss58="%s",sig="%s"`, p.cfg.Driver.Key.SS58(), hex.EncodeToString(sig)))
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, errors.New("it cannot be reached") // the error's text quotes what a stranger named
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("it answers %d", resp.StatusCode)
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxProgress+1))
	if err != nil || len(b) > maxProgress {
		return nil, errors.New("its answer could not be read")
	}
	return b, nil
}

// maxProgress bounds a validator's results.
const maxProgress = 256 << 20
