package wire

import (
	"context"
	"crypto/sha256"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/agon-arena/agon/auth/dialect"
	"github.com/agon-arena/agon/kinds/claim/roster"
)

// A batch moves money, and those who play it read its reference answers. So a validator
// seats nobody by claims that it has named itself, its grades and votes on scripts of its
// own coldkey are left out, and a script that came after a claim was first handed out is
// not seated by it: its miner may have been told the answer.

// batcher reads a request for a batch: of a validator, or of who owns the subnet. ok is
// false when it has answered.
func (p *Platform) batcher(w http.ResponseWriter, r *http.Request) (id dialect.Identity, body []byte, owner, ok bool) {
	key := p.cfg.Driver.Key
	if key == nil || !strings.Contains(r.Header.Get("Authorization"), `ss58="`+key.SS58()+`"`) {
		id, body, ok = p.validator(w, r, maxBatch)
		return id, body, false, ok
	}
	if id, body, ok = signed(w, r, p.cfg.Verifier, dialect.Need{}, maxBatch); ok && id.Hotkey != key.SS58() {
		refuse(w, http.StatusForbidden, "not_a_validator", "the request names another hotkey than it is signed by")
		return id, nil, false, false
	}
	return id, body, ok, ok
}

// fair binds a batch that is about to be made, or answers why it is not made.
func (p *Platform) fair(w http.ResponseWriter, r *http.Request, d *drive, b Batch, in batchRequest, caller dialect.Identity, owner bool, earlier []Batch) bool {
	err := p.bound(r.Context(), d, b, in, owner, earlier)
	why := ""
	if err == nil {
		why, err = p.idle(d, b, caller, owner, earlier)
	}
	switch {
	case err != nil:
		p.broken(w, "create batch", err)
	case why != "":
		refuse(w, http.StatusConflict, "nothing_new", "%s", why)
	}
	return err == nil && why == ""
}

// bound says of a batch that is about to be made whom it may seat.
func (p *Platform) bound(ctx context.Context, d *drive, b Batch, in batchRequest, owner bool, earlier []Batch) (err error) {
	if d == nil {
		return nil
	}
	if !owner {
		switch {
		case in.Override != nil:
			d.Trial = "its claims were named by a validator, who may have told their answers: nobody is seated by it"
		case in.Reuse && len(earlier) > 0:
			was, _, err := p.driven(earlier[0].BatchID)
			if err != nil {
				return err
			}
			d.Trial = was.Trial
		}
	}
	d.Handed, err = p.handed(ctx, b, earlier)
	return err
}

// idle says why a validator's batch would only cost the others money: the same scripts on
// the same claims were graded before, or it has had claims of its own tried within a day.
func (p *Platform) idle(d *drive, b Batch, caller dialect.Identity, owner bool, earlier []Batch) (why string, err error) {
	if d == nil || owner {
		return "", nil
	}
	if d.By, err = p.coldkey(caller.Hotkey); err != nil {
		return "", err
	}
	for _, e := range earlier {
		was, ok, err := p.driven(e.BatchID)
		switch {
		case err != nil:
			return "", err
		case !ok || e.Status != "completed":
		case d.Trial != "" && was.Trial != "" && was.By == d.By && b.CreatedAt.Sub(e.CreatedAt) < trialEvery:
			return "a validator may name claims once in " + trialEvery.String() + ", the subnet's owner at any time", nil
		case d.Trial == "" && sameSet(b.texts(), e.texts()) && sameSet(artifacts(b), artifacts(e)):
			return "batch " + e.BatchID + " has graded the same scripts on the same claims", nil
		}
	}
	return "", nil
}

// trialEvery is how often a validator may have claims of its own played by all.
const trialEvery = 24 * time.Hour

func artifacts(b Batch) (out []string) {
	for _, c := range b.Candidates {
		out = append(out, c.ArtifactID)
	}
	return out
}

// sameSet compares lists of things that are different.
func sameSet[T comparable](a, b []T) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(x T) bool { return !slices.Contains(b, x) })
}

// handed is when a claim of a batch, which is not public, was first given to validators;
// nil: it was never.
func (p *Platform) handed(ctx context.Context, b Batch, earlier []Batch) (*time.Time, error) {
	public, err := p.public(ctx)
	if err != nil {
		return nil, err
	}
	secret := slices.DeleteFunc(b.texts(), func(x [32]byte) bool { return public[x] })
	var first *time.Time
	for _, e := range earlier {
		if (first == nil || e.CreatedAt.Before(*first)) && slices.ContainsFunc(e.texts(), func(x [32]byte) bool { return slices.Contains(secret, x) }) {
			first = &e.CreatedAt
		}
	}
	return first, nil
}

