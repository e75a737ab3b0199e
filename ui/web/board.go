package web

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/incentive"
	"github.com/agon-arena/agon/engine/platform"
	"github.com/agon-arena/agon/engine/score"
	"github.com/agon-arena/agon/engine/store"
	"github.com/agon-arena/agon/internal/plain"
	"github.com/agon-arena/agon/internal/served"
)

// shared renders a page once a second for all who are not signed in; the
// signed in get their own.
func (s *server) shared(q *request, fill func(ctx context.Context) ([]byte, error)) (*served.Document, error) {
	if q.caller.Hotkey != "" {
		b, err := fill(q.Context())
		return served.New(b), err
	}
	// The rendering outlives the one who asked first: others wait for it.
	return s.cache.Get(q.URL.Path+"?"+strconv.Itoa(pageNumber(q, 1)), func() ([]byte, error) { return fill(context.WithoutCancel(q.Context())) })
}

func (s *server) bytes(page string, data any) ([]byte, error) {
	var b bytes.Buffer
	if err := s.pages[page].Execute(&b, data); err != nil {
		return nil, fmt.Errorf("render %s: %w", page, err)
	}
	return plain.Strip(b.Bytes()), nil
}

const boardPage = 50

// boardRow is one line of a board.
type boardRow struct {
	client.Submission
	Rank     int
	Tier     int // 0: not worked out
	NewTier  bool
	Champion bool
	Band     *score.Band // nil: its score is not a mean of problems, or of one only
	Mark     Whisker
	Reward   string
	Public   *float64 // of the public problems, where the score is of the hidden ones
	Only     bool     // its score is of the public problems only, where others' are of the hidden ones
	Measured string   // its metric, where a replay measured one
	Why      string   // it is not on the board for its score: refused, excluded
}

// onPublicOnly tells that a score is of public problems alone, in an arena with hidden ones.
func onPublicOnly(a agon.Arena, sub *client.Submission, values map[string]float64) bool {
	of := platform.Counted(a, sub.Score, sub.Total, values)
	hidden := 0
	for _, t := range a.Tasks {
		if _, counts := of[t.Key]; t.Hidden && counts {
			return false
		} else if t.Hidden {
			hidden++
		}
	}
	return len(of) > 0 && hidden > 0
}

// rewardOf says what a submission earns; "": it sits nowhere.
func rewardOf(seats []client.Place, id string) string {
	for _, s := range seats {
		if s.Submission == id {
			return incentive.Percent(s.Share)
		}
		if s.Parent != nil && s.Parent.Submission == id {
			return incentive.Percent(s.Parent.Share)
		}
	}
	return ""
}

// whyOut is the first sentence of why a submission was refused or excluded.
func whyOut(s client.Submission) string {
	if s.State != agon.SubmissionRefused && s.State != agon.SubmissionExcluded {
		return ""
	}
	for _, f := range s.Findings {
		if !f.Warning {
			return f.Message
		}
	}
	return ""
}

// decisionRow is a decision with the names of those it is about.
type decisionRow struct {
	agon.Decision
	Name, Against string
}

type boardData struct {
	base
	Arena      *client.Arena
	Facts      platform.ArenaFacts
	Rows       []boardRow
	Bands      bool // scores have intervals
	Tiers      bool // a test tells some apart
	Shaken     bool // some scores are of hidden problems, beside public ones
	Page       int
	Prev, Next int // 0: none
	Queue      []platform.QueueRow
	Decisions  []decisionRow
	Reigns     []reign
	Start      string // the command that begins an entry
	Plain      bool   // registering and submitting are all that follows it
	Lead       string // who leads, in a sentence
	WhySits    string // why the champion sits, as its decision says
	Matrix     *Matrix
	Scatter    *Chart
	History    *Chart
	Weights    []agon.Weight
	Parts      map[uint16]float64            // of all weights, by uid
	Owners     map[string]*client.Submission // who sits, by hotkey
	LedgerDown bool
	Part       template.HTML // the kind's
	PartFirst  bool          // it stands above the table
}

func (s *server) board(q *request) error {
	b, err := s.shared(q, func(ctx context.Context) ([]byte, error) {
		data, err := s.boardOf(ctx, q)
		if err != nil {
			return nil, err
		}
		return s.bytes("board", data)
	})
	if err != nil {
		return err
	}
	return q.send(http.StatusOK, b)
}

