package wire

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"

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
			"agent_version_id": versionID(s.ID), "agent_name": s.Name, "miner_hotkey": s.Miner, "version_number": numbers[s.ID], "final_score": s.Decision.Score, "top_at": stamp(s.Decision.At),
			"is_current_top": len(a.Seats) > 0 && a.Seats[0].Submission == s.ID, "was_top": true, "suite_id": suiteID(a.Tasks),
		})
	}
	reply(w, http.StatusOK, map[string]any{"suite_id": suiteID(a.Tasks), "entries": entries})
}

// raceView is the race over the hidden problems of today, and who is in it: it
// runs from the first finisher on, and is complete when nobody is undecided.
func (b *Backend) raceView(ctx context.Context, a *client.Arena) (view map[string]any, qualifiers []any, err error) {
	list, err := b.submissions(ctx, "")
	if err != nil {
		return nil, nil, err
	}
	state, open := race.Qualifying, 0
	var raced []client.Submission // finished first, by rank, then those that were stopped
	var ended, started *string
	for _, s := range list {
		switch {
		case s.State == agon.SubmissionQueued || s.State == agon.SubmissionPlaying:
			open++
		case s.Scripted || raceScore(&s) == nil && eliminated(&s) == nil:
		default:
			raced = append(raced, s)
			if t := stamp(s.Decision.At); ended == nil || *t > *ended {
				ended = t
			}
			if t := stamp(s.CreatedAt); started == nil || *t < *started {
				started = t
			}
		}
	}
	if len(raced) > 0 {
		state = race.Running
		if open == 0 || a.State == agon.ArenaClosed {
			state = race.Complete
		}
	}
	if state != race.Complete {
		ended = nil
	}
	score := func(s *client.Submission) float64 {
		if v := raceScore(s); v != nil {
			return *v
		}
		return -1
	}
	slices.SortFunc(raced, func(x, y client.Submission) int {
		return cmp.Or(cmp.Compare(score(&y), score(&x)), cmp.Compare(versionID(x.ID), versionID(y.ID)))
	})
	numbers := versionNumbers(list)
	qualifiers = []any{}
	for i, s := range raced {
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
		"race_id": raceID(a), "suite_id": suiteID(a.Tasks), "race_number": 1, "status": state, "qualifying_closes_at": nil, "race_started_at": started, "race_completed_at": ended,
		"winner_agent_version_id": nil, "winner_score": nil, "qualifying_threshold": nil, "winner_agent_name": nil, "qualifier_count": len(raced),
		"created_at": stamp(a.CreatedAt), "projected_completion_at": nil,
	}
	if n, ok := a.IncentiveNumbers["qualify"]; ok {
		view["qualifying_threshold"] = n
	}
	if state == race.Complete && len(a.Seats) > 0 {
		view["winner_agent_version_id"], view["winner_score"] = versionID(a.Seats[0].Submission), a.Seats[0].Score
		if i := slices.IndexFunc(list, func(s client.Submission) bool { return s.ID == a.Seats[0].Submission }); i >= 0 {
			view["winner_agent_name"] = list[i].Name
		}
	}
	return view, qualifiers, nil
}

func (b *Backend) race(w http.ResponseWriter, r *http.Request) { b.oneRace(w, r, "") }

func (b *Backend) raceDetail(w http.ResponseWriter, r *http.Request) {
	u, err := uuid.Parse(r.PathValue("id"))
	if err != nil {
		invalid(w, "uuid_parsing", "Input should be a valid UUID", "race_id")
		return
	}
	b.oneRace(w, r, u.String())
}

func (b *Backend) oneRace(w http.ResponseWriter, r *http.Request, id string) {
	a, ok := b.arena(w, r)
	if !ok {
		return
	}
	if id != "" && id != raceID(a) {
		refuse(w, http.StatusNotFound, "RACE_NOT_FOUND", "There is no such race")
		return
	}
	view, qualifiers, err := b.raceView(r.Context(), a)
	if err != nil {
		b.broken(w, "race", err)
		return
	}
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
	race, _, err := b.raceView(r.Context(), a)
	if err != nil {
		b.broken(w, "races", err)
		return
	}
	reply(w, http.StatusOK, map[string]any{"total": 1, "limit": limit, "offset": offset, "races": window([]any{race}, offset, limit)})
}
