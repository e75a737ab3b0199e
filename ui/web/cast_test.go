package web

import (
	"bufio"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/kind"
)

// What a box printed is a recording in asciinema's form: times in order from 0,
// and nothing in its text that steers a terminal. The run's page leads there.
func TestCast(t *testing.T) {
	f := newFixture(t, agon.TaskRef{Key: "small/one"})
	f.submit(miner, "printer", "x = 1")
	l := f.claim()
	out := event(1, agon.EventOutput, "small/one", kind.Output{Stream: "output", Text: "one\n\x1b[2Jtwo\u202e\nthree", Marks: [][2]int64{{100, 4}, {1600, 14}, {1700, 1 << 40}}})
	silent := event(2, agon.EventOutput, "small/one", kind.Output{Stream: "evidence", Text: "no times"})
	f.beat(l, out, silent)
	f.score(l, 1, "")
	c := f.browser("")
	_, page := f.get(c, "/runs/"+l.Run.Run)
	link := "/runs/" + l.Run.Run + "/cast/1.cast"
	if !strings.Contains(page, `data-cast="`+link+`"`) {
		t.Fatalf("the page does not lead to %s", link)
	}
	resp, err := c.Get(f.url + link)
	must(t, err)
	defer resp.Body.Close()
	if got := resp.Header.Get("Content-Type"); resp.StatusCode != http.StatusOK || got != "application/x-asciicast" {
		t.Fatalf("%d %s", resp.StatusCode, got)
	}
	sc := bufio.NewScanner(resp.Body)
	sc.Scan()
	var head struct{ Version, Width, Height int }
	must(t, json.Unmarshal(sc.Bytes(), &head))
	if head.Version != 2 || head.Width < 1 || head.Height < 1 {
		t.Errorf("head %s", sc.Text())
	}
	var times []float64
	var text strings.Builder
	for sc.Scan() {
		var line [3]any
		must(t, json.Unmarshal(sc.Bytes(), &line))
		times = append(times, line[0].(float64))
		if line[1] != "o" {
			t.Errorf("line %v", line)
		}
		text.WriteString(line[2].(string))
	}
	if len(times) != 3 || times[0] != 0 || times[1] != 1.5 || times[2] != 1.6 {
		t.Errorf("times %v", times)
	}
	if got := text.String(); !strings.HasPrefix(got, "one\r\n") || !strings.HasSuffix(got, "three") || strings.ContainsAny(got, "\x1b\u202e") || strings.Contains(got, "no times") {
		t.Errorf("text %q", got)
	}
	for _, no := range []string{"/cast/2.cast", "/cast/0.cast", "/cast/x.cast", "/cast/1.txt"} {
		if status, _ := f.get(c, "/runs/"+l.Run.Run+no); status != http.StatusNotFound {
			t.Errorf("%s: %d", no, status)
		}
	}
}

// Marks that a validator made up neither reach beyond the text nor go back.
func TestCastMarks(t *testing.T) {
	for _, marks := range [][][2]int64{{{5, -9}, {4, 1 << 50}}, {{0, 3}, {1, 1}}, {{-1 << 62, 2}}} {
		b, err := json.Marshal(kind.Output{Text: "héé", Marks: marks})
		must(t, err)
		pieces := castOf(agon.Event{Type: agon.EventOutput, At: time.Unix(9, 0), Data: b})
		if _, err := writeCast(pieces, "x"); err != nil || len(pieces) != len(marks) {
			t.Errorf("%v: %v, %v", marks, pieces, err)
		}
	}
	if p := castOf(agon.Event{Type: agon.EventOutput, Data: json.RawMessage(`{"withheld":true}`)}); p != nil {
		t.Errorf("what is withheld has %v", p)
	}
}