func (s *server) boardOf(ctx context.Context, q *request) (*boardData, error) {
	id := q.PathValue("arena")
	a, err := s.cfg.Platform.Arena(ctx, id)
	if err != nil {
		return nil, err
	}
	d := &boardData{base: q.base(a.Title, a.ID), Arena: a, Page: pageNumber(q, 1), Start: cmp.Or(s.cfg.start(a.Arena), "agon agent new "+a.Kind+" ./mine"), Plain: s.cfg.Starts[a.Kind] == ""}
	d.Live, d.Feed = "/live?arena="+a.ID, "/arenas/"+a.ID+"/feed.atom"
	if d.Facts, err = s.cfg.Platform.Facts(ctx, id); err != nil {
		return nil, err
	}
	list, err := s.cfg.Platform.Standings(ctx, id, (d.Page-1)*boardPage, boardPage)
	if err != nil {
		return nil, err
	}
	byID := map[string]map[string]float64{}
	for _, st := range list {
		byID[st.Submission.ID] = st.Values
		r := boardRow{Submission: st.Submission, Rank: st.Rank, Tier: st.Tier, Champion: a.Champion != nil && a.Champion.Submission == st.Submission.ID}
		r.Reward, r.Why, r.Measured = rewardOf(a.Seats, r.ID), whyOut(r.Submission), measured(r.Decision)
		if r.Why == "" {
			r.Why = st.Zero
		}
		if r.Score != nil {
			if r.Band, r.Public = platform.BandOf(a.Arena, r.Score, r.Total, st.Values); r.Band != nil {
				r.Mark = whisker(r.Band.Low, *r.Score, r.Band.High)
				d.Bands = true
			}
			d.Shaken = d.Shaken || r.Public != nil
			r.Only = onPublicOnly(a.Arena, &r.Submission, st.Values)
		}
		d.Rows = append(d.Rows, r)
	}
	if err := s.verdicts(ctx, q, d.Rows); err != nil {
		return nil, err
	}
	why := make([]string, len(d.Rows))
	for i, r := range d.Rows {
		why[i] = r.Why
	}
	if why, _, err = s.named(ctx, why); err != nil {
		return nil, err
	}
	for i := range d.Rows {
		d.Rows[i].Why = why[i]
	}
	for i := range d.Rows {
		if t := d.Rows[i].Tier; t > 0 {
			d.Tiers, d.Rows[i].NewTier = true, i > 0 && t != d.Rows[i-1].Tier
		}
	}
	if d.Page > 1 {
		d.Prev = d.Page - 1
	}
	if d.Page*boardPage < d.Facts.Submissions {
		d.Next = d.Page + 1
	}
	if d.Queue, err = s.cfg.Platform.Queue(ctx, id); err != nil {
		return nil, err
	}
	if err := s.decisions(ctx, d); err != nil {
		return nil, err
	}
	d.Scatter, d.Matrix, d.Lead = scoreCost(d.Rows), matrixOf(d.Rows, byID, 2), headline(d)
	d.WhySits = whySits(d.Rows)
	d.Picture, d.About = s.pictureOf(a.Arena), d.Lead
	d.Reigns = d.Reigns[max(0, len(d.Reigns)-shownReigns):]
	if err := s.reigned(ctx, d.Reigns); err != nil {
		return nil, err
	}
	d.History = seatHistory(d.Reigns, s.cfg.Now())
	if g, err := s.ledgerOf(a.Arena).Metagraph(ctx, a.Netuid); err != nil {
		d.LedgerDown = true
	} else {
		d.Weights, d.Parts, d.Owners = g.Weights, parts(g.Weights), map[string]*client.Submission{}
		for _, p := range a.Seats {
			for i, r := range d.Rows {
				if r.ID == p.Submission {
					d.Owners[r.Miner] = &d.Rows[i].Submission
				}
			}
		}
	}
	d.Part, d.PartFirst = s.part(ctx, a.Kind, a.ID), s.cfg.Parts[a.Kind].First
	return d, nil
}

// shownVerdicts is of how many rows without a point a board says what their judge found.
const shownVerdicts = 5

// verdicts adds to rows whose runs ended well and scored 0 what their judge found most often.
func (s *server) verdicts(ctx context.Context, q *request, rows []boardRow) error {
	n := 0
	for i, r := range rows {
		if !strings.HasSuffix(r.Why, "should and scored 0") || n == shownVerdicts {
			continue
		}
		n++
		page, err := s.cfg.Platform.Runs(ctx, q.caller, "", r.ID, "", "", verdictRuns)
		if err != nil {
			return err
		}
		if z := client.Zeros(page.Items); len(z) > 0 {
			rows[i].Why += ": " + z[0].Text
		} else if r.Decision != nil { // which says more than that it scored 0
			rows[i].Why = brief(r.Decision.Sentence)
		}
	}
	return nil
}

// verdictRuns are read of a submission to learn what its judge found.
const verdictRuns = 20

// What a board shows of the past: the last decisions, and the last times in the seat.
const (
	shownDecisions = 20
	shownReigns    = 50
)

