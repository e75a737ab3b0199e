package cli

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/internal/plain"
	"github.com/agon-arena/agon/ui/cli/iostreams"
	"github.com/agon-arena/agon/ui/cli/output"
)

func (a *App) arenaCmd(f Arenas) *cobra.Command {
	list := &cobra.Command{
		Use:     "list",
		Short:   "List the arenas of the server",
		Long:    "List the arenas of the server. JSON: an array of arenas {id, kind, title, netuid, state, tasks, policy, licence, url, champion, queued, playing, …}.",
		Example: "  agon arena list\n  agon arena list -o id",
		Args:    Args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.Reader()
			if err != nil {
				return err
			}
			arenas, err := c.Arenas(cmd.Context())
			if err != nil {
				return err
			}
			return a.Printer.Print(cmd.Context(), output.List(arenas, func(x client.Arena) string { return x.ID }, func(h *output.Human) {
				if len(arenas) == 0 {
					h.Line("no arenas")
					return
				}
				rows := make([][]output.Cell, len(arenas))
				for i, x := range arenas {
					champion := "-"
					if x.Champion != nil {
						champion = x.Champion.Submission
					}
					rows[i] = []output.Cell{
						output.Text(x.ID), output.Text(x.Kind), StateCell(string(x.State)), output.Text(strconv.Itoa(len(x.Tasks))),
						output.Text(strconv.Itoa(x.Queued)), output.Text(strconv.Itoa(x.Playing)), output.Text(champion), output.Text(x.Title),
					}
				}
				h.Table([]output.Column{
					{Title: "id", Min: 8},
					{Title: "kind"},
					{Title: "state"},
					{Title: "tasks", Right: true},
					{Title: "queued", Right: true},
					{Title: "playing", Right: true},
					{Title: "champion", ID: true},
					{Title: "title", Min: 10},
				}, rows)
			}))
		},
	}
	view := &cobra.Command{
		Use:               "view ARENA",
		Short:             "Show one arena: tasks, rules, budget, seat",
		Example:           "  agon arena view {arena}\n  agon arena view {arena} --jq .policy.budget",
		Args:              Args(1, 1, "an arena"),
		ValidArgsFunction: a.Complete(arenaIDs),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.Reader()
			if err != nil {
				return err
			}
			x, err := c.Arena(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return a.Printer.Print(cmd.Context(), output.Result{Value: x, IDs: []string{x.ID}, Human: func(h *output.Human) { arenaHuman(h, x) }})
		},
	}
	return a.noun(&cobra.Command{
		Use:     "arena",
		Short:   "Arenas: what is open, by which rules",
		Example: "  agon arena\n  agon arena view {arena}",
	}, list, view, a.arenaTasksCmd(), a.arenaNewCmd(f), a.arenaCheckCmd(f), a.arenaPublishCmd())
}

func (a *App) arenaTasksCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "tasks ARENA",
		Short: "Show how much was seen of each task, and what is committed to",
		Long: `Show how much was seen of each task of an arena, and what is committed to.

A hidden task has an id that says nothing and a commitment to its digest; salt and digest
are shown when it has retired (agon calc task.commit). The operator reads names and digests
of hidden tasks too. JSON: an array of {task, digest, hidden, retired, exposure:{plays,
miners, days, first}, committed:{commitment, committed_at, retired_at, salt, digest, name}}.`,
		Example:           "  agon arena tasks {arena}\n  agon arena tasks {arena} --jq '.[] | select(.hidden) | .exposure'",
		Args:              Args(1, 1, "an arena"),
		ValidArgsFunction: a.Complete(arenaIDs),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.Reader()
			if err != nil {
				return err
			}
			list, err := c.ArenaTasks(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return a.Printer.Print(cmd.Context(), output.List(list, func(x client.ArenaTask) string { return x.Task }, func(h *output.Human) {
				rows := make([][]output.Cell, len(list))
				for i, x := range list {
					access, committed := "", ""
					switch {
					case x.Hidden:
						access = "hidden"
					case x.Retired:
						access = "retired"
					}
					name := x.Task
					if c := x.Committed; c != nil {
						committed = c.Commitment.Hex()
						committed = committed[:min(12, len(committed))]
						if c.Name != "" && c.Name != x.Task {
							name += " (" + c.Name + ")"
						}
					}
					n := func(v int64) output.Cell { return output.Text(strconv.FormatInt(v, 10)) }
					rows[i] = []output.Cell{output.Text(name), output.Text(access), n(x.Exposure.Plays), n(x.Exposure.Miners), n(x.Exposure.Days), output.Text(committed)}
				}
				h.Table([]output.Column{{Title: "task", Min: 12}, {Title: "access"}, {Title: "plays", Right: true}, {Title: "miners", Right: true}, {Title: "days", Right: true}, {Title: "commitment"}}, rows)
			}))
		},
	}
}

