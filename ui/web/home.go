package web

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/incentive"
	"github.com/agon-arena/agon/engine/platform"
	"github.com/agon-arena/agon/internal/plain"
)

// arenaCard is one arena on the first page.
type arenaCard struct {
	client.Arena
	Facts platform.ArenaFacts
	Name  string // of the champion's submission
	Led   string // what it leads with
	Share string // of the reward that the champion earns; "": none
	Top   []topBar
	Chart *cardChart // how the scores went; nil: nothing is decided
	Ends  time.Time  // of the period that is open; zero: none is
}

// topBar is one of the best on an arena's card: its score on a strip of 100 units,
// which is as long as the best score.
type topBar struct {
	ID, Name string
	Score    float64
	Measured string // its metric, where a replay measured one
	// Unmeasured: its arena measures metrics, and no replay of it measured one that counts.
	Unmeasured bool
	Width      int
	Champion   bool
	Scripted   bool
}

// happening is one line of what happened last.
type happening struct {
	At         time.Time
	Arena      string
	Title      string
	Submission string
	Name       string
	Sentence   string
	Took       bool
	Record     bool // more than any before it in its arena
}

// playedLast is a run on the first page: under way, or ended last.
type playedLast struct {
	runRow
	Said string // what came of it
	At   time.Time
}

// What the first page shows.
const (
	shownTop       = 3
	shownHappening = 10
	shownPlayed    = 6
	shownOfArena   = 2   // of these
	readPlayed     = 100 // runs, to find those that ended last
	// readDecisions are read of each arena, to find the last that happened.
	readDecisions = 1000
)

func (s *server) arenas(q *request) error {
	b, err := s.shared(q, func(ctx context.Context) ([]byte, error) {
		list, err := s.cfg.Platform.Arenas(ctx)
		if err != nil {
			return nil, err
		}
		data := struct {
			base
			Arenas  []arenaCard
			News    []happening
			Played  []playedLast
			Playing int
			Queued  int
			Kind    string // that the commands to copy name
			Example string // an arena of it
			Entry   string // what its template writes
		}{base: q.base("Arenas", "")}
		data.Live, data.Feed = "/live", "/feed.atom"
		for _, a := range list {
			card, err := s.card(ctx, q, a)
			if err != nil {
				return nil, err
			}
			if card.Chart, err = s.cardChart(ctx, a); err != nil {
				return nil, err
			}
			data.Arenas = append(data.Arenas, card)
			data.Playing, data.Queued = data.Playing+a.Playing, data.Queued+a.Queued
			if data.Kind == "" && a.State == agon.ArenaOpen && s.cfg.Starts[a.Kind] == "" {
				data.Kind, data.Example = a.Kind, a.ID
			}
		}
		if data.News, err = s.happenings(ctx, list, shownHappening); err != nil {
			return nil, err
		}
		if data.Played, err = s.playedLast(ctx, q); err != nil {
			return nil, err
		}
		return s.bytes("arenas", data)
	})
	if err != nil {
		return err
	}
	return q.send(http.StatusOK, b)
}

func (s *server) card(ctx context.Context, q *request, a client.Arena) (arenaCard, error) {
	card := arenaCard{Arena: a}
	var err error
	if card.Facts, err = s.cfg.Platform.Facts(ctx, a.ID); err != nil {
		return card, err
	}
	if a.Seeds != nil && a.Seeds.Period != nil {
		card.Ends = a.Seeds.Period.Closes
	}
	if len(a.Seats) > 0 {
		card.Share = "nothing"
		if a.Seats[0].Share > 0 {
			card.Share = incentive.Percent(a.Seats[0].Share)
		}
	}
	if a.Champion != nil {
		card.Led = showScore(a.Champion.Score)
	}
	top, err := s.cfg.Platform.Standings(ctx, a.ID, 0, shownTop)
	if err != nil {
		return card, err
	}
	best := 0.0
	for _, st := range top {
		if x := st.Submission.Score; x != nil {
			best = max(best, *x)
		}
	}
	for _, st := range top {
		sub := st.Submission
		if sub.Score == nil {
			continue
		}
		b := topBar{ID: sub.ID, Name: sub.Name, Score: *sub.Score, Measured: measured(sub.Decision), Scripted: sub.Scripted, Champion: a.Champion != nil && a.Champion.Submission == sub.ID}
		b.Unmeasured = a.Contest != nil && b.Measured == ""
		if best > 0 {
			b.Width = max(0, int(100**sub.Score/best+0.5))
		}
		if b.Champion {
			card.Name, card.Led = sub.Name, ledWith(sub.Decision, *sub.Score)
		}
		card.Top = append(card.Top, b)
	}
	if a.Champion != nil && card.Name == "" {
		sub, err := s.cfg.Platform.Submission(ctx, q.caller, a.Champion.Submission)
		if err != nil {
			return card, err
		}
		card.Name = sub.Name
	}
	return card, nil
}

// happenings are the last decisions of arenas, newest first.
func (s *server) happenings(ctx context.Context, arenas []client.Arena, limit int) ([]happening, error) {
	var out []happening
	for _, a := range arenas {
		list, err := s.cfg.Platform.Decisions(ctx, a.ID, readDecisions)
		if err != nil {
			return nil, err
		}
		record := records(list)
		for i, d := range list[max(0, len(list)-limit):] {
			out = append(out, happening{At: d.At, Arena: a.ID, Title: a.Title, Submission: d.Challenger, Sentence: brief(d.Sentence), Took: d.Outcome == agon.TookSeat, Record: record[max(0, len(list)-limit)+i]})
		}
	}
	slices.SortStableFunc(out, func(a, b happening) int { return b.At.Compare(a.At) })
	out = out[:min(len(out), limit)]
	ids := make([]string, len(out))
	for i, x := range out {
		ids[i] = x.Submission
	}
	names, err := s.cfg.Platform.Names(ctx, ids)
	for i := range out {
		out[i].Name = names[out[i].Submission]
	}
	return out, err
}