func (s *server) decisions(ctx context.Context, d *boardData) error {
	list, err := s.cfg.Platform.Decisions(ctx, d.Arena.ID, 1000)
	if err != nil {
		return err
	}
	for _, x := range list {
		if x.Outcome != agon.TookSeat {
			continue
		}
		if n := len(d.Reigns); n > 0 {
			d.Reigns[n-1].To = x.At
		}
		d.Reigns = append(d.Reigns, reign{Submission: x.Challenger, Score: x.Score, Measured: measured(&x), From: x.At})
	}
	last := list[max(0, len(list)-shownDecisions):]
	var ids []string
	for _, x := range last {
		ids = append(ids, x.Challenger, x.Incumbent)
	}
	names, err := s.cfg.Platform.Names(ctx, ids)
	if err != nil {
		return err
	}
	for _, x := range slices.Backward(last) {
		d.Decisions = append(d.Decisions, decisionRow{Decision: x, Name: names[x.Challenger], Against: names[x.Incumbent]})
	}
	return nil
}

// reigned names who sat.
func (s *server) reigned(ctx context.Context, list []reign) error {
	ids := make([]string, len(list))
	for i, r := range list {
		ids[i] = r.Submission
	}
	names, err := s.cfg.Platform.Names(ctx, ids)
	for i := range list {
		list[i].Name = names[list[i].Submission]
	}
	return err
}

// pageNumber reads ?page=N; anything else is the default.
func pageNumber(q *request, def int) int {
	n, err := strconv.Atoi(q.URL.Query().Get("page"))
	if err != nil || n < 1 || n > 1_000_000 {
		return def
	}
	return n
}

// taskRow is one task of an arena: how often it was played, and by whom it was solved first.
type taskRow struct {
	agon.TaskRef
	client.Exposure
	Committed *client.HiddenTask
	Retired   bool

	Stat   *store.TaskStat
	Drift  float64
	Drifts bool
}

// minDrift is how many entrants it takes until the drift of a task means anything.
const minDrift = 10

func (s *server) tasks(q *request) error {
	b, err := s.shared(q, func(ctx context.Context) ([]byte, error) {
		a, err := s.cfg.Platform.Arena(ctx, q.PathValue("arena"))
		if err != nil {
			return nil, err
		}
		stats, err := s.cfg.Platform.Tasks(ctx, a.ID)
		if err != nil {
			return nil, err
		}
		by := map[string]*store.TaskStat{}
		for i := range stats {
			by[stats[i].Task] = &stats[i]
		}
		data := struct {
			base
			Arena *client.Arena
			Tasks []taskRow
			Chart *Chart
			// Solvers are the names of those who solved a task first, by id.
			Solvers map[string]string
		}{base: q.base("Tasks of "+a.Title, a.ID), Arena: a}
		seen, err := s.cfg.Platform.ArenaTasks(ctx, platform.Caller{}, a.ID)
		if err != nil {
			return nil, err
		}
		var solvers []string
		for _, t := range seen {
			r := taskRow{
				TaskRef:  agon.TaskRef{Key: t.Task, Digest: t.Digest, Hidden: t.Hidden},
				Exposure: t.Exposure, Committed: t.Committed, Retired: t.Retired, Stat: by[t.Task],
			}
			if x := r.Stat; x != nil && x.EarlyN > 0 && x.LateN > 0 && x.Submissions >= minDrift {
				r.Drift, r.Drifts = x.Late-x.Early, true
			}
			if r.Stat != nil && r.Stat.FirstSolver != "" {
				solvers = append(solvers, r.Stat.FirstSolver)
			}
			data.Tasks = append(data.Tasks, r)
		}
		if data.Solvers, err = s.cfg.Platform.Names(ctx, solvers); err != nil {
			return nil, err
		}
		data.Chart = taskMeans(data.Tasks)
		return s.bytes("tasks", data)
	})
	if err != nil {
		return err
	}
	return q.send(http.StatusOK, b)
}

func (s *server) validators(q *request) error {
	b, err := s.shared(q, func(ctx context.Context) ([]byte, error) {
		a, err := s.cfg.Platform.Arena(ctx, q.PathValue("arena"))
		if err != nil {
			return nil, err
		}
		list, err := s.cfg.Platform.Validators(ctx, a.ID)
		if err != nil {
			return nil, err
		}
		type row struct {
			store.ValidatorStat
			OursRate float64
			Agrees   *score.Standing // nil: nobody else has played the same
		}
		data := struct {
			base
			Arena *client.Arena
			Rows  []row
			Chart *Chart
		}{base: q.base("Validators of "+a.Title, a.ID), Arena: a}
		standings, err := s.cfg.Platform.Agreement(ctx, a.ID)
		if err != nil {
			return nil, err
		}
		for _, v := range list {
			r := row{ValidatorStat: v}
			for i := range standings {
				if x := &standings[i]; x.Validator == v.Validator && x.Items > 0 {
					r.Agrees = x
				}
			}
			if v.Attempts > 0 {
				r.OursRate = float64(v.Ours) / float64(v.Attempts)
			}
			data.Rows = append(data.Rows, r)
		}
		data.Chart = work(list)
		return s.bytes("validators", data)
	})
	if err != nil {
		return err
	}
	return q.send(http.StatusOK, b)
}

