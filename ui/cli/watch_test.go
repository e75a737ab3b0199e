package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
)

// watchedFake is an arena with a leader, a rival of a hostile name, and a contest.
func watchedFake() *Watched {
	score, low, one, two := 0.75, 0.25, 1, 2
	champion := "a"
	w := &Watched{Arena: &client.Arena{Arena: agon.Arena{ID: "demo", Kind: "fake", Title: "Demo \x1b[31marena", State: agon.ArenaOpen}, Queued: 3}, Board: &client.Board{
		Champion: &champion, Pays: "first earns 100 %.",
		Submissions: []client.BoardRow{
			{ID: "a", Name: "first", Score: &score, Solved: &one, Total: &two, State: agon.SubmissionScored},
			{ID: "b", Name: "evil\x1b]0;title\x07\u202e" + strings.Repeat("x", 200), Score: &low, State: agon.SubmissionScored, Scripted: true},
		},
		Decisions: []client.BoardDecision{{Challenger: "a", Outcome: agon.TookSeat, Sentence: "Took the seat: " + strings.Repeat("long ", 60)}},
	}}
	w.Contests = []client.Submission{{Submission: agon.Submission{Name: "third"}, Contest: map[string]float64{"need": 164, "evidence": 82, "pairs": 12, "max_pairs": 1200}}}
	return w
}

func TestWatchFrame(t *testing.T) {
	for _, width := range []int{20, 80, 200} {
		f := watchFrame(watchedFake(), width, false)
		for line := range strings.Lines(f) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > width {
				t.Errorf("%d columns of %d: %q", n, width, line)
			}
		}
		if strings.ContainsAny(f, "\x1b\x07\u202e") {
			t.Errorf("a name reaches the terminal: %q", f)
		}
	}
	f := watchFrame(watchedFake(), 100, false)
	for _, want := range []string{"★ first", "0.7500 1/2", "scripted", "third challenges: evidence 82 of 164 after 12 of at most 1200 pairs", "first: Took the seat:", "3 waiting"} {
		if !strings.Contains(f, want) {
			t.Errorf("%q is not in the frame:\n%s", want, f)
		}
	}
}

func TestTopFrame(t *testing.T) {
	f := topFrame(&Topped{
		Arenas: []TopArena{{ID: "demo", State: agon.ArenaOpen, Queued: 2, Leader: "first", Score: 0.5}},
		Runs:   client.RunCounts{Scored: 7, Failed: 1, ByFault: map[agon.Fault]int{agon.FaultProvider: 1}},
		Validators: &client.Standings{Validators: []client.ValidatorStanding{
			{Hotkey: "5Liar", Runs: 9, Contradicted: 3, Standing: 0.2, Excluded: true}, {Hotkey: "5Good", Runs: 4, Standing: 1},
		}},
	}, 100, false)
	for _, want := range []string{"7 runs scored, 1 failed on our side", "1 by a fault of the provider", "0.5000 first", "excluded", "5Good"} {
		if !strings.Contains(f, want) {
			t.Errorf("%q is not in the frame:\n%s", want, f)
		}
	}
}