func arenaHuman(h *output.Human, x *client.Arena) {
	champion, url := "none", ""
	if x.Champion != nil {
		champion = fmt.Sprintf("%s (%.4f, since %s)", x.Champion.Submission, x.Champion.Score, When(x.Champion.Since))
	}
	if x.URL != nil {
		url = *x.URL
	}
	rule := x.Incentive
	if len(x.IncentiveNumbers) > 0 {
		rule += " (" + numbers(x.IncentiveNumbers) + ")"
	}
	p := x.Policy
	h.Heading(x.ID + "  " + x.Title)
	h.Fields(
		[2]string{"kind", x.Kind}, [2]string{"state", string(x.State)}, [2]string{"champion", champion},
		[2]string{"queue", fmt.Sprintf("%d queued, %d playing", x.Queued, x.Playing)},
		[2]string{"netuid", strconv.Itoa(int(x.Netuid))}, [2]string{"licence", x.Licence}, [2]string{"incentive", rule},
		[2]string{"fairness", x.Fairness},
		[2]string{"models", strings.Join(p.Models, ", ")},
		[2]string{"budget", fmt.Sprintf("%s and %d calls a run", money(p.Budget.Micros), p.Budget.Calls)},
		[2]string{"agent", limits(p.Agent)}, [2]string{"grader", limits(p.Grader)},
		[2]string{"url", url},
	)
	if x.Judge != nil {
		h.Fields([2]string{"judge", x.Judge.Sentence})
	}
	if x.Seeds != nil && x.Seeds.Period != nil && x.Seeds.Period.Difficulty != nil {
		h.Fields([2]string{"difficulty", x.Seeds.Period.Difficulty.Sentence()})
	}
	if p.Libraries != nil {
		h.Fields([2]string{"libraries", strings.Join(p.Libraries.Packages, ", ")})
	}
	seatsHuman(h, x.Seats, nil)
	h.Line("")
	h.Line("%d tasks", len(x.Tasks))
	rows := make([][]output.Cell, len(x.Tasks))
	for i, t := range x.Tasks {
		hidden := ""
		if t.Hidden {
			hidden = "hidden"
		}
		rows[i] = []output.Cell{output.Text(t.Key), output.Text(t.Digest.Hex()[:min(12, len(t.Digest.Hex()))]), output.Text(hidden)}
	}
	h.Table([]output.Column{{Title: "task", Min: 12}, {Title: "digest"}, {Title: "access"}}, rows)
}

func limits(l agon.Limits) string {
	var parts []string
	add := func(v int64, format string, unit float64) {
		if v > 0 {
			parts = append(parts, fmt.Sprintf(format, float64(v)/unit))
		}
	}
	add(l.WallMS, "%g s", 1000)
	add(l.CPUMilli, "%g CPU", 1000)
	add(l.MemoryBytes, "%g MiB memory", 1<<20)
	add(l.DiskBytes, "%g MiB disk", 1<<20)
	add(l.Pids, "%g processes", 1)
	return strings.Join(parts, ", ")
}

func (a *App) boardCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "board [ARENA]",
		Short: "Show who leads, and every decision with its rule and bar",
		Long: `Show who leads, and every decision with its rule and bar.

JSON with an ARENA: {id, kind, url, champion, seats, burned, submissions, weights, decisions};
without one: an array of these.`,
		Example:           "  agon board {arena}\n  agon board {arena} --jq '.submissions[0].score'",
		Args:              Args(0, 1, "at most one arena"),
		ValidArgsFunction: a.Complete(arenaIDs),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.Reader()
			if err != nil {
				return err
			}
			if len(args) == 1 {
				b, err := c.Board(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				if err := a.verdicts(cmd.Context(), c, b.Submissions); err != nil {
					return err
				}
				return a.Printer.Print(cmd.Context(), output.Result{
					Value: b, IDs: ids(b.Submissions, func(r client.BoardRow) string { return r.ID }),
					Human: func(h *output.Human) { boardHuman(h, b) },
				})
			}
			o, err := c.Overview(cmd.Context())
			if err != nil {
				return err
			}
			for _, b := range o.Arenas {
				if err := a.verdicts(cmd.Context(), c, b.Submissions); err != nil {
					return err
				}
			}
			return a.Printer.Print(cmd.Context(), output.List(o.Arenas, func(b client.Board) string { return b.ID }, func(h *output.Human) { boardsHuman(h, o.Arenas) }))
		},
	}
}

