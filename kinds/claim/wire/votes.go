package wire

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"sync"
	"testing/fstest"
	"time"

	"github.com/agon-arena/agon/engine/copycat"
	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/kinds/claim/query"
)

// Before a batch of the query era is played, each new script is compared with the one
// before it that it is most like: every validator says how much of it is new. What most
// call a duplicate is not played; for the others it decides how much they are paid.

// ballot is what was said of a script.
type ballot struct {
	Reference string          `json:"reference,omitempty"` // artifact; "": there was none, and it is novel
	Votes     map[string]vote `json:"votes,omitempty"`     // by hotkey of the validator
	Outcome   string          `json:"outcome"`             // pass, fail or undecided
	Class     string          `json:"class,omitempty"`     // of a pass
}

type vote struct {
	Class string `json:"class,omitempty"`
	Error string `json:"error,omitempty"`
}

// voteTime bounds the judging of one script by one validator, which may ask four models.
const voteTime = 6 * time.Minute

// maxFormer is how many former champions scripts are compared with.
const maxFormer = 10

// voteRounds is how often a validator that did not answer is asked, a step apart.
const voteRounds = 5

// prepare gets a batch's scripts compared, once, and opens its work.
func (p *Platform) prepare(ctx context.Context, b *Batch, d *drive) (ready bool, err error) {
	if !d.Compared {
		over, err := p.compare(ctx, *b, d)
		if err != nil {
			return false, err
		}
		if over {
			b.Candidates = slices.DeleteFunc(b.Candidates, func(c Candidate) bool { return d.Votes[c.ArtifactID] != nil && d.Votes[c.ArtifactID].Outcome == "fail" })
			if err := p.dir.Put(batchName(b.BatchID), *b); err != nil {
				return false, err
			}
		}
		d.Compared = over
		if err := p.dir.Put(driveName(b.BatchID), *d); err != nil || !over {
			return false, err
		}
	}
	p.work.mu.Lock()
	defer p.work.mu.Unlock()
	_, err = p.openBoard(*b, d)
	return err == nil, err
}