// dueWeights is what an arena wants set now.
type dueWeights struct {
	Arena, Pays string
	*client.Target
	Part  []float64 // of the whole reward, of each uid
	Chart *Chart
}

// parts are weights as parts of their sum, by uid.
func parts(list []agon.Weight) map[uint16]float64 {
	out, sum := map[uint16]float64{}, 0.0
	for _, w := range list {
		sum += float64(w.Weight)
	}
	for _, w := range list {
		out[w.UID] = float64(w.Weight) / max(sum, 1)
	}
	return out
}

// targetParts are the weights of a target as parts of their sum.
func targetParts(t *client.Target) []float64 {
	out, sum := make([]float64, len(t.Values)), 0.0
	for _, v := range t.Values {
		sum += float64(v)
	}
	for i, v := range t.Values {
		out[i] = float64(v) / max(sum, 1)
	}
	return out
}

func weightBars(arena string, t *client.Target, due []float64, set map[uint16]float64, name func(uint16) string) *Chart {
	if len(t.UIDs) < 2 {
		return nil // the table says it
	}
	var list []item
	for i, uid := range t.UIDs {
		now := set[uid]
		list = append(list, item{name: name(uid), bar: due[i], dot: &now})
	}
	return bars("Weights of "+arena, "who", "share of the reward", "due", "set", list, func(v float64) string { return trim(100*v) + " %" })
}

func (s *server) ledger(q *request) error {
	n, err := strconv.ParseUint(q.PathValue("netuid"), 10, 16)
	if err != nil {
		return &agon.Error{Code: "not_found", Status: 404, Field: "netuid", Message: "A subnet is a number up to 65535."}
	}
	return s.subnet(q, s.cfg.Ledger, "", uint16(n))
}

// ledgerOf is the ledger that an arena is on.
func (s *server) ledgerOf(a agon.Arena) Ledger {
	if a.Ledger == "" || s.cfg.LedgerOf == nil {
		return s.cfg.Ledger
	}
	return s.cfg.LedgerOf(a)
}

// arenaLedger shows the subnet of an arena, on whichever ledger it is.
func (s *server) arenaLedger(q *request) error {
	a, err := s.cfg.Platform.Arena(q.Context(), q.PathValue("arena"))
	if err != nil {
		return err
	}
	return s.subnet(q, s.ledgerOf(a.Arena), a.Ledger, a.Netuid)
}

// subnet shows a subnet of l, which arenas call name.
func (s *server) subnet(q *request, l Ledger, name string, n uint16) error {
	b, err := s.shared(q, func(ctx context.Context) ([]byte, error) {
		g, err := l.Metagraph(ctx, n)
		if err != nil {
			return nil, err
		}
		list, err := s.cfg.Platform.Arenas(ctx)
		if err != nil {
			return nil, err
		}
		data := struct {
			base
			Graph *client.Metagraph
			// Due is what each arena of this subnet wants now.
			Due  []dueWeights
			Set  map[uint16]float64
			Name string
			// Who is whose a hotkey is: the submission that sits with it.
			Who map[string]*client.Submission
			// Hotkeys are those of the neurons, by uid.
			Hotkeys map[uint16]string
		}{base: q.base(fmt.Sprintf("Subnet %d", n), ""), Graph: g, Set: parts(g.Weights), Name: name, Who: map[string]*client.Submission{}, Hotkeys: map[uint16]string{}}
		for _, x := range g.Neurons {
			data.Hotkeys[x.UID] = x.Hotkey
		}
		for _, a := range list {
			if a.Netuid != n || a.Ledger != name {
				continue
			}
			t, err := s.cfg.Platform.Target(ctx, a.ID)
			if err != nil {
				return nil, err
			}
			for _, seat := range a.Seats {
				sub, err := s.cfg.Platform.Submission(ctx, q.caller, seat.Submission)
				if err != nil {
					return nil, err
				}
				data.Who[sub.Miner] = sub
			}
			d := dueWeights{Arena: a.ID, Pays: a.Pays, Target: t, Part: targetParts(t)}
			d.Chart = weightBars(a.ID, t, d.Part, data.Set, func(uid uint16) string {
				if x := data.Who[data.Hotkeys[uid]]; x != nil {
					return x.Name
				}
				return "uid " + strconv.Itoa(int(uid))
			})
			data.Due = append(data.Due, d)
		}
		return s.bytes("ledger", data)
	})
	if err != nil {
		return err
	}
	return q.send(http.StatusOK, b)
}
