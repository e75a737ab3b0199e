package wire

import (
	"cmp"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/agon-arena/agon"
)

// raoPerAlpha turns what the ledger counts into what readers print.
const raoPerAlpha = 1e9

// The first generation of reads: fields in camel case, numbers as numbers.

// with answers from a fresh snapshot.
func (b *Backend) with(w http.ResponseWriter, r *http.Request, what string) *snapshot {
	s, err := b.look(r.Context())
	if err != nil {
		b.broken(w, what, err)
		return nil
	}
	return s
}

func (b *Backend) validators(w http.ResponseWriter, r *http.Request) {
	if s := b.with(w, r, "validators"); s != nil {
		send(w, http.StatusOK, s.roster)
	}
}

type validatorRow struct {
	Hotkey   string         `json:"hotkey"`
	UID      *uint16        `json:"uid"`
	Stake    float64        `json:"stake"` // alpha
	Version  *string        `json:"version"`
	LastSeen *string        `json:"lastSeen"`
	LastSet  *string        `json:"lastSetWeightsAt"`
	LastEval *string        `json:"lastEvalAt"`
	Model    *string        `json:"llmModel"`
	Latest   map[string]any `json:"latestReport"`
	Bench    *string        `json:"benchVersion"`
	Targets  []uint16       `json:"weightTargets"`
	evals    bool
}

// validatorRows lists who holds a permit, played or reported; who evaluated
// last stands first, since readers that name no validator take the first.
func (b *Backend) validatorRows(s *snapshot) []*validatorRow {
	by := map[string]*validatorRow{}
	out := []*validatorRow{}
	row := func(hotkey string) *validatorRow {
		v := by[hotkey]
		if v == nil {
			v = &validatorRow{Hotkey: hotkey, Targets: []uint16{}}
			if n, ok := s.neurons[hotkey]; ok {
				v.UID, v.Stake = &n.UID, float64(n.Stake)/raoPerAlpha
			}
			by[hotkey], out = v, append(out, v)
		}
		return v
	}
	for _, n := range s.graph.Neurons {
		if n.Permit {
			row(n.Hotkey)
		}
	}
	seen := func(at **string, t time.Time) {
		if x := stamp(t); x != nil && (*at == nil || *x > **at) {
			*at = x
		}
	}
	for _, p := range s.players {
		v := row(p.Validator)
		seen(&v.LastSeen, p.SeenAt)
		v.Version = text(agon.Version) // it speaks agon's own wire
		v.Model = text(b.cfg.Model)
	}
	for _, rep := range s.reports { // newest first
		v := row(rep.validator)
		v.evals = true
		seen(&v.LastEval, rep.at)
		seen(&v.LastSeen, rep.at)
		if v.Latest == nil {
			v.Latest = map[string]any{"minerHotkey": rep.miner, "packHash": rep.hash, "qualified": rep.qualified, "costUsd": rep.cost, "score": rep.score, "createdAt": stamp(rep.at)}
		}
	}
	for _, e := range s.entries {
		for i := range e.plays {
			if p := &e.plays[i]; p.validator != "" && len(p.Scores) > 0 {
				if v := by[p.validator]; v != nil && v.Bench == nil {
					v.Bench = text(p.Scores[0].Scorer)
				}
			}
		}
	}
	for hotkey, h := range b.posts.beatsNow() {
		v := row(hotkey)
		seen(&v.LastSeen, h.Seen)
		seen(&v.LastEval, h.LastEval)
		if h.Version != "" {
			v.Version = text(h.Version)
		}
		if h.Model != "" {
			v.Model = text(h.Model)
		}
		if h.Bench != "" {
			v.Bench = text(h.Bench)
		}
	}
	for _, set := range s.graph.Weights {
		for _, v := range out {
			if v.UID == nil || *v.UID != set.UID {
				continue
			}
			v.LastSet = stamp(s.timeOf(set.Block))
			for i, uid := range set.UIDs {
				if i < len(set.Values) && set.Values[i] > 0 {
					v.Targets = append(v.Targets, uid)
				}
			}
		}
	}
	slices.SortStableFunc(out, func(x, y *validatorRow) int {
		return cmp.Or(cmp.Compare(bit(y.evals), bit(x.evals)), cmp.Compare(or(y.LastEval), or(x.LastEval)), cmp.Compare(y.Stake, x.Stake), cmp.Compare(x.Hotkey, y.Hotkey))
	})
	return out
}

