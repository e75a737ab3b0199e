package wire

import (
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/agon-arena/agon/auth/dialect"
	"github.com/agon-arena/agon/kinds/pack/epochs"
	"github.com/agon-arena/agon/kinds/pack/signin"
)

// What validators of the field ask and say while an epoch is open.

// openFor is how long a pack is for validators only.
const openFor = 24 * time.Hour

// without answers where the arena leads no epochs.
func (b *Backend) without(w http.ResponseWriter) bool {
	if b.book == nil {
		reply(w, http.StatusNotFound, problem{Error: "no epoch in progress", Code: "not_found"})
		return true
	}
	return false
}

// epochCurrent is the epoch that is open. The pack's URL is for validators who
// signed, and for everybody a day later; a bad signature only hides it.
func (b *Backend) epochCurrent(w http.ResponseWriter, r *http.Request) {
	if b.without(w) {
		return
	}
	s, done, err := b.moved(r.Context())
	if err != nil {
		b.broken(w, "epoch", err)
		return
	}
	var e epochs.Epoch
	open := b.book.open != nil
	if open {
		e = *b.book.open
	}
	seat := b.book.seat()
	done()
	if !open {
		reply(w, http.StatusNotFound, problem{Error: "no epoch in progress"})
		return
	}
	q := r.URL.Query()
	known := false
	if q.Get("signature") != "" {
		_, refusal := signin.EpochCurrent.Check(r.Context(), b.cfg.Verifier, signin.Fields{Hotkey: q.Get("hotkey"), Timestamp: q.Get("timestamp"), Signature: q.Get("signature")}, dialect.Need{})
		known = refusal == nil
	}
	ep := map[string]any{
		"challenge_epoch_id": e.ID, "challenger_hotkey": e.Miner, "challenger_uid": s.uid(e.Miner), "challenger_pack_hash": e.Hash, "start_block": e.Start, "end_block": e.End,
		"epoch_length_blocks": e.Rule.Length, "status": "in_progress", "created_at": stamp(e.Opened), "spec_number": spec,
	}
	if known || b.cfg.Now().Sub(e.Opened) > openFor {
		ep["challenger_pack_url"] = b.base(r) + "/api/v2/epoch/" + strconv.FormatInt(e.ID, 10) + "/pack/" + b.book.token(e.Hash) + ".json"
	}
	block := s.graph.Block
	reply(w, http.StatusOK, map[string]any{
		"success": true, "epoch": ep, "winner": b.winnerOf(s, seat, b.base(r), true), "current_block": block, "elapsed_blocks": int64(block) - int64(e.Start),
		"remaining_blocks": max(0, int64(e.End)-int64(block)),
	})
}

// winnerOf is a seat as the routes show it. Some readers want numbers as texts.
func (b *Backend) winnerOf(s *snapshot, seat *epochs.Seat, base string, texts bool) any {
	if seat == nil {
		return nil
	}
	out := map[string]any{"hotkey": seat.Miner, "uid": s.uid(seat.Miner), "pack_hash": seat.Hash, "pack_url": nil, "score": seat.Score, "since_epoch_id": seat.Since}
	if texts {
		out["score"], out["since_epoch_id"] = strconv.FormatFloat(seat.Score, 'f', -1, 64), strconv.FormatInt(seat.Since, 10)
	}
	if e := s.byID[seat.Submission]; e != nil {
		out["pack_url"], out["cost_usd"] = e.packURL(base), e.meanCost()
	}
	return out
}

// epochPack is the challenger's pack under the name that only validators learn.
func (b *Backend) epochPack(w http.ResponseWriter, r *http.Request) {
	id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
	if b.book == nil || err != nil {
		fail(w, http.StatusNotFound, "Pack not found")
		return
	}
	b.book.mu.Lock()
	e := b.book.of(id)
	ok := e != nil && r.PathValue("file") == b.book.token(e.Hash)+".json"
	submission := ""
	if ok {
		submission = e.Submission
	}
	b.book.mu.Unlock()
	if !ok {
		fail(w, http.StatusNotFound, "Pack not found")
		return
	}
	b.sendPack(w, r, submission)
}