// texts are what a batch asks, whatever ids it gives it.
func (b Batch) texts() (out [][32]byte) {
	for _, c := range b.Claims {
		out = append(out, sha256.Sum256([]byte(c.Text)))
	}
	for _, t := range b.Tasks {
		out = append(out, sha256.Sum256(t.Query))
	}
	return out
}

// public are the claims of the arena that everybody may read anyhow. A hidden set that never
// changes is taken as one: after its first batch nobody could ever be seated by it.
func (p *Platform) public(ctx context.Context) (map[[32]byte]bool, error) {
	hidden := map[string]bool{}
	a, err := p.cfg.Arenas.Arena(ctx, p.cfg.Arena)
	if err != nil {
		return nil, err
	}
	if p.cfg.Hidden != nil && a.Period != nil {
		if hidden, err = p.cfg.Hidden(ctx); err != nil {
			return nil, err
		}
	}
	var all Batch
	if p.pulls() {
		if all.Tasks, err = p.cfg.Work.Queries(ctx); err != nil {
			return nil, err
		}
		all.Tasks = slices.DeleteFunc(all.Tasks, func(t QueryTask) bool { return hidden[t.TaskID] })
	} else {
		if all.Claims, err = p.cfg.Claims(ctx); err != nil {
			return nil, err
		}
		all.Claims = slices.DeleteFunc(all.Claims, func(c Claim) bool { return hidden[c.ClaimID] })
	}
	out := map[[32]byte]bool{}
	for _, x := range all.texts() {
		out[x] = true
	}
	return out, nil
}

// entrant is whose a script of a batch is, and when it came.
type entrant struct {
	coldkey string // "": its miner has left
	at      time.Time
}

func (p *Platform) entrants(b Batch) (map[string]entrant, error) {
	out := map[string]entrant{}
	for _, c := range b.Candidates {
		s, err := p.cfg.Arenas.Submission(context.Background(), operator, c.ArtifactID)
		if err != nil {
			return nil, err
		}
		cold, err := p.coldkey(s.Miner)
		if err != nil {
			return nil, err
		}
		out[c.ArtifactID] = entrant{cold, s.CreatedAt}
	}
	return out, nil
}

func (p *Platform) coldkey(hotkey string) (string, error) {
	if p.cfg.Verifier.Members == nil {
		return "", nil
	}
	m, _, err := p.cfg.Verifier.Members.Member(context.Background(), hotkey)
	return m.Coldkey, err
}

// kinOf says whether a validator of a drive shares a coldkey with the miner of a script.
func (p *Platform) kinOf(d *drive, from map[string]entrant) (func(validator, artifact string) bool, error) {
	cold := map[string]string{}
	for _, v := range d.Deliveries {
		var err error
		if cold[v.Hotkey], err = p.coldkey(v.Hotkey); err != nil {
			return nil, err
		}
	}
	return func(validator, artifact string) bool {
		return cold[validator] != "" && cold[validator] == from[artifact].coldkey
	}, nil
}

// medians are those of a batch's grades: most validators must have graded it, and none
// has a say in what its own coldkey's scripts have. A script that nobody else has graded has 0.
func (p *Platform) medians(d *drive, cells []roster.GridCell, from map[string]entrant) (*roster.Grid, error) {
	grid, err := roster.Medians(cells, len(d.Deliveries)/2+1)
	if err != nil {
		return nil, err
	}
	kin, err := p.kinOf(d, from)
	if err != nil {
		return nil, err
	}
	own := map[string]int{}
	others := map[string][]roster.GridCell{}
	for _, c := range cells {
		if kin(c.Validator, c.Artifact) {
			own[c.Validator]++
			continue
		}
		others[c.Artifact] = append(others[c.Artifact], c)
	}
	for i := range d.Deliveries {
		d.Deliveries[i].Kin = own[d.Deliveries[i].Hotkey]
	}
	for i := range grid.Rows {
		row := &grid.Rows[i]
		if len(others[row.Artifact]) == 0 {
			row.Vector, row.Total = make([]float64, len(grid.Tasks)), 0
			continue
		}
		sub, err := roster.Medians(others[row.Artifact], 1)
		if err != nil {
			return nil, err
		}
		*row = sub.Rows[0]
	}
	return grid, nil
}