// records tells which decisions, oldest first, are of more than any before: the
// first score above 0 is none, and neither is what a script reached.
func records(list []agon.Decision) []bool {
	out, best := make([]bool, len(list)), 0.0
	for i, d := range list {
		if d.Rule == incentive.ScriptedRule || d.Score <= best {
			continue
		}
		out[i], best = best > 0, d.Score
	}
	return out
}

// playedLast are the runs that are under way, then those that ended last.
func (s *server) playedLast(ctx context.Context, q *request) (out []playedLast, err error) {
	page, err := s.cfg.Platform.Runs(ctx, q.caller, "", "", "", "", readPlayed)
	if err != nil {
		return nil, err
	}
	for _, r := range page.Items {
		x := playedLast{runRow: rowOf(r), At: r.EndedAt}
		switch {
		case r.State == agon.RunQueued || r.State == agon.RunCancelled:
			continue
		case !r.State.Final():
			x.Said, x.At = "is "+string(r.State), r.CreatedAt
			if n := len(r.List); n > 0 {
				x.At = r.List[n-1].LeasedAt
			}
		case r.State != agon.RunScored:
			x.Said = string(r.State)
		case len(r.Scores) == 1 && r.Scores[0].Solved:
			x.Said = "solved"
		case len(r.Scores) == 1 && r.Scores[0].Value == 0:
			x.Said = "did not solve"
		default:
			x.Said = "scored " + showScore(x.Value) + " on"
		}
		out = append(out, x)
	}
	slices.SortStableFunc(out, func(a, b playedLast) int {
		if x, y := a.State.Final(), b.State.Final(); x != y {
			if x {
				return 1
			}
			return -1
		}
		return b.At.Compare(a.At)
	})
	of := map[string]int{}
	out = slices.DeleteFunc(out, func(x playedLast) bool { of[x.Arena]++; return of[x.Arena] > shownOfArena })
	return out[:min(len(out), shownPlayed)], nil
}

// longSentence is how many bytes of a decision's sentence a list shows at most, where
// it has a clause that ends before.
const longSentence = 150

// brief leaves out of a long sentence what the decision's own page tells after the first clause.
func brief(s string) string {
	if i := strings.Index(s, "; "); len(s) > longSentence && i > 0 {
		return s[:i] + "."
	}
	return s
}

// ledWith is what a champion leads with: its metric in the metric's unit, where a
// replay measured one, else its score.
func ledWith(d *agon.Decision, score float64) string {
	if m := measured(d); m != "" {
		better := "higher"
		if d.Numbers["minimize"] > 0 {
			better = "lower"
		}
		return fmt.Sprintf("%s (%s is better)", m, better)
	}
	return showScore(score)
}

// ledIn is ledWith of a submission whose replay measured a metric; "": none did.
func ledIn(sub *client.Submission) string {
	if measured(sub.Decision) == "" {
		return ""
	}
	return ledWith(sub.Decision, 0)
}

// measured is the metric that a replay of a submission measured; "": none did.
func measured(d *agon.Decision) string {
	if d != nil {
		if x, ok := d.Numbers["observed"]; ok {
			return incentive.Figure(x)
		}
	}
	return ""
}

// leastTold is how many tasks the exact sign test needs to tell two apart at all, at 5 %.
const leastTold = 6

// whySits is why the champion sits, as its decision says it.
func whySits(rows []boardRow) string {
	for _, r := range rows {
		if r.Champion && r.Decision != nil {
			return brief(r.Decision.Sentence)
		}
	}
	return ""
}

// headline says who leads an arena and how surely, in a sentence.
func headline(d *boardData) string {
	var lead *boardRow
	for i := range d.Rows {
		if d.Rows[i].Champion {
			lead = &d.Rows[i]
		}
	}
	if d.Page > 1 || lead == nil || lead.Score == nil {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s leads with %s", plain.Line(lead.Name), ledWith(lead.Decision, *lead.Score))
	if lead.Total != nil && lead.Solved != nil && *lead.Total > 0 {
		fmt.Fprintf(&b, ": %d of %s solved", *lead.Solved, plain.Count(*lead.Total, "task"))
	}
	b.WriteString(".")
	var same, above []string
	for _, r := range d.Rows {
		switch {
		case r.Champion || r.Score == nil:
		case r.Tier != 0 && r.Tier == lead.Tier:
			same = append(same, plain.Line(r.Name))
		}
		if !r.Champion && r.Score != nil && *r.Score > *lead.Score {
			above = append(above, plain.Line(r.Name))
		}
	}
	if n := len(above); n > 0 {
		fmt.Fprintf(&b, " %s scored more without the seat: the decisions below say why.", plain.Some(above, 3))
	}
	switch {
	case len(same) == 0:
	case lead.Total != nil && *lead.Total < leastTold:
		fmt.Fprintf(&b, " There are too few tasks to say that it is better than %s.", plain.Some(same, 3))
	default:
		fmt.Fprintf(&b, " By score alone, its lead over %s could be luck.", plain.Some(same, 3))
	}
	return b.String()
}

// ago says how long before now t was, in one unit.
func ago(now, t time.Time) string {
	d := now.Sub(t)
	if d < 0 {
		return "in " + span(-d)
	}
	if d < 5*time.Second {
		return "just now"
	}
	return span(d) + " ago"
}

func span(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", int(d.Hours()))
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}
