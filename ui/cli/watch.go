package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/incentive"
	"github.com/agon-arena/agon/internal/plain"
	"github.com/agon-arena/agon/ui/cli/iostreams"
	"github.com/agon-arena/agon/ui/cli/output"
)

// Watched is what `agon watch` shows of an arena.
type Watched struct {
	Arena *client.Arena `json:"arena"`
	Board *client.Board `json:"board"`
	// Contests are challenges by pairs that are under way.
	Contests []client.Submission `json:"contests"`
}

// Topped is what `agon top` shows of a server.
type Topped struct {
	Arenas     []TopArena        `json:"arenas"`
	Runs       client.RunCounts  `json:"runs"`
	Validators *client.Standings `json:"validators"`
}

// TopArena is one arena of Topped. Leader is a name; empty: nobody leads.
type TopArena struct {
	ID      string          `json:"id"`
	State   agon.ArenaState `json:"state"`
	Queued  int             `json:"queued"`
	Playing int             `json:"playing"`
	Judging int             `json:"judging"`
	Leader  string          `json:"leader"`
	Score   float64         `json:"score"`
	// Measured is the metric that a replay of the leader measured, where one did.
	Measured string `json:"measured,omitempty"`
}

func (a *App) watchArenaCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "watch ARENA",
		Short: "Follow an arena's contest on the terminal: who leads, what is played, what was decided",
		Long: `Redraws itself once a second until q or Ctrl-C. Where the output is not a terminal, it prints once.
JSON: {arena, board, contests}.`,
		Example:           "  agon watch {arena}\n  agon watch {arena} -o json --jq .board.seats",
		Args:              Args(1, 1, "an arena"),
		ValidArgsFunction: a.Complete(arenaIDs),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.Reader()
			if err != nil {
				return err
			}
			return a.live(cmd.Context(), func(ctx context.Context) (any, frame, error) {
				w, err := watched(ctx, c, args[0])
				if err != nil {
					return nil, nil, err
				}
				return w, func(width int, colour bool) string { return watchFrame(w, width, colour) }, nil
			})
		},
	}
}

func (a *App) topCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "top",
		Short: "Follow a whole server on the terminal: arenas, queues, faults, validators",
		Long: `Redraws itself once a second until q or Ctrl-C. Where the output is not a terminal, it prints once.
JSON: {arenas, runs: {scored, failed, by_fault}, validators}.`,
		Example: "  agon top\n  agon top -o json --jq .runs",
		Args:    Args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.Reader()
			if err != nil {
				return err
			}
			return a.live(cmd.Context(), func(ctx context.Context) (any, frame, error) {
				t, err := topped(ctx, c)
				if err != nil {
					return nil, nil, err
				}
				return t, func(width int, colour bool) string { return topFrame(t, width, colour) }, nil
			})
		},
	}
}

// frame draws one picture of width columns.
type frame func(width int, colour bool) string

// look reads what is shown now.
type look func(ctx context.Context) (value any, f frame, err error)

// live shows what look reads: again and again on a terminal, once elsewhere.
func (a *App) live(ctx context.Context, l look) error {
	v, f, err := l(ctx)
	if err != nil {
		return err
	}
	if !a.IO.OutTTY() || !a.IO.InTTY() || a.Printer.Explicit {
		return a.Printer.Print(ctx, output.Result{Value: v, Human: func(h *output.Human) {
			for line := range strings.Lines(f(a.IO.Width(), false)) {
				h.Line("%s", strings.TrimSuffix(line, "\n"))
			}
		}})
	}
	in, ok := a.IO.In.(*os.File)
	if !ok {
		return errors.New("a live view needs a terminal to read keys from")
	}
	old, err := term.MakeRaw(int(in.Fd())) // keys come one by one, and are not shown
	if err != nil {
		return fmt.Errorf("open the terminal: %w", err)
	}
	defer func() { _ = term.Restore(int(in.Fd()), old) }() // there is nothing left to restore if this fails
	keys := make(chan byte)
	go func() { // it ends with the process: a read of a terminal cannot be taken back
		b := make([]byte, 1)
		for {
			if n, err := in.Read(b); err != nil || n == 0 {
				return
			}
			keys <- b[0]
		}
	}()
	size := func() (int, int) {
		w, h, err := term.GetSize(int(in.Fd()))
		if err != nil {
			return a.IO.Width(), 0
		}
		return w, h
	}
	s := &screen{look: l, frame: f, colour: a.IO.OutColour(), every: a.Poll, size: size}
	return s.run(ctx, a.IO.Out, keys)
}

