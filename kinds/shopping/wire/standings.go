package wire

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/seeds"
	"github.com/agon-arena/agon/kinds/shopping/play"
	"github.com/agon-arena/agon/ledger/timelock"
)

// What the newest SDK (7.0.2) added: standings that stay fixed for an epoch, the
// choice of a miner's race candidate, and counts of trajectories by day.

// epochLength is how long served standings stay as they are: a tempo of 360 blocks
// of 12 seconds. Epochs are counted from the Unix epoch, so that all servers agree.
const epochLength = 360 * 12 * time.Second

// pinnedDoc is the name of the document that holds the standings of an epoch.
const pinnedDoc = "epoch-standings"

// finisher is one seated entry, in the form from which the client builds weights.
type finisher struct {
	Hotkey  string  `json:"miner_hotkey"`
	Version string  `json:"agent_version_id"`
	Score   float64 `json:"race_score"`
}

// standings are what validators build their weights from.
type standings struct {
	Top       *string    `json:"top_hotkey"` // nil: the share of the first is burned
	Burn      float64    `json:"t_burn"`
	Finishers []finisher `json:"finishers"`
}

// pinned is the document of an epoch: it survives a restart.
type pinned struct {
	Arena     string    `json:"arena"`
	Epoch     int64     `json:"epoch"`
	Standings standings `json:"standings"`
}

// weightSalt is GET /v1/validator/weight-salt: the standings of the epoch, the same
// to every validator whenever it asks, and whether this one has worked for them. The
// client burns the reward where it has not: who only copies weights pays nobody.
func (b *Backend) weightSalt(w http.ResponseWriter, r *http.Request) {
	id, _, ok := b.signed(w, r, asValidator, maxBody)
	if !ok {
		return
	}
	a, ok := b.arena(w, r)
	if !ok {
		return
	}
	p, err := b.standingsOf(a)
	if err != nil {
		b.broken(w, "standings", err)
		return
	}
	eligible, err := b.worked(r.Context(), id.Hotkey)
	if err != nil {
		b.broken(w, "runs", err)
		return
	}
	reply(w, http.StatusOK, map[string]any{"epoch_index": p.Epoch, "eligible": eligible, "weight_overlay": map[string]any{}, "epoch_standings": p.Standings})
}

// standingsOf returns the standings of the present epoch. The first who asks in an
// epoch fixes them; a clock that goes back changes nothing.
func (b *Backend) standingsOf(a *client.Arena) (pinned, error) {
	b.pinning.Lock()
	defer b.pinning.Unlock()
	now := b.cfg.Now().Unix() / int64(epochLength.Seconds())
	var p pinned
	if ok, err := b.dir.Get(pinnedDoc, &p); err != nil {
		return p, err
	} else if ok && p.Arena == a.ID && p.Epoch >= now {
		return p, nil
	}
	p = pinned{Arena: a.ID, Epoch: now, Standings: standings{Burn: play.Race().Of(a.IncentiveNumbers)["t_burn"], Finishers: []finisher{}}}
	for i, s := range a.Seats {
		if i == 0 {
			p.Standings.Top = &s.Miner
		}
		p.Standings.Finishers = append(p.Standings.Finishers, finisher{s.Miner, versionID(s.Submission), s.Score})
	}
	return p, b.dir.Put(pinnedDoc, p)
}

// worked reports whether a validator has a result that counts among the newest 200
// scored runs. Who that is, is looked up once a minute for all.
func (b *Backend) worked(ctx context.Context, hotkey string) (bool, error) {
	doc, err := b.apart.Get("workers", func() ([]byte, error) {
		ctx := context.WithoutCancel(ctx) // others wait for it
		list, err := b.runsOf(ctx, "", string(agon.RunScored))
		if err != nil {
			return nil, err
		}
		workers := []string{}
		for _, x := range list {
			if x, err = b.attempts(ctx, x); err != nil {
				return nil, err
			}
			for _, t := range x.List {
				if t.Counted && !slices.Contains(workers, t.Validator) {
					workers = append(workers, t.Validator)
				}
			}
		}
		return json.Marshal(workers)
	})
	if err != nil {
		return false, err
	}
	var workers []string
	if err := json.Unmarshal(doc.Bytes(), &workers); err != nil {
		return false, err
	}
	return slices.Contains(workers, hotkey), nil
}

// trajectoryDay counts the pairs of version and problem that were first scored on a day.
type trajectoryDay struct {
	Date       string `json:"date"`
	Distinct   int    `json:"distinct"`
	Cumulative int    `json:"cumulative"`
}