// A frame tells the newest decisions, measured metrics in place of what they are
// worth, names as whole as the terminal is wide, and ends at 80 by 24 with a whole
// paragraph.
func TestWatchOfManyAndMeasured(t *testing.T) {
	w := watchedFake()
	long := "odd-even merges in place of bubbles"
	w.Board.Submissions[0].Name = long
	w.Board.Decisions = nil
	for i := range 9 {
		w.Board.Decisions = append(w.Board.Decisions, client.BoardDecision{Challenger: "b", Sentence: fmt.Sprintf("Kept out %d: %s", i, strings.Repeat("because ", 20))})
	}
	w.Board.Decisions[8].Challenger, w.Board.Decisions[8].Numbers = "a", map[string]float64{"observed": 85.014}
	f := watchFrame(w, 200, false)
	if !strings.Contains(f, long) || !strings.Contains(f, "85.014") || strings.Contains(f, "0.7500") || strings.Contains(f, "Kept out 3") || strings.Index(f, "Kept out 8") > strings.Index(f, "Kept out 4") {
		t.Errorf("wide:\n%s", f)
	}
	w.Board.Decisions[7].Numbers = map[string]float64{"observed": 136.017}
	if f = watchFrame(w, 80, false); !strings.Contains(f, long) || !strings.Contains(f, " 136.017 ") || !strings.Contains(f, "  85.014 ") {
		t.Errorf("narrow:\n%s", f)
	}
	s := &screen{size: func() (int, int) { return 80, 24 }, frame: func(width int, colour bool) string { return watchFrame(w, width, colour) }}
	lines := strings.Split(s.view(), "\r\n")
	if len(lines) > 24 || len(lines) < 24-cutBack {
		t.Fatalf("%d lines", len(lines))
	}
	shown := 0
	for i, l := range lines {
		l = strings.TrimSuffix(strings.TrimPrefix(l, drawOver), eraseLine)
		if strings.HasPrefix(l, "…") {
			shown = i
			if before := strings.TrimSuffix(lines[i-1], eraseLine); !strings.HasSuffix(strings.TrimSpace(before), "because") && before != "" {
				t.Errorf("a paragraph is cut: %q", before)
			}
		}
	}
	if shown == 0 {
		t.Errorf("nothing says that more was left out:\n%s", strings.Join(lines, "\n"))
	}
	top := topFrame(&Topped{Arenas: []TopArena{{ID: "demo", State: agon.ArenaOpen, Leader: long, Score: 0.6154, Measured: "85.014"}}, Validators: &client.Standings{Validators: []client.ValidatorStanding{{Hotkey: strings.Repeat("k", keyColumns)}}}}, 80, false)
	if !strings.Contains(top, "85.014 odd-even") || strings.Contains(top, "0.6154") {
		t.Errorf("narrow:\n%s", top)
	}
	if top = topFrame(&Topped{Validators: &client.Standings{Validators: []client.ValidatorStanding{{Hotkey: strings.Repeat("k", keyColumns)}}}}, 200, false); !strings.Contains(top, strings.Repeat("k", keyColumns)) {
		t.Errorf("a key is cut where there is room:\n%s", top)
	}
}

// A live view draws anew, keeps the last picture when the server is away and says
// so, and leaves at q.
func TestScreen(t *testing.T) {
	n := 0
	keys := make(chan byte)
	s := &screen{every: time.Millisecond, size: func() (int, int) { return 60, 10 }, frame: func(int, bool) string { return "first\n" }}
	s.look = func(context.Context) (any, frame, error) {
		switch n++; n {
		case 1:
			return nil, func(int, bool) string { return "again\n" + strings.Repeat("line\n", 40) }, nil
		case 2:
			return nil, nil, errors.New("connection refused\x1b[31m")
		}
		keys <- 'x' // does nothing
		keys <- 'q'
		return nil, nil, errors.New("not shown")
	}
	var out strings.Builder
	if err := s.run(context.Background(), &out, keys); err != nil {
		t.Fatal(err)
	}
	pictures := strings.Split(out.String(), drawOver)
	if pictures[0] != enterScreen || !strings.HasSuffix(out.String(), leaveScreen) {
		t.Errorf("the screen is not entered and left: %q", out.String())
	}
	if !strings.HasPrefix(pictures[1], "first") || !strings.Contains(pictures[1], "q leaves") {
		t.Errorf("first picture %q", pictures[1])
	}
	if !strings.HasPrefix(pictures[2], "again") || strings.Count(pictures[2], "\r\n") != 9 {
		t.Errorf("second picture %q", pictures[2])
	}
	if !strings.HasPrefix(pictures[3], "again") || !strings.Contains(pictures[3], "does not answer") || strings.Contains(pictures[3], "\x1b[31m") {
		t.Errorf("picture without a server %q", pictures[3])
	}
}