// screen is a live view.
type screen struct {
	look   look
	frame  frame // the last that could be drawn
	err    error // why there is no newer one
	colour bool
	every  time.Duration
	size   func() (width, height int) // height 0: not known
}

// Controls of a terminal (xterm's): another screen without a cursor, and back.
const (
	enterScreen, leaveScreen = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
	drawOver                 = "\x1b[H"
	eraseLine, eraseBelow    = "\x1b[K", "\x1b[J"
)

// run draws until a key that leaves, or the end of ctx.
func (s *screen) run(ctx context.Context, out io.Writer, keys <-chan byte) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if _, err := io.WriteString(out, enterScreen); err != nil {
		return err
	}
	defer func() { _, _ = io.WriteString(out, leaveScreen) }() // the terminal is gone if this fails
	type found struct {
		f   frame
		err error
	}
	next := make(chan found)
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(s.every):
			}
			_, f, err := s.look(ctx)
			select {
			case next <- found{f, err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	for {
		if _, err := io.WriteString(out, s.view()); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case k := <-keys:
			switch k {
			case 'q', 'Q', 3, 4, 27: // Ctrl-C, Ctrl-D, Esc
				return nil
			}
		case n := <-next:
			if s.err = n.err; n.err == nil {
				s.frame = n.f
			}
		}
	}
}

// cutBack is how many lines a view gives up at most to end with a whole paragraph.
const cutBack = 7

// view is the whole picture: the frame cut to the screen, and a last line.
func (s *screen) view() string {
	width, height := s.size()
	width = max(width, 20)
	lines := strings.Split(strings.TrimRight(s.frame(width, s.colour), "\n"), "\n")
	last := iostreams.Paint(s.colour, iostreams.Dim, "q leaves")
	if s.err != nil {
		last = iostreams.Paint(s.colour, iostreams.Red, fit("the server does not answer, the picture is old: "+s.err.Error(), width))
	}
	if room := height - 2; height > 2 && len(lines) > room {
		// What does not fit is left out whole, paragraph by paragraph, and not in secret.
		n := room - 1
		for back := n; back > n-cutBack && back > 0; back-- {
			if lines[back] == "" {
				n = back
				break
			}
		}
		lines = append(lines[:max(n, 0)], iostreams.Paint(s.colour, iostreams.Dim, fit("… a taller window shows more", width)))
	}
	lines = append(lines, "", last)
	return drawOver + strings.Join(lines, eraseLine+"\r\n") + eraseLine + eraseBelow
}

func watched(ctx context.Context, c *client.Client, arena string) (*Watched, error) {
	w := &Watched{}
	var err error
	if w.Arena, err = c.Arena(ctx, arena); err != nil {
		return nil, err
	}
	if w.Board, err = c.Board(ctx, arena); err != nil {
		return nil, err
	}
	page, err := c.Submissions(ctx, arena, "", client.ListOptions{Limit: 50})
	if err != nil {
		return nil, err
	}
	w.Contests = []client.Submission{}
	for _, s := range page.Items {
		if len(s.Contest) > 0 && s.Decision == nil {
			w.Contests = append(w.Contests, s)
		}
	}
	return w, nil
}

