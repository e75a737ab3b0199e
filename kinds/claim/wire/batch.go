package wire

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/google/uuid"
)

func batchName(id string) string { return "batch-" + id }

// batchRequest asks for a batch.
type batchRequest struct {
	BatchID  *string `json:"batch_id"`
	Champion *int    `json:"champion_uid"`
	Sitting  *string `json:"champion_artifact_id"` // of the query era; who sits is who sits
	Override *struct {
		Entrypoint string  `json:"entrypoint"`
		Claims     []Claim `json:"claims"`
	} `json:"override_miner_task_dataset"`
	Reuse bool `json:"use_previous_task_dataset"`
}

// createBatch is POST /v1/miner-task-batches/batch.
func (p *Platform) createBatch(w http.ResponseWriter, r *http.Request) {
	caller, body, owner, ok := p.batcher(w, r)
	if !ok {
		return
	}
	var in batchRequest
	if !decode(w, body, true, &in) {
		return
	}
	id := uuid.NewString()
	if in.BatchID != nil {
		u, err := uuid.Parse(*in.BatchID)
		if err != nil {
			invalid(w, "uuid_parsing", "Input should be a valid UUID", "batch_id")
			return
		}
		id = u.String()
	}
	// Freezing looks at what is there and writes: one at a time.
	p.freeze.Lock()
	defer p.freeze.Unlock()
	var old Batch
	if was, err := p.dir.Get(batchName(id), &old); err != nil {
		p.broken(w, "create batch", err)
		return
	} else if was {
		if p.mayRead(w, r, caller.Hotkey, old) {
			reply(w, http.StatusOK, p.shown(r.Context(), old)) // a repeated request changes nothing
		}
		return
	}
	earlier, err := p.batches(r.Context())
	if err != nil {
		p.broken(w, "create batch", err)
		return
	}
	if i := slices.IndexFunc(earlier, func(b Batch) bool { return b.Status == "running" }); i >= 0 {
		refuse(w, http.StatusConflict, "batch_running", "batch %s is running", earlier[i].BatchID)
		return
	}
	driven, few, err := p.begin(r.Context(), owner)
	if err != nil {
		p.broken(w, "create batch", err)
		return
	}
	if few != "" {
		refuse(w, http.StatusConflict, "no_validators", "%s", few)
		return
	}
	if (in.Override != nil || p.pulls()) && driven == nil {
		refuse(w, http.StatusConflict, "no_validators", "such a batch is played by registered validators, and none that has been heard of lately is there")
		return
	}
	now := p.cfg.Now().UTC()
	b := Batch{BatchID: id, Entrypoint: Entrypoint, CutoffAt: now, CreatedAt: now, Status: "running", ChampionUID: in.Champion}
	if !p.fill(w, r, &b, in, earlier) {
		return
	}
	if b.Candidates, err = p.candidates(r.Context(), p.since(earlier), now); err != nil {
		p.broken(w, "create batch", err)
		return
	}
	if b.Candidates == nil {
		b.Candidates = []Candidate{}
	}
	if !p.fair(w, r, driven, b, in, caller, owner, earlier) {
		return
	}
	if b.ChampionUID == nil {
		b.ChampionUID = p.championUID(r.Context())
	}
	// Whose it is comes first: a batch without an owner is refused.
	who, err := p.registered()
	if err == nil {
		err = p.dir.Put(assignedName(id), append(who, caller.Hotkey))
	}
	if err == nil && driven != nil {
		err = p.dir.Put(driveName(id), *driven)
	}
	if err == nil {
		err = p.dir.Put(batchName(id), b)
	}
	if err == nil && p.pulls() {
		err = p.begun(b, driven)
	}
	if err != nil {
		p.broken(w, "create batch", err)
		return
	}
	if p.pulls() {
		reply(w, http.StatusAccepted, map[string]string{"batch_id": b.BatchID})
		return
	}
	reply(w, http.StatusOK, p.shown(r.Context(), b))
}

// fill gives a batch its claims or tasks: those of the request, those of the newest
// earlier batch, or the arena's. ok is false when it has answered.
func (p *Platform) fill(w http.ResponseWriter, r *http.Request, b *Batch, in batchRequest, earlier []Batch) (ok bool) {
	var err error
	switch {
	case p.pulls() && in.Override != nil:
		invalid(w, "extra_forbidden", "Extra inputs are not permitted", "override_miner_task_dataset")
		return false
	case in.Override != nil:
		b.Claims = in.Override.Claims
		if e := in.Override.Entrypoint; e != "" && e != Entrypoint {
			invalid(w, "value_error", "entrypoint: want "+Entrypoint, "override_miner_task_dataset", "entrypoint")
			return false
		}
	case in.Reuse && len(earlier) > 0:
		b.Claims, b.Tasks = earlier[0].Claims, earlier[0].Tasks // the newest comes first
	case p.pulls():
		b.Tasks, err = p.cfg.Work.Queries(r.Context())
	default:
		b.Claims, err = p.cfg.Claims(r.Context())
	}
	if err != nil {
		p.broken(w, "create batch", err)
		return false
	}
	if p.pulls() {
		b.Entrypoint = QueryEntrypoint
	}
	if n := len(b.Claims) + len(b.Tasks); n == 0 || n > maxClaims {
		invalid(w, "value_error", fmt.Sprintf("want 1 to %d claims", maxClaims), "claims")
		return false
	}
	for i := range b.Claims {
		if err := b.Claims[i].check(); err != nil {
			invalid(w, "value_error", err.Error(), "override_miner_task_dataset", "claims", i)
			return false
		}
	}
	return true
}

func assignedName(id string) string { return "assigned-" + id }