func text(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func or(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func (b *Backend) scoresByValidator(w http.ResponseWriter, r *http.Request) {
	hotkey := r.URL.Query().Get("validator")
	if hotkey == "" {
		fail(w, http.StatusBadRequest, "validator query parameter is required")
		return
	}
	s := b.with(w, r, "scores")
	if s == nil {
		return
	}
	entries, seen := []any{}, map[string]bool{}
	for _, rep := range s.reports { // newest first: one line per miner
		if rep.validator != hotkey || s.at.Sub(rep.at) > 24*time.Hour || seen[rep.miner] {
			continue
		}
		seen[rep.miner] = true
		scores := map[string]any{}
		for _, sc := range rep.scenarios {
			scores[sc.Name] = map[string]any{"score": sc.Score, "cost": sc.Cost, "qualified": sc.Qualified}
		}
		entries = append(entries, map[string]any{
			"minerHotkey": rep.miner, "uid": s.uid(rep.miner), "qualified": rep.qualified, "costUsd": rep.cost, "score": rep.score, "weight": rep.weight,
			"scenarioScores": scores, "packHash": rep.hash, "blockHeight": rep.block, "createdAt": stamp(rep.at), "rejected": rep.rejected,
			"rejectionStage": rep.stage, "rejectionDetail": rep.detail, "llmModel": b.modelOf(rep),
		})
	}
	reply(w, http.StatusOK, map[string]any{"validator": hotkey, "entries": entries})
}

func (b *Backend) modelOf(r *report) *string {
	if r.model != nil {
		return r.model
	}
	return text(b.cfg.Model)
}

// shown is a validator's report of one pack.
func (r *report) shown() map[string]any {
	list := r.scenarios
	if list == nil {
		list = []scenario{}
	}
	return map[string]any{
		"hotkey": r.validator, "name": nil, "qualified": r.qualified, "costUsd": r.cost, "score": r.score, "blockHeight": r.block, "createdAt": stamp(r.at),
		"rejected": r.rejected, "rejectionStage": r.stage, "rejectionDetail": r.detail, "scenarios": list,
	}
}

// packURL is where a pack lies once the public may read it.
func (e *entry) packURL(base string) *string {
	if e.State != agon.SubmissionScored || e.pack.Hash == "" {
		return nil
	}
	u := base + "/api/packs/" + e.pack.Hash + ".json"
	return &u
}

func (b *Backend) miner(w http.ResponseWriter, r *http.Request) {
	s := b.with(w, r, "miner")
	if s == nil {
		return
	}
	hotkey := r.PathValue("hotkey")
	n, registered := s.neurons[hotkey]
	e := s.current(hotkey)
	if e == nil && !registered {
		fail(w, http.StatusNotFound, "Miner not found")
		return
	}
	base := b.base(r)
	out := map[string]any{
		"hotkey": hotkey, "ownerkey": nil, "uid": s.uid(hotkey), "rank": nil, "isBanned": false, "bannedUntil": nil, "banRecord": s.banRecord(hotkey), "qualified": false,
		"totalCostUsd": nil, "score": nil, "validatorCount": 0, "confidence": "low", "coverage": 0.0, "costDeviation": nil, "scoreDeviation": nil, "hasDivergence": false,
		"isActive": registered && e != nil && (e.open() || e.State == agon.SubmissionScored), "isBootstrap": false, "isWinner": false, "packHash": nil, "gcsPackUrl": nil,
		"commitBlock": nil, "scenarioSummary": []any{}, "validators": []any{}, "recentSubmissions": []any{},
	}
	if registered {
		out["ownerkey"] = n.Coldkey
	}
	if e != nil {
		s.describe(out, e, base)
	}
	recent := []any{}
	for _, x := range s.byMiner[hotkey] {
		if len(recent) == 5 {
			break
		}
		recent = append(recent, map[string]any{
			"packHash": text(x.pack.Hash), "gcsPackUrl": x.packURL(base), "qualified": x.status() == "passed", "totalCostUsd": x.meanCost(), "score": x.Score,
			"evalStatus": x.status(), "evalReason": text(x.reason()), "submittedAt": stamp(x.CreatedAt), "evaluatedAt": stamp(x.endedAt()),
		})
	}
	out["recentSubmissions"] = recent
	reply(w, http.StatusOK, out)
}

// describe fills in what a miner's current pack says of it.
func (s *snapshot) describe(out map[string]any, e *entry, base string) {
	out["ownerkey"] = e.Coldkey
	for i, x := range s.ranking() {
		if x == e {
			out["rank"] = i + 1
		}
	}
	out["qualified"], out["totalCostUsd"], out["score"] = e.status() == "passed", e.meanCost(), e.Score
	out["packHash"], out["gcsPackUrl"], out["commitBlock"] = text(e.pack.Hash), e.packURL(base), s.block(e.CreatedAt)
	seated := s.seated()
	out["isWinner"] = seated == e
	out["isBootstrap"] = seated != e && s.share(e.ID) > 0
	total := 0
	for _, n := range s.graph.Neurons {
		total += bit(n.Permit)
	}
	coverage := 0.0
	if n := len(e.reports); n > 0 {
		coverage = min(1, float64(n)/float64(max(total, 1)))
	}
	out["validatorCount"], out["coverage"] = len(e.reports), math.Round(coverage*1e4)/1e4
	switch {
	case coverage >= 2./3:
		out["confidence"] = "high"
	case coverage >= 1./3:
		out["confidence"] = "medium"
	}
	var costs, scores []float64
	rows := []any{}
	for _, rep := range e.reports {
		rows = append(rows, rep.shown())
		scores = append(scores, rep.score)
		if rep.cost != nil {
			costs = append(costs, *rep.cost)
		}
	}
	out["hasDivergence"] = e.divergent()
	out["validators"], out["costDeviation"], out["scoreDeviation"] = rows, deviation(costs), deviation(scores)
	out["scenarioSummary"] = e.summary()
}

// deviation is the standard deviation of what validators found; nil of none.
func deviation(list []float64) *float64 {
	if len(list) == 0 {
		return nil
	}
	mean, sum := 0.0, 0.0
	for _, x := range list {
		mean += x / float64(len(list))
	}
	for _, x := range list {
		sum += (x - mean) * (x - mean)
	}
	v := finite(math.Sqrt(sum / float64(len(list))))
	return &v
}

// summary is each scenario over all validators, in the order of play.
func (e *entry) summary() []any {
	type total struct {
		cost, score       float64
		costs, n, quality int
	}
	by, names := map[string]*total{}, []string{}
	for _, rep := range e.reports {
		for _, sc := range rep.scenarios {
			t := by[sc.Name]
			if t == nil {
				t = &total{}
				by[sc.Name], names = t, append(names, sc.Name)
			}
			t.n, t.score, t.quality = t.n+1, t.score+sc.Score, t.quality+bit(sc.Qualified)
			if sc.Cost != nil {
				t.cost, t.costs = t.cost+*sc.Cost, t.costs+1
			}
		}
	}
	out := []any{}
	for _, name := range names {
		t := by[name]
		row := map[string]any{"name": name, "avgCost": nil, "avgScore": t.score / float64(t.n), "qualCount": t.quality, "validatorCount": t.n}
		if t.costs > 0 {
			row["avgCost"] = t.cost / float64(t.costs)
		}
		out = append(out, row)
	}
	return out
}

// banRecord lists a miner's packs that a gate refused; nobody is banned for them here.
func (s *snapshot) banRecord(hotkey string) any {
	packs, n := []any{}, 0
	for _, e := range s.byMiner[hotkey] {
		if e.State != agon.SubmissionRefused {
			continue
		}
		if n++; len(packs) < 20 {
			packs = append(packs, map[string]any{"pack_hash": text(e.pack.Hash), "reason": e.reason()})
		}
	}
	if n == 0 {
		return nil
	}
	return map[string]any{"failedPackCount": n, "failedPacks": packs, "bannedAt": nil, "bannedUntil": nil, "isBanned": false}
}

func (b *Backend) minerPack(w http.ResponseWriter, r *http.Request) {
	s := b.with(w, r, "pack")
	if s == nil {
		return
	}
	e := s.find(r.PathValue("hotkey"), r.PathValue("hash"))
	if e == nil || r.PathValue("hotkey") == "" {
		fail(w, http.StatusNotFound, "Pack not found")
		return
	}
	rows, names, qualified := []any{}, []string{}, 0
	var best, sum float64
	costs, bests := 0, 0
	for _, rep := range e.reports {
		rows = append(rows, rep.shown())
		qualified += bit(rep.qualified)
		for _, sc := range rep.scenarios {
			if !slices.Contains(names, sc.Name) {
				names = append(names, sc.Name)
			}
		}
		if rep.cost == nil {
			continue
		}
		sum, costs = sum+*rep.cost, costs+1
		if rep.qualified && (bests == 0 || *rep.cost < best) {
			best, bests = *rep.cost, bests+1
		}
	}
	summary := map[string]any{"qualified": qualified > 0 && qualified == len(e.reports), "qualifiedCount": qualified, "bestCost": nil, "avgCost": nil, "validatorCount": len(e.reports)}
	if bests > 0 {
		summary["bestCost"] = best
	}
	if costs > 0 {
		summary["avgCost"] = sum / float64(costs)
	}
	reply(w, http.StatusOK, map[string]any{
		"packHash": e.pack.Hash, "gcsPackUrl": e.packURL(b.base(r)), "evalStatus": e.status(), "evalReason": text(e.reason()), "submittedAt": stamp(e.CreatedAt),
		"evaluatedAt": stamp(e.endedAt()), "minerHotkey": e.Miner, "minerUid": s.uid(e.Miner), "minerColdkey": e.Coldkey, "summary": summary, "scenarios": names, "validators": rows,
	})
}

// submissions lists the newest hundred that are decided.
func (b *Backend) submissions(w http.ResponseWriter, r *http.Request) {
	limit, ok := count(w, r, "limit", 100, 100)
	if !ok {
		return
	}
	s := b.with(w, r, "submissions")
	if s == nil {
		return
	}
	rows := []any{}
	for _, e := range s.entries {
		if e.open() {
			continue
		}
		if len(rows) == limit {
			break
		}
		rows = append(rows, map[string]any{
			"id": e.ID, "minerHotkey": e.Miner, "packHash": text(e.pack.Hash), "evalStatus": e.status(), "evalReason": text(e.reason()),
			"submittedAt": stamp(e.CreatedAt), "evaluatedAt": stamp(e.endedAt()),
		})
	}
	reply(w, http.StatusOK, map[string]any{"submissions": rows})
}

// count reads a number of the query: from 1 (from 0, where that is the default) to
// most, and what is more is most.
func count(w http.ResponseWriter, r *http.Request, name string, def, most int) (int, bool) {
	v := r.URL.Query().Get(name)
	if v == "" {
		return def, true
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < min(def, 1) {
		sign := "positive"
		if def == 0 {
			sign = "non-negative"
		}
		fail(w, http.StatusBadRequest, name+" must be a "+sign+" integer")
		return 0, false
	}
	return min(n, most), true
}

// packFile is a pack, byte for byte in its canonical form, once it is public.
func (b *Backend) packFile(w http.ResponseWriter, r *http.Request) {
	s := b.with(w, r, "pack file")
	if s == nil {
		return
	}
	if hash, ok := cutHash(r.PathValue("file")); ok {
		for _, e := range s.entries {
			if e.pack.Hash != hash {
				continue
			}
			if p, err := b.public(r.Context(), e); err == nil {
				w.Header().Set("Content-Disposition", `attachment; filename="pack.json"`)
				send(w, http.StatusOK, p.Canonical)
				return
			}
		}
	}
	fail(w, http.StatusNotFound, "Pack not found, or not public yet")
}