// scoreBody is a validator's score of the challenger.
type scoreBody struct {
	signer
	Version    string `json:"version"`
	Model      string `json:"llm_model"`
	Challenger *struct {
		Score     *float64 `json:"score"`
		Qualified *bool    `json:"qualified"`
		Rejected  bool     `json:"rejected"`
		Detail    string   `json:"rejection_detail"`
		Scenarios map[string]struct {
			Score     float64 `json:"score"`
			Qualified bool    `json:"qualified"`
		} `json:"scenario_results"`
	} `json:"challenger"`
	Winner *struct {
		Hash  string   `json:"pack_hash"`
		Score *float64 `json:"score"`
	} `json:"winner"`
}

// sound says what is wrong with a score; empty: nothing.
func (q *scoreBody) sound() (field, text string) {
	c := q.Challenger
	switch {
	case c == nil:
		return "challenger", "challenger is required"
	case c.Score == nil || math.IsNaN(*c.Score) || *c.Score < 0 || *c.Score > 100:
		return "challenger.score", "challenger.score must be a finite number from 0 to 100"
	case c.Qualified == nil:
		return "challenger.qualified", "challenger.qualified must be a boolean"
	case c.Rejected && (*c.Score != 0 || *c.Qualified):
		return "challenger.rejected", "a rejected challenger has score 0 and qualified false"
	case len(c.Scenarios) > maxScenarios:
		return "challenger.scenario_results", "scenario_results has too many scenarios"
	case q.Winner != nil && (!hashForm().MatchString(q.Winner.Hash) || q.Winner.Score == nil || *q.Winner.Score < 0 || *q.Winner.Score > 100):
		return "winner", "winner must have a pack_hash and a score from 0 to 100"
	}
	for name, sc := range c.Scenarios {
		if name == "" || len(name) > 80 || sc.Score < 0 || sc.Score > 100 {
			return "challenger.scenario_results", "scenario_results has a name or a number that is out of bounds"
		}
	}
	return "", ""
}

// epochScore takes a validator's score of the open epoch, once.
func (b *Backend) epochScore(w http.ResponseWriter, r *http.Request) {
	id, ok := epochID(w, r)
	if !ok {
		return
	}
	var q scoreBody
	if !object(w, r, &q) {
		return
	}
	if field, text := q.sound(); text != "" {
		refuse(w, http.StatusBadRequest, "bad_field", field, "%s", text)
		return
	}
	fields := q.fields()
	fields.More = []string{strconv.FormatInt(id, 10)}
	if !b.check(w, r, signin.ChallengeScore, fields) {
		return
	}
	if b.without(w) {
		return
	}
	s, done, err := b.moved(r.Context())
	if err != nil {
		b.refused(w, "score", err)
		return
	}
	defer done()
	e := b.book.live(w, id)
	switch {
	case e == nil:
		return
	case q.Winner != nil && (e.Before == nil || e.Before.Hash != q.Winner.Hash):
		refuse(w, http.StatusConflict, "other_winner", "winner.pack_hash", "winner.pack_hash is not the pack of who sits")
		return
	case e.Voted(q.Validator):
		refuse(w, http.StatusConflict, "duplicate", "validator_hotkey", "a score of this validator for this epoch is stored already")
		return
	}
	c := q.Challenger
	v := epochs.Vote{
		Validator: q.Validator, Stake: s.neurons[q.Validator].Stake, Block: s.graph.Block, Score: *c.Score, Qualified: *c.Qualified, Rejected: c.Rejected, Detail: plain(c.Detail, 200),
		Version: plain(q.Version, 40), Model: plain(q.Model, 80), At: b.cfg.Now().UTC(), Scenarios: map[string]epochs.Scenario{},
	}
	for name, sc := range c.Scenarios {
		v.Scenarios[plain(name, 80)] = epochs.Scenario{Score: sc.Score, Qualified: sc.Qualified}
	}
	next := *e
	next.Votes = append(slices.Clone(e.Votes), v)
	if err := b.book.put(b, &next); err != nil { // it is on disk before it is answered
		b.refused(w, "score", err)
		return
	}
	b.book.open = &next
	reply(w, http.StatusOK, map[string]any{
		"success": true, "challenge_epoch_id": id, "validator_hotkey": q.Validator, "challenger": map[string]any{"hotkey": e.Miner, "pack_hash": e.Hash},
		"winner": b.winnerOf(s, e.Before, b.base(r), false), "block_height": v.Block,
	})
}

