package wire

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/kinds/shopping/race"
)

func (b *Backend) models(w http.ResponseWriter, _ *http.Request) {
	reply(w, http.StatusOK, map[string]any{"models": append([]string{}, b.cfg.Models()...)})
}

// leaderboard ranks by score, then by who came first: what comes in later never
// moves what stands above it to another page.
func (b *Backend) leaderboard(w http.ResponseWriter, r *http.Request) {
	limit, offset, ok := paging(w, r, 500, 100)
	if !ok {
		return
	}
	a, ok := b.arena(w, r)
	if !ok {
		return
	}
	list, err := b.submissions(r.Context(), "")
	if err != nil {
		b.broken(w, "leaderboard", err)
		return
	}
	race := r.URL.Query().Get("score_type") == "race"
	q := strings.ToLower(r.URL.Query().Get("q"))
	miners, day := map[string]bool{}, 0
	shown, numbers := list[:0:0], versionNumbers(list)
	by := func(s *client.Submission) *float64 {
		if race {
			return raceScore(s)
		}
		return qualifyingScore(s)
	}
	for _, s := range list {
		miners[s.Miner] = true
		if b.cfg.Now().Sub(s.CreatedAt).Hours() < 24 {
			day++
		}
		if by(&s) != nil && (q == "" || strings.Contains(strings.ToLower(s.Name+" "+s.Miner), q)) {
			shown = append(shown, s)
		}
	}
	slices.SortFunc(shown, func(x, y client.Submission) int {
		return cmp.Or(cmp.Compare(*by(&y), *by(&x)), cmp.Compare(x.Seq, y.Seq))
	})
	entries := []any{}
	for i, s := range window(shown, offset, limit) {
		place := slices.IndexFunc(a.Seats, func(p client.Place) bool { return p.Submission == s.ID })
		var topAt *string
		if place == 0 {
			topAt = stamp(a.Seats[0].Since)
		}
		entries = append(entries, map[string]any{
			"rank": offset + i + 1, "agent_version_id": versionID(s.ID), "agent_name": s.Name, "miner_hotkey": s.Miner, "version_number": numbers[s.ID],
			"final_score": qualifyingScore(&s), "race_score": raceScore(&s), "eligible_at": eligibleAt(&s), "is_discarded": s.State == agon.SubmissionExcluded, "is_miner_banned": false,
			"is_current_top": place == 0, "was_top": s.Decision != nil && s.Decision.Numbers["leads"] == 1, "top_at": topAt, "is_active_qualifier": place >= 0,
			"outranked_by_agent_version_id": outranked(a, place), "eliminated_at": eliminated(&s),
		})
	}
	reply(w, http.StatusOK, map[string]any{
		"total": len(shown), "limit": limit, "offset": offset, "suite": suitePublic(a),
		"entries": entries, "unique_miners": len(miners), "agents_submitted_24h": day, "challenge_threshold": b.threshold(list, a),
	})
}

func eligibleAt(s *client.Submission) *string {
	if s.Decision == nil || s.Decision.Rule == "race.qualify" {
		return nil
	}
	return stamp(s.Decision.At)
}

func outranked(a *client.Arena, place int) *string {
	if place <= 0 {
		return nil
	}
	id := versionID(a.Seats[0].Submission)
	return &id
}

// threshold is the newest bar that a challenger met; it only falls until somebody leads anew.
func (b *Backend) threshold(list []client.Submission, a *client.Arena) *float64 {
	for _, s := range list {
		if s.Decision != nil && s.Decision.Bar != nil && len(a.Seats) > 0 && s.Decision.Incumbent == a.Seats[0].Submission {
			return s.Decision.Bar
		}
	}
	return nil
}

func (b *Backend) top(w http.ResponseWriter, r *http.Request) {
	a, ok := b.arena(w, r)
	if !ok {
		return
	}
	out := map[string]any{"suite_id": suiteID(a.Tasks), "computed_at": stamp(b.cfg.Now()), "top_agent_version_id": nil, "top_miner_hotkey": nil, "top_score": nil, "emission_weight": nil}
	if len(a.Seats) > 0 {
		s := a.Seats[0]
		out["top_agent_version_id"], out["top_miner_hotkey"], out["top_score"], out["emission_weight"] = versionID(s.Submission), s.Miner, s.Score, s.Share
	}
	reply(w, http.StatusOK, out)
}

