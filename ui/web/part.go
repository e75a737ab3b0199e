package web

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"html/template"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
)

// Part is what the boards of one kind show besides what all boards show: below it.
type Part struct {
	// First shows it above the table of submissions instead.
	First bool
	// HTML is a template (html/template), with the functions that the pages have:
	// line for hostile text, short for addresses and digests, usd, score, when …
	// and {{template "chart" .}} for a *Chart. The pages' policy refuses scripts and
	// styles in it.
	HTML string
	// Data returns what the template shows of an arena; nil: nothing is shown. It
	// is called up to once a second and must not wait.
	Data func(ctx context.Context, arena string) any
	// Run is a template of the same sort, shown on the page of a run above its
	// steps; RunData returns what it shows, nil: nothing. It gets what the reader
	// may read, and only that.
	Run     string
	RunData func(ctx context.Context, v RunView) any
}

// RunView is a run as a reader of its page may see it.
type RunView struct {
	Run *client.Run
	// Events are those of the attempt that is shown, in order: the first thousand.
	// Data of those that the reader may not read says {"withheld":true}.
	Events []agon.Event
}

// Note finds the data of the last note with a text ("verdict") and reads it into
// out; false: there is none, or it is withheld.
func (v RunView) Note(text, task string, out any) bool {
	found := false
	for _, e := range v.Events {
		var n struct{ Text string }
		if e.Type == agon.EventNote && (task == "" || e.Task == task) && json.Unmarshal(e.Data, &n) == nil && n.Text == text {
			found = json.Unmarshal(e.Data, out) == nil
		}
	}
	return found
}

// Check says what is wrong with the part's templates.
func (p Part) Check() error {
	_, err := loadParts(map[string]Part{"": p})
	return err
}

// RenderRun renders the part of a run over data, for tests of a kind.
func (p Part) RenderRun(data any) (string, error) {
	t, err := newPart("run").Parse(p.Run)
	if err != nil {
		return "", err
	}
	var b bytes.Buffer
	err = t.Execute(&b, data)
	return b.String(), err
}

// Render renders the part over data as a board does, for tests of a kind.
func (p Part) Render(data any) (string, error) {
	t, err := p.parse()
	if err != nil {
		return "", err
	}
	var b bytes.Buffer
	err = t.Execute(&b, data)
	return b.String(), err
}

func (p Part) parse() (*template.Template, error) {
	return newPart("part").Parse(p.HTML)
}

// newPart is an empty template that may call those which pages share.
func newPart(name string) *template.Template {
	shared := template.Must(template.New("shared").Funcs(funcs).Funcs(clocks(time.Now)).ParseFS(files, "template/parts.html"))
	return shared.New(name)
}

func loadParts(list map[string]Part) (map[string]*template.Template, error) {
	out := map[string]*template.Template{}
	for kind, p := range list {
		t, err := p.parse()
		if err != nil {
			return nil, fmt.Errorf("parse page part of %s: %w", kind, err)
		}
		if _, err := t.New("run").Parse(p.Run); err != nil {
			return nil, fmt.Errorf("parse run part of %s: %w", kind, err)
		}
		out[kind] = t
	}
	return out, nil
}

// runPart renders what a kind shows of a run; one that cannot be rendered is left out.
func (s *server) runPart(ctx context.Context, kind string, v RunView) template.HTML {
	p, ok := s.cfg.Parts[kind]
	if !ok || p.RunData == nil {
		return ""
	}
	data := p.RunData(ctx, v)
	if data == nil {
		return ""
	}
	var b bytes.Buffer
	if err := s.parts[kind].ExecuteTemplate(&b, "run", data); err != nil {
		s.cfg.Log.Error("run part failed", "kind", kind, "run", v.Run.Run.Run, "err", err)
		return ""
	}
	return template.HTML(b.String()) // escaped by the part's own template
}

// part renders what a kind shows of an arena. A part that cannot be rendered is
// left out: the board is still worth seeing.
func (s *server) part(ctx context.Context, kind, arena string) template.HTML {
	t := s.parts[kind]
	if t == nil || s.cfg.Parts[kind].Data == nil {
		return ""
	}
	data := s.cfg.Parts[kind].Data(ctx, arena)
	if data == nil {
		return ""
	}
	var b bytes.Buffer
	if err := t.Execute(&b, data); err != nil {
		s.cfg.Log.Error("page part failed", "kind", kind, "arena", arena, "err", err)
		return ""
	}
	return template.HTML(b.String()) // escaped by the part's own template
}