// scenarioProgress keeps how far a validator is, for those who watch.
func (b *Backend) scenarioProgress(w http.ResponseWriter, r *http.Request) {
	id, ok := epochID(w, r)
	if !ok {
		return
	}
	var q struct {
		signer
		Miner    string   `json:"miner_hotkey"`
		Scenario string   `json:"scenario_name"`
		Index    whole    `json:"scenario_index"`
		Total    whole    `json:"total_scenarios"`
		Quality  *float64 `json:"quality"`
		State    string   `json:"state"`
		Cost     *float64 `json:"cost_usd"`
	}
	if !object(w, r, &q) {
		return
	}
	if q.State == "" {
		q.State = "complete" // older clients say nothing else
	}
	switch {
	case q.Scenario == "" || len(q.Scenario) > 80:
		refuse(w, http.StatusBadRequest, "bad_field", "scenario_name", "scenario_name must have 1 to 80 bytes")
		return
	case q.State != "running" && q.State != "verifying" && q.State != "complete":
		refuse(w, http.StatusBadRequest, "bad_field", "state", "state must be running, verifying or complete")
		return
	case q.Quality != nil && !(*q.Quality >= 0 && *q.Quality <= 1):
		refuse(w, http.StatusBadRequest, "bad_field", "quality", "quality must be from 0 to 1")
		return
	}
	fields := q.fields()
	fields.More = []string{strconv.FormatInt(id, 10), q.Scenario}
	if !b.check(w, r, signin.ScenarioProgress, fields) || b.without(w) {
		return
	}
	_, done, err := b.moved(r.Context())
	if err != nil {
		b.refused(w, "progress", err)
		return
	}
	defer done()
	e := b.book.live(w, id)
	switch {
	case e == nil:
		return
	case q.Miner != "" && q.Miner != e.Miner:
		refuse(w, http.StatusBadRequest, "bad_field", "miner_hotkey", "miner_hotkey is not the challenger")
		return
	}
	of := b.book.doing[id]
	if of == nil {
		of = map[string]map[string]*doings{}
		b.book.doing[id] = of
	}
	mine := of[q.Validator]
	if mine == nil {
		mine = map[string]*doings{}
		of[q.Validator] = mine
	}
	name := plain(q.Scenario, 80)
	d := mine[name]
	if d == nil {
		if len(mine) >= maxScenarios {
			refuse(w, http.StatusBadRequest, "too_many", "scenario_name", "a validator reports at most %d scenarios of an epoch", maxScenarios)
			return
		}
		d = &doings{}
		mine[name] = d
	}
	if !slices.Contains(d.Seen, q.State) {
		d.Seen = append(d.Seen, q.State)
	}
	d.State, d.Quality, d.Index, d.Total, d.Cost, d.At = q.State, nil, q.Index.n, q.Total.n, q.Cost, stamp(b.cfg.Now())
	if q.State == "complete" { // before, a quality says nothing
		d.Quality = q.Quality
	}
	reply(w, http.StatusOK, map[string]any{"success": true, "challenge_epoch_id": id, "scenario_name": name, "state": d.State})
}

// epochList is every epoch that ended, with all that its end follows from, so
// that anybody works it out again; the newest last.
func (b *Backend) epochList(w http.ResponseWriter, r *http.Request) {
	if b.without(w) {
		return
	}
	_, done, err := b.moved(r.Context())
	if err != nil {
		b.broken(w, "epochs", err)
		return
	}
	list := append([]epochs.Epoch{}, b.book.past...) // an empty list, never null
	seat := b.book.seat()
	done()
	p := epochs.Published{Winner: seat}
	if n := len(list); n > 0 {
		p.At = list[n-1].Finalized
	}
	reply(w, http.StatusOK, map[string]any{"epochs": list, "published": p, "audit": epochs.Audit(list, p, b.cfg.Now())})
}