// topHistory lists who led, newest first.
func (b *Backend) topHistory(w http.ResponseWriter, r *http.Request) {
	a, ok := b.arena(w, r)
	if !ok {
		return
	}
	list, err := b.submissions(r.Context(), "")
	if err != nil {
		b.broken(w, "top history", err)
		return
	}
	numbers := versionNumbers(list)
	entries := []any{}
	for _, s := range list {
		if s.Decision == nil || s.Decision.Numbers["leads"] != 1 || s.Decision.Outcome != agon.TookSeat {
			continue
		}
		entries = append(entries, map[string]any{
			"agent_version_id": versionID(s.ID), "agent_name": s.Name, "miner_hotkey": s.Miner, "version_number": numbers[s.ID], "final_score": qualifyingScore(&s), "race_score": raceScore(&s), "top_at": stamp(s.Decision.At),
			"is_current_top": len(a.Seats) > 0 && a.Seats[0].Submission == s.ID, "was_top": true, "suite_id": suiteID(a.Tasks),
		})
	}
	reply(w, http.StatusOK, map[string]any{"suite_id": suiteID(a.Tasks), "entries": entries})
}

// raceOf is one race: the entries of a set period that met its hidden problems,
// or, while some are undecided, those that wait for the next result.
type raceOf struct {
	period int64
	next   bool // of who is undecided; nothing of it has an end yet
	raced  []client.Submission
}

// races are the races of an arena, newest first: one a set period. While entries
// of the present period are undecided they are a race of their own that has no
// end yet, so that what is decided can be read as complete however long the queue is.
func (b *Backend) races(ctx context.Context, a *client.Arena) ([]raceOf, []client.Submission, error) {
	list, err := b.submissions(ctx, "")
	if err != nil {
		return nil, nil, err
	}
	now := periodOf(a)
	by := map[int64]*raceOf{now: {period: now}}
	open := 0
	for _, s := range list {
		n := entered(&s)
		switch {
		case s.State == agon.SubmissionQueued || s.State == agon.SubmissionPlaying:
			open++
		case s.Scripted || raceScore(&s) == nil && eliminated(&s) == nil:
		default:
			if by[n] == nil {
				by[n] = &raceOf{period: n}
			}
			by[n].raced = append(by[n].raced, s)
		}
	}
	var out []raceOf
	for _, n := range slices.Sorted(maps.Keys(by)) {
		out = append(out, *by[n])
	}
	if open > 0 && a.State != agon.ArenaClosed && len(by[now].raced) > 0 {
		out = append(out, raceOf{period: now, next: true})
	}
	slices.Reverse(out)
	return out, list, nil
}

// periodOf is the present set period of an arena, 0 where it has none.
func periodOf(a *client.Arena) int64 {
	if a.Seeds == nil || a.Seeds.Period == nil {
		return 0
	}
	return a.Seeds.Period.Period
}

// entered is the set period in which a submission came.
func entered(s *client.Submission) int64 {
	if s.Beacon == nil {
		return 0
	}
	return s.Beacon.Period
}

// number counts races from 1: one a period, and the one to come.
func (r *raceOf) number() int64 {
	if r.next {
		return r.period + 2
	}
	return r.period + 1
}

// raceView is a race as readers see it, and who is in it.
func (b *Backend) raceView(a *client.Arena, x *raceOf, list []client.Submission) (view map[string]any, qualifiers []any) {
	state := race.Qualifying
	var ended, started *string
	for _, s := range x.raced {
		if t := stamp(s.Decision.At); ended == nil || *t > *ended {
			ended = t
		}
		if t := stamp(s.CreatedAt); started == nil || *t < *started {
			started = t
		}
	}
	if len(x.raced) > 0 || x.period < periodOf(a) {
		state = race.Complete
	}
	score := func(s *client.Submission) float64 {
		if v := raceScore(s); v != nil {
			return *v
		}
		return -1
	}
	slices.SortFunc(x.raced, func(x, y client.Submission) int {
		return cmp.Or(cmp.Compare(score(&y), score(&x)), cmp.Compare(versionID(x.ID), versionID(y.ID)))
	})
	numbers := versionNumbers(list)
	qualifiers = []any{}
	for i, s := range x.raced {
		row := map[string]any{
			"agent_version_id": versionID(s.ID), "agent_name": s.Name, "miner_hotkey": s.Miner, "version_number": numbers[s.ID], "qualification_type": "SCORE",
			"qualifying_score": qualifyingScore(&s), "race_score": raceScore(&s), "eliminated_at": eliminated(&s), "race_rank": nil,
		}
		if raceScore(&s) != nil {
			row["race_rank"] = i + 1
		}
		qualifiers = append(qualifiers, row)
	}
	view = map[string]any{
		"race_id": raceID(a, x.number()), "suite_id": suiteID(a.Tasks), "race_number": x.number(), "status": state, "qualifying_closes_at": nil, "race_started_at": started, "race_completed_at": ended,
		"winner_agent_version_id": nil, "winner_score": nil, "qualifying_threshold": nil, "winner_agent_name": nil, "qualifier_count": len(x.raced),
		"created_at": stamp(a.CreatedAt), "projected_completion_at": nil,
	}
	if n, ok := a.IncentiveNumbers["qualify"]; ok {
		view["qualifying_threshold"] = n
	}
	if state != race.Complete {
		return view, qualifiers
	}
	winner := func(id string, score float64) {
		view["winner_agent_version_id"], view["winner_score"] = versionID(id), score
		if i := slices.IndexFunc(list, func(s client.Submission) bool { return s.ID == id }); i >= 0 {
			view["winner_agent_name"] = list[i].Name
		}
	}
	switch {
	case x.period == periodOf(a) && len(a.Seats) > 0: // who leads now, newly entered or not
		winner(a.Seats[0].Submission, a.Seats[0].Score)
	case len(x.raced) > 0 && raceScore(&x.raced[0]) != nil:
		winner(x.raced[0].ID, *raceScore(&x.raced[0]))
	}
	return view, qualifiers
}

