package web

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
)

func callsOf(word string) (out []Step) {
	for i, r := range word {
		out = append(out, Step{Seq: int64(i + 1), Title: "call", Blocks: []Block{{Text: string(r)}}})
	}
	return out
}

// letters writes rows as "=ab" for equal calls and "x|y" for others.
func letters(rows []alignedRow) string {
	var out []string
	for _, r := range rows {
		s := ""
		switch {
		case len(r.Same) > 0:
			s = "="
			for _, c := range r.Same {
				s += c.Blocks[0].Text
			}
		default:
			if r.Parting {
				s = "!"
			}
			if r.Left != nil {
				s += r.Left.Blocks[0].Text
			}
			s += "|"
			if r.Right != nil {
				s += r.Right.Blocks[0].Text
			}
		}
		out = append(out, s)
	}
	return strings.Join(out, " ")
}

func TestAlign(t *testing.T) {
	for _, c := range []struct{ x, y, want string }{
		{"", "", ""},
		{"abc", "abc", "=abc"},
		{"abc", "abx", "=ab !c|x"},
		{"abcd", "acd", "=a !b| =cd"},
		{"acd", "abbcd", "=a !|b |b =cd"},
		{"ab", "xy", "!a|x b|y"},
		{"ab", "", "!a| b|"},
		{"aXbYc", "aQbRc", "=a !X|Q =b Y|R =c"},
	} {
		rows, more := align(callsOf(c.x), callsOf(c.y))
		if got := letters(rows); got != c.want || more != 0 {
			t.Errorf("%s and %s: %q, want %q", c.x, c.y, got, c.want)
		}
	}
	rows, more := align(callsOf(strings.Repeat("a", readActs)), callsOf(strings.Repeat("b", readActs)))
	if len(rows) != shownRows || more != readActs-shownRows {
		t.Errorf("%d rows, %d more", len(rows), more)
	}
	shut := []Step{{Title: "model call", Withheld: true}}
	if rows, _ := align(shut, shut); len(rows) != 1 || len(rows[0].Same) != 0 {
		t.Errorf("calls that may not be read are called alike: %+v", rows)
	}
}

// Whatever two runs did, an alignment has every call of each once, in order, and
// as many equal ones as the longest common subsequence.
func TestAlignKeepsAll(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	word := func() string {
		b := make([]byte, r.IntN(12))
		for i := range b {
			b[i] = "abc"[r.IntN(3)]
		}
		return string(b)
	}
	for range 500 {
		x, y := word(), word()
		rows, _ := align(callsOf(x), callsOf(y))
		var left, right string
		alike := 0
		for _, row := range rows {
			for _, s := range row.Same {
				left, right, alike = left+s.Blocks[0].Text, right+s.Blocks[0].Text, alike+1
			}
			if row.Left != nil {
				left += row.Left.Blocks[0].Text
			}
			if row.Right != nil {
				right += row.Right.Blocks[0].Text
			}
		}
		if left != x || right != y || alike != common(x, y) {
			t.Fatalf("%s and %s: %q", x, y, letters(rows))
		}
	}
}

// common is the length of the longest common subsequence, the slow way.
func common(x, y string) int {
	if x == "" || y == "" {
		return 0
	}
	if x[0] == y[0] {
		return 1 + common(x[1:], y[1:])
	}
	return max(common(x[1:], y), common(x, y[1:]))
}

// Two submissions stand beside each other by the tasks on which they differ; a
// task leads to both runs, side by side.
func TestSubmissionsBeside(t *testing.T) {
	f := newFixture(t, agon.TaskRef{Key: "small/one"}, agon.TaskRef{Key: "small/two"})
	a := f.submit(miner, "<b>first", "x = 1")
	b := f.submit(rival, "second", "x = 2")
	for l := f.claim(); l != nil; l = f.claim() {
		v := 1.0
		if l.Submission.ID == b.ID && l.Run.Tasks[0].Key == "small/one" {
			v = 0
		}
		f.beat(l, event(1, agon.EventTool, l.Run.Tasks[0].Key, map[string]any{"tool": map[string]any{"tool": "bash", "outcome": "ok", "request": map[string]any{"cmd": fmt.Sprint(v, "<script>")}}}))
		f.score(l, v, "")
	}
	c := f.browser("")
	at := "/submissions/" + a.ID + "/with/" + b.ID
	status, page := f.get(c, at)
	if status != http.StatusOK {
		t.Fatalf("%d: %s", status, page)
	}
	for _, want := range []string{"On 2 tasks that both played, ", "is better on 1", "1 end alike", "✓ only &lt;b&gt;first", `href="` + at + `/run?task=small%2fone"`} {
		if !strings.Contains(page, want) {
			t.Errorf("%q is not in %s", want, page)
		}
	}
	if status, page = f.get(c, at+"/run?task=small/one"); status != http.StatusOK || !strings.Contains(page, "Here they part") || strings.Contains(page, "<script>") && strings.Contains(page, "1<script>") {
		t.Errorf("%d: %s", status, page)
	}
	if status, _ = f.get(c, at+"/run?task=nosuch"); status != http.StatusNotFound {
		t.Errorf("no such task: %d", status)
	}
}

// A run is set beside the latest of each other submission, not beside its own replicas.
func TestSiblings(t *testing.T) {
	run := func(id, sub, task string) client.Run {
		return client.Run{Run: agon.Run{RunSpec: agon.RunSpec{Run: id, Tasks: []agon.TaskRef{{Key: task}}}, Submission: sub}}
	}
	r := run("1", "a", "one")
	got := ""
	for _, x := range siblingsOf([]client.Run{run("2", "a", "one"), run("3", "b", "one"), run("4", "b", "one"), run("5", "c", "two"), {}, run("6", "d", "one")}, &r) {
		got += x.Run.Run.Run + " "
	}
	if got != "3 6 " {
		t.Errorf("runs %s", got)
	}
}

// A submission whose files are gone, or whose champion's are, still has its page.
func TestSubmissionWithoutFiles(t *testing.T) {
	f := newFixture(t, agon.TaskRef{Key: "small/one"})
	a := f.submit(miner, "first", "x = 1"+strings.Repeat(" ", 8<<10))
	b := f.submit(rival, "second", "x = 2")
	for l := f.claim(); l != nil; l = f.claim() {
		f.score(l, 1, "")
	}
	f.mayLog = "files of a submission cannot be read"
	c := f.browser("")
	must(t, os.RemoveAll(filepath.Join(filepath.Dir(f.db), "blobs")))
	for _, id := range []string{a.ID, b.ID} {
		if status, page := f.get(c, "/submissions/"+id); status != http.StatusOK || !strings.Contains(page, "Gates and decision") {
			t.Errorf("%s: %d: %s", id, status, page)
		}
	}
	if _, page := f.get(c, "/submissions/"+a.ID); !strings.Contains(page, "its files cannot be read at the moment") {
		t.Errorf("nothing is said: %s", page)
	}
}