func topped(ctx context.Context, c *client.Client) (*Topped, error) {
	list, err := c.Arenas(ctx)
	if err != nil {
		return nil, err
	}
	o, err := c.Overview(ctx)
	if err != nil {
		return nil, err
	}
	t := &Topped{Runs: o.Runs, Arenas: []TopArena{}}
	names, metrics := map[string]string{}, map[string]string{}
	for _, b := range o.Arenas {
		for _, r := range b.Submissions {
			names[r.ID] = r.Name
		}
		maps.Copy(metrics, measuredIn(b.Decisions))
	}
	for _, x := range list {
		row := TopArena{ID: x.ID, State: x.State, Queued: x.Queued, Playing: x.Playing, Judging: x.Judging}
		if x.Champion != nil {
			row.Leader, row.Score = cmp.Or(names[x.Champion.Submission], x.Champion.Submission), x.Champion.Score
			row.Measured = metrics[x.Champion.Submission]
		}
		t.Arenas = append(t.Arenas, row)
	}
	t.Validators, err = c.Standings(ctx)
	return t, err
}

// measuredIn are the metrics that replays measured, by submission: in their arenas
// a score only says what the metric is worth between 0 and 1.
func measuredIn(list []client.BoardDecision) map[string]string {
	out := map[string]string{}
	for _, d := range list {
		if x, ok := d.Numbers["observed"]; ok {
			out[d.Challenger] = incentive.Figure(x)
		}
	}
	return out
}

// fit cuts hostile text to one line of n columns.
func fit(s string, n int) string {
	s = plain.Line(s)
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:max(n-1, 0)]) + "…"
}

// pad is fit, filled up to n columns.
func pad(s string, n int) string {
	s = fit(s, n)
	return s + strings.Repeat(" ", max(0, n-utf8.RuneCountInString(s)))
}

// bar draws a share of 0 to 1 in n columns.
func bar(share float64, n int) string {
	full := int(min(max(share, 0), 1)*float64(n) + 0.5)
	return strings.Repeat("█", full) + strings.Repeat("·", n-full)
}

// wrap breaks text into lines of at most n columns, at blanks.
func wrap(s string, n int) (out []string) {
	line := ""
	for _, w := range strings.Fields(plain.Line(s)) {
		switch {
		case line == "":
			line = w
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(w) > n:
			out, line = append(out, fit(line, n)), w
		default:
			line += " " + w
		}
	}
	if line != "" {
		out = append(out, fit(line, n))
	}
	return out
}

// What a frame of an arena shows at most.
const (
	watchRows, watchDecisions = 12, 5
	watchName, watchNumbers   = 24, 26 // columns
	leastBar, watchBar        = 12, 60 // columns: the rest is for names
	scoreColumns              = 6
	keyColumns                = 48 // of a hotkey
)

func watchFrame(w *Watched, width int, colour bool) string {
	var b strings.Builder
	line := func(st iostreams.Style, s string) { b.WriteString(iostreams.Paint(colour, st, s) + "\n") }
	text := func(st iostreams.Style, s string) {
		for _, l := range wrap(s, width) {
			line(st, l)
		}
	}
	a := w.Arena
	line(iostreams.Bold, fit(a.Title, width))
	line(iostreams.Dim, fit(fmt.Sprintf("%s · %s · %s · %d waiting, %d under way, %d judged again", a.ID, a.Kind, a.State, a.Queued, a.Playing, a.Judging), width))
	text("", w.Board.Pays)
	line("", "")
	metrics, longest := measuredIn(w.Board.Decisions), watchName-3
	for _, r := range w.Board.Submissions[:min(len(w.Board.Submissions), watchRows)] {
		longest = max(longest, utf8.RuneCountInString(plain.Line(r.Name)))
	}
	room := max(10, width-watchName-watchNumbers)
	scores := scoreColumns
	for _, m := range metrics {
		scores = max(scores, utf8.RuneCountInString(m))
	}
	room = max(10, room-scores+scoreColumns)
	name := watchName - 3 + max(0, min(longest-watchName+3, room-leastBar))
	room = min(room-(name-watchName+3), watchBar)
	for i, r := range w.Board.Submissions {
		if i == watchRows {
			line(iostreams.Dim, fmt.Sprintf("and %d more", len(w.Board.Submissions)-i))
			break
		}
		st, mark, share, score := iostreams.Style(""), " ", 0.0, "     –"
		if r.Score != nil {
			share, score = *r.Score, fmt.Sprintf("%6.4f", *r.Score)
			if m := metrics[r.ID]; m != "" {
				score = m
			} else if a.Contest != nil {
				score = "     –"
			}
		}
		if w.Board.Champion != nil && *w.Board.Champion == r.ID {
			st, mark = iostreams.Yellow, "★"
		}
		note := string(r.State)
		if r.Scripted {
			note = "scripted"
		}
		line(st, fit(mark+" "+pad(r.Name, name)+" "+bar(share, room)+" "+strings.Repeat(" ", max(0, scores-utf8.RuneCountInString(score)))+score+" "+pad(solvedOf(r), 7)+" "+note, width))
	}
	if len(w.Board.Submissions) == 0 {
		line("", "nobody has entered yet")
	}
	for _, s := range w.Contests {
		need, has := s.Contest["need"], s.Contest["evidence"]
		share := 0.0
		if need > 1 && has > 1 {
			share = has / need
		}
		line("", "")
		line(iostreams.Cyan, fit(fmt.Sprintf("%s challenges: evidence %.4g of %.4g after %.0f of at most %.0f pairs", s.Name, has, need, s.Contest["pairs"], s.Contest["max_pairs"]), width))
		line(iostreams.Cyan, bar(share, max(10, width-2)))
	}
	last := w.Board.Decisions[max(0, len(w.Board.Decisions)-watchDecisions):]
	for _, d := range slices.Backward(last) { // the newest first
		line("", "")
		name := d.Challenger
		for _, r := range w.Board.Submissions {
			if r.ID == d.Challenger {
				name = r.Name
			}
		}
		st := iostreams.Dim
		if d.Outcome == agon.TookSeat {
			st = iostreams.Green
		}
		text(st, name+": "+d.Sentence)
	}
	return b.String()
}