// reward is the share that a submission earns.
func reward(seats []client.Place, id string) string {
	for _, s := range seats {
		if s.Submission == id {
			return strconv.FormatFloat(math.Round(s.Share*1e4)/100, 'f', -1, 64) + " %"
		}
		if s.Parent != nil && s.Parent.Submission == id {
			return strconv.FormatFloat(math.Round(s.Parent.Share*1e4)/100, 'f', -1, 64) + " %"
		}
	}
	return "-"
}

// seatsHuman shows who sits, where more than one can.
func seatsHuman(h *output.Human, seats []client.Place, names map[string]string) {
	if len(seats) == 0 || len(seats) == 1 && seats[0].Share == 1 {
		return
	}
	h.Line("")
	h.Heading("seats")
	rows := make([][]output.Cell, len(seats))
	for i, s := range seats {
		rows[i] = []output.Cell{
			output.Text(strconv.Itoa(s.Place)), output.Text(nameOr(names, s.Submission)), output.Text(s.Miner),
			output.Text(fmt.Sprintf("%.4f", s.Score)), output.Text(fmt.Sprintf("%.4g", s.Share)), output.Text(When(s.Since)),
		}
	}
	h.Table([]output.Column{
		{Title: "place", Right: true},
		{Title: "submission", ID: true},
		{Title: "miner", Min: 7},
		{Title: "score", Right: true},
		{Title: "share", Right: true},
		{Title: "since"},
	}, rows)
}

func boardsHuman(h *output.Human, boards []client.Board) {
	for i := range boards {
		if i > 0 {
			h.Line("")
		}
		boardHuman(h, &boards[i])
	}
	if len(boards) == 0 {
		h.Line("no arenas")
	}
}

func boardHuman(h *output.Human, b *client.Board) {
	h.Heading(b.ID)
	if b.Fairness != "" {
		h.Line("%s", b.Fairness)
	}
	if len(b.Submissions) == 0 {
		h.Line("no submissions yet")
		return
	}
	names := map[string]string{}
	rows := make([][]output.Cell, 0, len(b.Submissions))
	rank := 0
	tiers := slices.ContainsFunc(b.Submissions, func(r client.BoardRow) bool { return r.Tier > 0 })
	bands := slices.ContainsFunc(b.Submissions, func(r client.BoardRow) bool { return r.Low != nil })
	for _, r := range b.Submissions {
		names[r.ID] = r.Name
		place := "-"
		if r.Score != nil && r.State == agon.SubmissionScored {
			rank++
			place = strconv.Itoa(rank)
		}
		mark, style := "", iostreams.Style("")
		switch {
		case b.Champion != nil && *b.Champion == r.ID:
			mark, style = "champion", iostreams.Bold
		case r.Scripted:
			mark = "scripted"
		}
		span := ""
		if r.Low != nil && r.High != nil {
			span = fmt.Sprintf("%.2f–%.2f", *r.Low, *r.High)
		}
		row := []output.Cell{output.Text(place), output.Styled(style, r.Name), output.Text(r.ID), output.Text(r.Miner), output.Text(ScoreText(r.Score))}
		if bands {
			row = append(row, output.Text(span))
		}
		if tiers {
			tier := "-"
			if r.Tier > 0 {
				tier = strconv.Itoa(r.Tier)
			}
			row = slices.Insert(row, 1, output.Text(tier))
		}
		rows = append(rows, append(row,
			output.Text(solved(r.Solved, r.Total)), output.Text(money(r.CostMicros)), output.Text(reward(b.Seats, r.ID)), StateCell(string(r.State)), output.Styled(style, mark),
		))
	}
	columns := []output.Column{
		{Title: "rank", Right: true},
		{Title: "name", Min: 6},
		{Title: "id", ID: true},
		{Title: "miner", Min: 7, Spare: true},
		{Title: "score", Right: true},
		{Title: "solved", Right: true},
		{Title: "cost", Right: true, Spare: true},
		{Title: "reward", Right: true},
		{Title: "state"},
		{Title: ""},
	}
	if bands {
		columns = slices.Insert(columns, 5, output.Column{Title: "95 %", Right: true})
	}
	if tiers {
		columns = slices.Insert(columns, 1, output.Column{Title: "tier", Right: true, Spare: true})
	}
	h.Table(columns, rows)
	for _, r := range b.Submissions {
		if why := cmp.Or(r.Zero, r.ExcludedReason); why != "" {
			h.Line("%s: %s", r.Name, why)
		}
	}
	if b.TierTest != "" {
		h.Line("%s", b.TierTest)
	}
	if b.Pays != "" {
		h.Line("%s", b.Pays)
	}
	if len(b.Decisions) > 0 {
		h.Line("")
		h.Heading("decisions")
		for _, d := range b.Decisions {
			say := d.Sentence
			if say == "" { // a server that says no sentences
				say = strings.TrimSpace(fmt.Sprintf("%s by %s: score %.4f %s", strings.ReplaceAll(d.Outcome, "_", " "), d.Rule, d.Score, numbers(d.Numbers)))
			}
			who := nameOr(names, d.Challenger)
			if d.Incumbent != "" {
				who += " against " + nameOr(names, d.Incumbent)
			}
			h.Line("- %s: %s", who, say)
		}
		h.Line("the numbers behind each: agon board %s -o json --jq .decisions", b.ID)
	}
	if len(b.Weights) > 0 {
		h.Line("")
		h.Heading("weights set on the ledger")
		weightsTable(h, b.Weights)
	}
	if b.Agreement != nil {
		h.Line("")
		agreementHuman(h, b.Agreement)
	}
}

