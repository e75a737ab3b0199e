package cli

import (
	"errors"
	"strings"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/ui/cli/iostreams"
	"github.com/agon-arena/agon/ui/cli/output"
)

func TestOneOf(t *testing.T) {
	rows := []found{{"01a205c6-9775-7000-8000-00000001fde2", "small/url-router"}, {"01a205c6-9775-7000-8000-0000fd3f6a1c", "small/a"}}
	for name, want := range map[string]string{"fd3f6a1c": rows[1].id, "…fd3f6a1c": rows[1].id, "01a205c6-9775-7000-8000-00000001": rows[0].id, rows[0].id: rows[0].id} {
		if got, err := oneOf("run", name, rows); err != nil || got != want {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
	var e *agon.Error
	if _, err := oneOf("run", "01a205c6", rows); !errors.As(err, &e) || e.Code != "ambiguous" || !strings.Contains(e.Message, "fits 2 runs; newest: …0001fde2 small/url-router") {
		t.Errorf("two fit: %v", err)
	}
	for _, name := range []string{"nope", "", "1c", "…"} {
		if _, err := oneOf("run", name, rows); !errors.As(err, &e) || e.Status != 404 {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// An identifier in a narrow table is one that a command takes.
func TestNarrowIDs(t *testing.T) {
	id := "01a205c6-9775-7000-8000-0000fd3f6a1c"
	for _, width := range []int{40, 60, 80, 200} {
		s, out, _ := iostreams.Test("")
		s.ForceTTY(width)
		p, err := output.New(s, "table", "")
		if err != nil {
			t.Fatal(err)
		}
		err = p.Print(t.Context(), output.Result{Human: func(h *output.Human) {
			h.Table([]output.Column{{Title: "id", ID: true}, {Title: "task", Min: 4}, {Title: "state"}}, [][]output.Cell{{output.Text(id), output.Text("small/url-router-with-a-long-name"), output.Text("scored")}})
		}})
		if err != nil {
			t.Fatal(err)
		}
		line := strings.Split(out.String(), "\n")[1]
		shown, _, _ := strings.Cut(line, " ")
		if got, err := oneOf("run", shown, []found{{id, ""}}); err != nil || got != id {
			t.Errorf("width %d shows %q: %v", width, shown, err)
		}
	}
}