func solvedOf(r client.BoardRow) string {
	if r.Solved == nil || r.Total == nil {
		return ""
	}
	return fmt.Sprintf("%d/%d", *r.Solved, *r.Total)
}

func topFrame(t *Topped, width int, colour bool) string {
	var b strings.Builder
	line := func(st iostreams.Style, s string) { b.WriteString(iostreams.Paint(colour, st, fit(s, width)) + "\n") }
	line(iostreams.Bold, fmt.Sprintf("%d runs scored, %d failed on our side", t.Runs.Scored, t.Runs.Failed))
	for _, f := range []agon.Fault{agon.FaultAgent, agon.FaultProvider, agon.FaultValidator, agon.FaultPlatform} {
		if n := t.Runs.ByFault[f]; n > 0 {
			line("", fmt.Sprintf("  %d by a fault of the %s", n, f))
		}
	}
	line("", "")
	line(iostreams.Dim, pad("arena", 22)+pad("state", 8)+"waiting  playing  judged again  leads with")
	for _, a := range t.Arenas {
		leader := "nobody"
		if a.Leader != "" {
			leader = cmp.Or(a.Measured, fmt.Sprintf("%.4f", a.Score)) + " " + a.Leader // a long name is cut, not the score
		}
		st := iostreams.Style("")
		if a.Queued > 0 && a.Playing == 0 {
			st = iostreams.Yellow
		}
		line(st, pad(a.ID, 21)+" "+pad(string(a.State), 8)+fmt.Sprintf("%7d  %7d  %12d  %s", a.Queued, a.Playing, a.Judging, leader))
	}
	line("", "")
	key := 21
	if width >= keyColumns+60 {
		key = keyColumns
	}
	line(iostreams.Dim, pad("validator", key+1)+"   runs  judged again  contradicted  standing")
	for _, v := range t.Validators.Validators {
		st, state := iostreams.Style(""), ""
		switch {
		case v.Excluded:
			st, state = iostreams.Red, "  excluded"
		case v.Named:
			st, state = iostreams.Yellow, "  named"
		}
		line(st, pad(v.Hotkey, key)+" "+fmt.Sprintf("%7d  %12d  %12d  %8.2f%s", v.Runs, v.JudgedAgain, v.Contradicted, v.Standing, state))
	}
	if len(t.Validators.Validators) == 0 {
		line("", "no validator has played yet")
	}
	return b.String()
}