// agreementHuman tells what validators without a platform came to.
func agreementHuman(h *output.Human, g *client.Agreement) {
	h.Heading("without a platform")
	switch {
	case !g.Agreed:
		h.Line("%d validators have not agreed yet: %s", len(g.Validators), g.Note)
	case g.Winner == nil:
		h.Line("%d validators agree that nobody sits", len(g.Validators))
	default:
		h.Line("%d validators agree on %s at $%.6f an episode", len(g.Validators), strings.TrimSpace(plain.Line(g.WinnerName())+" "+*g.Winner), g.CostUSD)
	}
	if g.Scripted {
		h.Line("scripted: a script was the model, at a made-up price; everything is burned")
	}
	rows := make([][]output.Cell, len(g.Validators))
	for i, v := range g.Validators {
		rows[i] = []output.Cell{output.Text(v.Hotkey), output.Text(v.Winner), output.Text(fmt.Sprintf("$%.6f", v.CostUSD)), output.Text(strconv.Itoa(v.Judged)), output.Text(v.Filter)}
	}
	h.Table([]output.Column{{Title: "validator", Min: 7}, {Title: "winner", Min: 7}, {Title: "its cost", Right: true}, {Title: "judged", Right: true}, {Title: "payloads", Min: 8}}, rows)
}

func weightsTable(h *output.Human, w []agon.Weight) {
	sum := 0.0
	for _, x := range w {
		sum += float64(x.Weight)
	}
	rows := make([][]output.Cell, len(w))
	for i, x := range w {
		rows[i] = []output.Cell{output.Text(strconv.Itoa(int(x.UID))), output.Text(x.Hotkey), output.Text(partOf(x.Weight, sum)), output.Text(burnNote(x.UID))}
	}
	h.Table([]output.Column{{Title: "uid", Right: true}, {Title: "hotkey", Min: 7}, {Title: "weight", Right: true}, {Title: ""}}, rows)
}

// partOf is a weight as a part of all.
func partOf(w uint16, sum float64) string {
	return strconv.FormatFloat(math.Round(float64(w)/max(sum, 1)*1e4)/100, 'f', -1, 64) + " %"
}

// burnNote says what weight on the subnet's owner means.
func burnNote(uid uint16) string {
	if uid == 0 {
		return "the subnet's owner: burned"
	}
	return ""
}

func nameOr(names map[string]string, id string) string {
	if n := names[id]; n != "" {
		return n
	}
	return id
}

// numbers writes a decision's numbers in the order of their names.
func numbers(m map[string]float64) string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	for i, k := range keys {
		keys[i] = k + "=" + strconv.FormatFloat(m[k], 'g', 6, 64)
		if (k == "now" || strings.HasSuffix(k, "_at")) && m[k] > 1e9 && m[k] < 1e11 {
			keys[i] = k + "=" + When(time.Unix(int64(m[k]), 0))
		}
	}
	return strings.Join(keys, " ")
}
