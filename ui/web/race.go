package web

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/score"
)

// A race shows an arena's contest to people who watch: who leads, who is being
// played and how that stands against the champion, and each decision with its
// evidence beside the bar. ?n=3 shows it as it stood after the third decision.

// raceLane is one challenger that is not decided yet.
type raceLane struct {
	ID, Name  string
	State     string
	Done, All int
	Width     int // of what is played, in percent
	Score     *float64
	Versus    *versus // against the champion; nil: nothing to compare yet
}

// racePast is a decision as a race shows it.
type racePast struct {
	decisionRow
	N        int
	Took     bool
	Evidence string
	Width    int // of the evidence needed, in percent; -1: the rule asks for none
}

type raceData struct {
	base
	Arena      *client.Arena
	Embed      bool
	EmbedAt    string // address of the race for a page elsewhere
	Champion   string // name; "": nobody
	ChampionID string
	Score      float64
	Lanes      []raceLane
	Past       []racePast // newest first
	N, Of      int        // after the nth of so many decisions
	Prev, Next int        // 0: none
}

const (
	shownLanes = 8
	shownPast  = 6
)

func (s *server) race(q *request) error  { return s.raceAs(q, false) }
func (s *server) embed(q *request) error { return s.raceAs(q, true) }

func (s *server) raceAs(q *request, embed bool) error {
	n, _ := strconv.Atoi(q.URL.Query().Get("n"))
	d, err := s.raceOf(q.Context(), q, n)
	if err != nil {
		return err
	}
	d.Embed, d.Bare = embed, embed
	if d.EmbedAt = s.absolute("/embed/arenas/" + d.Arena.ID); strings.HasPrefix(d.EmbedAt, "/") {
		d.EmbedAt = q.origin() + d.EmbedAt
	}
	if embed {
		q.w.Header().Set("Content-Security-Policy", embedPolicy)
	}
	return s.render(q, http.StatusOK, "race", d)
}

func (s *server) raceOf(ctx context.Context, q *request, n int) (*raceData, error) {
	a, err := s.cfg.Platform.Arena(ctx, q.PathValue("arena"))
	if err != nil {
		return nil, err
	}
	all, err := s.cfg.Platform.Decisions(ctx, a.ID, readDecisions)
	if err != nil {
		return nil, err
	}
	d := &raceData{base: q.base("Race of "+a.Title, a.ID), Arena: a, Of: len(all), N: len(all)}
	past := all
	if n >= 1 && n < len(all) {
		past, d.N, d.Next = all[:n], n, n+1
	} else {
		d.Live = "/live?arena=" + a.ID
	}
	if d.N > 1 {
		d.Prev = d.N - 1
	}
	name := func(id string) (string, error) {
		if id == "" {
			return "", nil
		}
		sub, err := s.cfg.Platform.Submission(ctx, q.caller, id)
		if err != nil {
			return "", err
		}
		return sub.Name, nil
	}
	champion := ""
	for i := range past {
		if past[i].Outcome == agon.TookSeat {
			champion, d.Score = past[i].Challenger, past[i].Score
		}
	}
	if d.N == d.Of { // what the platform says now holds: a seat may have been taken back
		champion = ""
		if a.Champion != nil {
			champion, d.Score = a.Champion.Submission, a.Champion.Score
		}
	}
	if d.Champion, err = name(champion); err != nil {
		return nil, err
	}
	d.ChampionID = champion
	for i := len(past) - 1; i >= 0 && len(d.Past) < shownPast; i-- {
		p := racePast{decisionRow: decisionRow{Decision: past[i]}, N: i + 1, Took: past[i].Outcome == agon.TookSeat, Width: -1}
		if p.Name, err = name(past[i].Challenger); err != nil {
			return nil, err
		}
		if p.Against, err = name(past[i].Incumbent); err != nil {
			return nil, err
		}
		if have, ok := past[i].Numbers["evidence"]; ok {
			if need := past[i].Numbers["need"]; need > 0 {
				p.Width = int(100 * min(max(have/need, 0), 1))
				p.Evidence = fmt.Sprintf("evidence %s of %s", trim(have), trim(need))
			}
		}
		d.Past = append(d.Past, p)
	}
	if d.N == d.Of {
		if d.Lanes, err = s.lanes(ctx, q, a); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// lanes are the submissions that are played now.
func (s *server) lanes(ctx context.Context, q *request, a *client.Arena) ([]raceLane, error) {
	if a.Queued+a.Playing == 0 {
		return nil, nil
	}
	page, err := s.cfg.Platform.Submissions(ctx, q.caller, a.ID, "", "", 50)
	if err != nil {
		return nil, err
	}
	var out []raceLane
	ids := []string{}
	if a.Champion != nil {
		ids = append(ids, a.Champion.Submission)
	}
	for i := len(page.Items) - 1; i >= 0 && len(out) < shownLanes; i-- {
		sub := page.Items[i]
		if sub.State != agon.SubmissionPlaying && sub.State != agon.SubmissionQueued {
			continue
		}
		l := raceLane{ID: sub.ID, Name: sub.Name, State: string(sub.State)}
		runs, err := s.cfg.Platform.Runs(ctx, q.caller, "", sub.ID, "", "", runsPage)
		if err != nil {
			return nil, err
		}
		for _, r := range runs.Items {
			l.All++
			if r.State.Final() {
				l.Done++
			}
		}
		if l.All > 0 {
			l.Width = 100 * l.Done / l.All
		}
		ids = append(ids, sub.ID)
		out = append(out, l)
	}
	values, err := s.cfg.Platform.Values(ctx, ids)
	if err != nil {
		return nil, err
	}
	var champion *client.Submission
	if a.Champion != nil {
		if champion, err = s.cfg.Platform.Submission(ctx, q.caller, a.Champion.Submission); err != nil {
			return nil, err
		}
	}
	for i, l := range out {
		own := values[l.ID]
		if champion != nil {
			sub := &client.Submission{}
			sub.ID = l.ID
			if v := versusOf(a.Arena, sub, champion, values); v.Tasks > 0 {
				out[i].Versus = &v
				if v.Rest > 0 { // of what will count
					own = maps.Clone(own)
					maps.DeleteFunc(own, func(k string, _ float64) bool { _, ok := v.Theirs[k]; return !ok })
				}
			}
		}
		if len(own) > 0 {
			m, _ := score.MeanSE(score.Values(own))
			out[i].Score = &m
		}
	}
	return out, nil
}

// origin is where the reader asked, for addresses that he copies.
func (q *request) origin() string {
	if q.TLS != nil || q.Header.Get("X-Forwarded-Proto") == "https" {
		return "https://" + q.Host
	}
	return "http://" + q.Host
}
