package coding

import (
	"context"
	_ "embed"

	"github.com/agon-arena/agon/kinds/coding/play"
	"github.com/agon-arena/agon/ui/web"
)

//go:embed run.html
var runHTML string

// page shows of a run the patch and its tests, before and after.
func page() *web.Part {
	return &web.Part{Run: runHTML, RunData: func(_ context.Context, v web.RunView) any {
		var g play.Grade
		if !v.Note(play.NoteGrade, "", &g) {
			return nil
		}
		return g
	}}
}
