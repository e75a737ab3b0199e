package web

import (
	"bytes"
	"context"
	"fmt"
	"html/template"
)

// Part is what the boards of one kind show below what all boards show.
type Part struct {
	// HTML is a template (html/template), with the functions that the pages have:
	// line for hostile text, short for addresses and digests, usd, score, when …
	// The pages' policy refuses scripts and styles in it.
	HTML string
	// Data returns what the template shows of an arena; nil: nothing is shown. It
	// is called up to once a second and must not wait.
	Data func(ctx context.Context, arena string) any
}

// Check says what is wrong with the part's template.
func (p Part) Check() error {
	_, err := p.parse()
	return err
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
	return template.New("part").Funcs(funcs).Parse(p.HTML)
}

func loadParts(list map[string]Part) (map[string]*template.Template, error) {
	out := map[string]*template.Template{}
	for kind, p := range list {
		t, err := p.parse()
		if err != nil {
			return nil, fmt.Errorf("parse page part of %s: %w", kind, err)
		}
		out[kind] = t
	}
	return out, nil
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
