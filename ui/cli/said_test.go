package cli

import (
	"strings"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/ui/cli/iostreams"
	"github.com/agon-arena/agon/ui/cli/output"
)

// Tasks without a model call are told in one line, not in a conversation each.
func TestSilentTasksAreOneLine(t *testing.T) {
	var events []agon.Event
	for _, task := range []string{"demo/a", "demo/b"} {
		events = append(events, agon.Event{Run: "r1", Attempt: 1, Task: task, Seq: int64(len(events) + 1), Type: agon.EventTool, Data: []byte(`{"tool":{"tool":"search_web"}}`)})
	}
	r := &client.Run{Run: agon.Run{RunSpec: agon.RunSpec{Run: "r1", Tasks: []agon.TaskRef{{Key: "demo/a"}, {Key: "demo/b"}}}}}
	var s storyteller
	if err := s.conversations(r, 1, events); err != nil {
		t.Fatal(err)
	}
	want := "The agent called no model on 2 of 2 tasks; what else it called: agon run trace r1"
	if got := strings.TrimSpace(s.b.String()); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// Who is not on the board for a score says why below it.
func TestBoardSaysWhyOut(t *testing.T) {
	s, out, _ := iostreams.Test("")
	s.ForceTTY(80)
	p, err := output.New(s, "", "")
	if err != nil {
		t.Fatal(err)
	}
	b := client.Board{ID: "demo", Submissions: []client.BoardRow{{ID: "s1", Name: "copy", State: agon.SubmissionExcluded, ExcludedReason: "its policy is a copy"}}}
	if err := p.Print(t.Context(), output.Result{Value: b, Human: func(h *output.Human) { boardHuman(h, &b) }}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "\ncopy: its policy is a copy\n") {
		t.Errorf("the board says %s", out)
	}
}