// compare lets the validators of a batch compare its scripts with earlier ones. over is
// false while it is worth asking somebody again.
func (p *Platform) compare(ctx context.Context, b Batch, d *drive) (over bool, err error) {
	asked, err := p.ballots(ctx, b)
	if err != nil {
		return false, err
	}
	if d.Votes == nil {
		d.Votes = map[string]*ballot{}
	}
	d.Rounds++
	from, err := p.entrants(b)
	if err != nil {
		return false, err
	}
	kin, err := p.kinOf(d, from)
	if err != nil {
		return false, err
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	missing := false
	for id, q := range asked {
		x := d.Votes[id]
		if x == nil {
			x = &ballot{Reference: q.reference, Votes: map[string]vote{}, Outcome: "pass", Class: query.Novel}
			d.Votes[id] = x
		}
		if q.reference == "" {
			continue
		}
		for _, v := range d.Deliveries {
			if x.Votes[v.Hotkey].Class != "" || kin(v.Hotkey, id) {
				continue
			}
			wg.Go(func() {
				said := p.askVote(ctx, v.BaseURL+"/validator/miner-task-batches/"+b.BatchID+"/similarity", q.body)
				mu.Lock()
				x.Votes[v.Hotkey] = said
				missing = missing || said.Class == ""
				mu.Unlock()
			})
		}
	}
	wg.Wait()
	if ctx.Err() != nil {
		return false, ctx.Err() // whoever was not asked has not voted
	}
	if missing && d.Rounds < voteRounds {
		return false, nil
	}
	for id, x := range d.Votes {
		asked := 0
		for _, v := range d.Deliveries {
			if !kin(v.Hotkey, id) {
				asked++
			}
		}
		if err := x.count(asked); err != nil {
			return false, err
		}
	}
	return true, nil
}

// count says what the votes come to. Most of those who were asked must have answered: else
// one that lies would decide alone wherever the others have no judge.
func (x *ballot) count(asked int) error {
	if x.Reference == "" {
		return nil
	}
	var classes []string
	for _, v := range x.Votes {
		if v.Class != "" {
			classes = append(classes, v.Class)
		}
	}
	if 2*len(classes) <= asked {
		classes = nil
	}
	t, err := query.Vote(classes)
	if err != nil {
		return err
	}
	if x.Outcome, x.Class = t.Outcome, ""; t.Class != nil {
		x.Class = *t.Class
	}
	return nil
}

// voteQuestion is what validators are asked of a script.
type voteQuestion struct {
	reference string // artifact; "": there is none
	body      []byte
}

// ballots are the questions on a batch's scripts, but for the one that sits.
func (p *Platform) ballots(ctx context.Context, b Batch) (map[string]voteQuestion, error) {
	earlier, err := p.references(ctx, b)
	if err != nil {
		return nil, err
	}
	sits, err := p.champion()
	if err != nil {
		return nil, err
	}
	out := map[string]voteQuestion{}
	for _, c := range b.Candidates {
		if sits != nil && c.ArtifactID == sits.ArtifactID {
			continue
		}
		script, err := p.script(ctx, operator, c.ArtifactID)
		if err != nil {
			return nil, err
		}
		ref := nearest(script, c.Hotkey, earlier)
		earlier = append(earlier, reference{c.ArtifactID, c.Hotkey, c.UID, script}) // the next ones of this batch may be like it
		if ref == nil {
			out[c.ArtifactID] = voteQuestion{}
			continue
		}
		diff, err := task.FileDiff(scriptName, ref.script, script)
		if err != nil {
			return nil, err
		}
		body, err := json.Marshal(map[string]any{
			"candidate_artifact_id": c.ArtifactID, "candidate_diff": string(diff), "candidate_miner_uid": c.UID,
			"incumbent_artifact_id": ref.artifact, "incumbent_miner_uid": ref.uid, "incumbent_script": string(ref.script),
		})
		if err != nil {
			return nil, err
		}
		out[c.ArtifactID] = voteQuestion{ref.artifact, body}
	}
	return out, nil
}

func (p *Platform) askVote(ctx context.Context, address string, body []byte) vote {
	ctx, cancel := context.WithTimeout(ctx, voteTime)
	defer cancel()
	raw, err := p.callWith(ctx, p.voters, http.MethodPost, address, body)
	if err != nil {
		return vote{Error: err.Error()}
	}
	var in struct {
		Class string `json:"classification"`
	}
	if json.Unmarshal(raw, &in) != nil || !slices.Contains([]string{query.Duplicate, query.NearDuplicate, query.NotableChange, query.Novel}, in.Class) {
		return vote{Error: "its answer is not what it should be"}
	}
	return vote{Class: in.Class}
}

// reference is a script that others are compared with.
type reference struct {
	artifact, hotkey string
	uid              int
	script           []byte
}

// references are the former champions and the scripts of the two batches before.
func (p *Platform) references(ctx context.Context, b Batch) ([]reference, error) {
	var out []reference
	add := func(artifact, hotkey string, uid int) error {
		if slices.ContainsFunc(out, func(r reference) bool { return r.artifact == artifact }) {
			return nil
		}
		s, err := p.script(ctx, operator, artifact)
		if err != nil {
			return err
		}
		out = append(out, reference{artifact, hotkey, uid, s})
		return nil
	}
	former, err := p.former()
	if err != nil {
		return nil, err
	}
	for _, x := range former {
		uid, _, err := p.uid(ctx, x.Hotkey)
		if err == nil {
			err = add(x.ArtifactID, x.Hotkey, uid)
		}
		if err != nil {
			return nil, err
		}
	}
	list, err := p.batches(ctx)
	if err != nil {
		return nil, err
	}
	n := 0
	for _, x := range list {
		if x.Status != "completed" || x.BatchID == b.BatchID {
			continue
		}
		for _, c := range x.Candidates {
			if err := add(c.ArtifactID, c.Hotkey, c.UID); err != nil {
				return nil, err
			}
		}
		if n++; n == 2 {
			break
		}
	}
	return out, nil
}

// nearest is the reference of another hotkey that a script is most like; nil: there is none.
func nearest(script []byte, hotkey string, list []reference) *reference {
	sketch := func(b []byte) copycat.Sketch {
		s, err := copycat.SketchOf(fstest.MapFS{scriptName: {Data: b}})
		if err != nil {
			return copycat.Sketch{} // it cannot be read and is like nothing
		}
		return s
	}
	mine := sketch(script)
	best, most := -1, -1.0
	for i, r := range list {
		if r.hotkey == hotkey || string(r.script) == string(script) {
			continue
		}
		if _, like := copycat.Overlap(mine, sketch(r.script), nil); like > most {
			best, most = i, like
		}
	}
	if best < 0 {
		return nil
	}
	return &list[best]
}