// raceByID finds the race that a path names, the newest where it names none. ok is false
// where the refusal is written already.
func (b *Backend) raceByID(w http.ResponseWriter, r *http.Request) (a *client.Arena, x *raceOf, list []client.Submission, ok bool) {
	id := r.PathValue("id")
	if id != "" {
		u, err := uuid.Parse(id)
		if err != nil {
			invalid(w, "uuid_parsing", "Input should be a valid UUID", "race_id")
			return nil, nil, nil, false
		}
		id = u.String()
	}
	if a, ok = b.arena(w, r); !ok {
		return nil, nil, nil, false
	}
	all, list, err := b.races(r.Context(), a)
	if err != nil {
		b.broken(w, "race", err)
		return nil, nil, nil, false
	}
	i := slices.IndexFunc(all, func(x raceOf) bool { return id == "" || id == raceID(a, x.number()) })
	if i < 0 {
		refuse(w, http.StatusNotFound, "RACE_NOT_FOUND", "There is no such race")
		return nil, nil, nil, false
	}
	return a, &all[i], list, true
}

func (b *Backend) race(w http.ResponseWriter, r *http.Request) {
	a, x, list, ok := b.raceByID(w, r)
	if !ok {
		return
	}
	view, qualifiers := b.raceView(a, x, list)
	reply(w, http.StatusOK, map[string]any{"race": view, "qualifiers": qualifiers})
}

func (b *Backend) raceHistory(w http.ResponseWriter, r *http.Request) {
	limit, offset, ok := paging(w, r, 100, 20)
	if !ok {
		return
	}
	a, ok := b.arena(w, r)
	if !ok {
		return
	}
	all, list, err := b.races(r.Context(), a)
	if err != nil {
		b.broken(w, "races", err)
		return
	}
	rows := []any{}
	for i := range all {
		view, _ := b.raceView(a, &all[i], list)
		rows = append(rows, view)
	}
	reply(w, http.StatusOK, map[string]any{"total": len(rows), "limit": limit, "offset": offset, "races": window(rows, offset, limit)})
}

// payout is what the leader earns. What a day brings in TAO, and its price, are
// nothing that this server knows: it says so by null, as the client allows.
func (b *Backend) payout(w http.ResponseWriter, r *http.Request) {
	a, ok := b.arena(w, r)
	if !ok {
		return
	}
	out := map[string]any{"as_of": stamp(b.cfg.Now()), "miner_hotkey": nil, "agent_name": nil, "tao_per_day": nil, "usd_per_day": nil, "tao_price_usd": nil}
	if len(a.Seats) > 0 {
		out["miner_hotkey"] = a.Seats[0].Miner
		if s, err := b.cfg.Platform.Submission(r.Context(), anybody, a.Seats[0].Submission); err == nil {
			out["agent_name"] = s.Name
		}
	}
	reply(w, http.StatusOK, out)
}

func (b *Backend) health(w http.ResponseWriter, _ *http.Request) {
	reply(w, http.StatusOK, map[string]any{"status": "healthy"})
}

// deepHealth is health with a look into the store.
func (b *Backend) deepHealth(w http.ResponseWriter, r *http.Request) {
	if _, ok := b.arena(w, r); ok {
		b.health(w, r)
	}
}

// released is when a version's code becomes public: with its decision. The SDK wants a
// time where there is none yet: the last that there is.
func released(s *client.Submission) *string {
	if s.Decision != nil {
		return stamp(s.Decision.At)
	}
	return stamp(time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC))
}