// trajectories is GET /v1/public/trajectories/history, worked out once a minute.
func (b *Backend) trajectories(w http.ResponseWriter, r *http.Request) {
	doc, err := b.apart.Get("trajectories", func() ([]byte, error) {
		first, whole, err := b.firstScored(context.WithoutCancel(r.Context())) // others wait for it
		if err != nil {
			return nil, err
		}
		return json.Marshal(historyOf(first, whole, b.cfg.Now()))
	})
	if err != nil {
		b.broken(w, "runs", err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	doc.Write(w, r, http.StatusOK)
}

// pair is one problem as one version played it.
type pair struct{ submission, task string }

// firstScored finds when each pair was first scored, in the newest scanPages pages of
// runs; whole is false where there are more.
func (b *Backend) firstScored(ctx context.Context) (first map[pair]time.Time, whole bool, err error) {
	first = map[pair]time.Time{}
	cursor := ""
	for range scanPages {
		page, err := b.cfg.Platform.Runs(ctx, operator, b.cfg.Arena, "", string(agon.RunScored), cursor, 200)
		if err != nil {
			return nil, false, err
		}
		for _, x := range page.Items {
			for _, s := range x.Scores {
				p := pair{x.Submission, s.Task}
				if at, ok := first[p]; !ok || x.EndedAt.Before(at) {
					first[p] = x.EndedAt
				}
			}
		}
		if cursor = page.Next; cursor == "" {
			return first, true, nil
		}
	}
	return first, false, nil
}

// historyOf counts pairs by day (UTC). Where not all runs were read the total is null,
// as the client allows, and the running totals begin with the oldest that was.
func historyOf(first map[pair]time.Time, whole bool, now time.Time) map[string]any {
	const form = time.DateOnly
	days := map[string]int{}
	for _, at := range first {
		days[at.UTC().Format(form)]++
	}
	series := []trajectoryDay{}
	total, week := 0, 0
	today := now.UTC().Truncate(24 * time.Hour)
	for _, d := range slices.Sorted(maps.Keys(days)) {
		total += days[d]
		series = append(series, trajectoryDay{d, days[d], total})
		if at, err := time.Parse(form, d); err == nil && at.Before(today) && !at.Before(today.AddDate(0, 0, -7)) {
			week += days[d]
		}
	}
	out := map[string]any{"series": series, "total": nil, "daily_rate": days[today.AddDate(0, 0, -1).Format(form)], "weekly_rate": week, "updated_at": stamp(now)}
	if whole {
		out["total"] = total
	}
	return out
}

// raceSelection is PUT and DELETE /v1/miner/race-selection. Every version that
// qualifies races here, so there is nothing to choose: a version of the caller's is
// refused as locked, and none is ever selected.
func (b *Backend) raceSelection(w http.ResponseWriter, r *http.Request) {
	id, body, ok := b.signed(w, r, asMiner, maxBody)
	if !ok {
		return
	}
	if r.Method == http.MethodDelete {
		refuse(w, http.StatusNotFound, "NO_SELECTION", "Nothing is selected: every version that qualifies races")
		return
	}
	var in struct {
		Version string `json:"agent_version_id"`
	}
	if !decode(w, body, &in) {
		return
	}
	r.SetPathValue("id", in.Version)
	s, _, ok := b.byVersion(w, r)
	switch {
	case !ok:
	case s.Miner != id.Hotkey:
		refuse(w, http.StatusForbidden, "NOT_VERSION_OWNER", "You have no such agent version")
	default:
		refuse(w, http.StatusConflict, "RACE_LOCKED", "Every version that qualifies races; none can be selected")
	}
}

// seedCommitment is how the problems of a race were drawn: by a secret that was committed
// to, and a round of drand that came after. A race that was drawn without drand is refused
// in the words that the client knows.
func (b *Backend) seedCommitment(w http.ResponseWriter, r *http.Request) {
	a, x, _, ok := b.raceByID(w, r)
	if !ok {
		return
	}
	list, err := b.cfg.Platform.Seeds(r.Context(), a.ID)
	if err != nil {
		b.broken(w, "seeds", err)
		return
	}
	i := slices.IndexFunc(list, func(s client.SeedPeriod) bool {
		return s.Period+1 == x.number() && s.Drand != nil && s.CommittedAt != nil
	})
	if i < 0 {
		refuse(w, http.StatusNotFound, "RACE_NOT_FOUND", "This race has no drand commitment; its seeds are committed to at /v1/arenas/%s/seeds", a.ID)
		return
	}
	s := list[i]
	out := map[string]any{
		"race_id": raceID(a, x.number()), "scheme": "agon-world/1", "secret_sha256": s.Commitment.Hex(), "committed_at": stamp(*s.CommittedAt),
		"drand_chain_hash": timelock.ChainHash, "drand_offset_seconds": int(agon.DrandOffset.Seconds()), "drand_round": s.Drand.Round,
		"drand_round_time": stamp(timelock.TimeOf(s.Drand.Round)), "drand_signature": s.Drand.Signature, "drand_randomness": s.Drand.Randomness,
		"revealed": s.Secret != "", "secret": nil, "world_seed": nil, "world_pack_sha256": nil, "rejected_attempts": []any{},
	}
	if s.Secret != "" {
		randomness, err := hex.DecodeString(s.Drand.Randomness)
		if err != nil {
			b.broken(w, "seeds", err)
			return
		}
		world, err := seeds.World(s.Secret, randomness)
		if err != nil {
			b.broken(w, "seeds", err)
			return
		}
		out["secret"], out["world_seed"] = s.Secret, world
	}
	reply(w, http.StatusOK, out)
}

// feedback answers for episodes of environment packs, which this server has none of.
func (b *Backend) feedback(w http.ResponseWriter, _ *http.Request) {
	refuse(w, http.StatusNotFound, "ARTIFACT_NOT_FOUND", "There is no such episode; results stand at /v1/public/agent-versions/ID/problems")
}

// noPack answers a validator that asks for an environment pack: work of this server
// names none, and is played from its problems.
func (b *Backend) noPack(w http.ResponseWriter, r *http.Request) {
	if _, _, ok := b.signed(w, r, asValidator, maxBody); ok {
		reply(w, http.StatusNotFound, map[string]string{"detail": "There is no environment pack; the run's problems are at /v1/validator/evaluation-runs/ID/problems"})
	}
}
