package play

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/task"
)

// Discover runs every test that a runner finds in files of a task's tree after a
// patch, whatever the task's lists say, and returns which passed. It is how
// lists are made; it knows no twins.
func (k *Kind) Discover(ctx context.Context, env kind.Env, t *task.Task, pol agon.Policy, files []string, diff []byte) (map[string]bool, error) {
	a := &applied{}
	if len(diff) > 0 {
		var err error
		if a, err = k.apply(ctx, env, t, pol, diff); err != nil {
			return nil, err
		}
		if a.refused != "" {
			return nil, fmt.Errorf("the difference of the versions is not a patch: %s", a.refused)
		}
	}
	g, err := buildGrading(t, a.changed, a.exec)
	if err != nil {
		return nil, err
	}
	s, err := k.newStage(ctx, env, t, pol, g)
	if err != nil {
		return nil, err
	}
	defer s.close()
	o, ok := s.(*openStage)
	if !ok {
		return nil, fmt.Errorf("tests of %s are not discovered", t.Config.Agon.Runner)
	}
	r := &openReport{t: t, got: map[string]TestResult{}, begins: map[string]int{}, played: map[string]int{}, all: true}
	o.marks = []*body{}
	var units []*body
	var tests []string
	switch o.lang.runner {
	case "go":
		for _, f := range files {
			tree, err := parser.ParseFile(token.NewFileSet(), f, o.files[f], parser.SkipObjectResolution)
			if err != nil {
				continue
			}
			for _, d := range tree.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "Test") && fn.Name.Name != "TestMain" {
					tests = append(tests, path.Dir(f)+"::"+fn.Name.Name)
				}
			}
		}
		for _, id := range tests {
			units = append(units, &body{name: id, tests: []string{id}})
		}
	default:
		for _, f := range files {
			units = append(units, &body{name: f})
			tests = append(tests, f+"::")
		}
	}
	if o.lang.jobs == nil {
		err = o.pytest(ctx, map[string][]byte{}, units, 8*testTimeout(t), r)
	} else {
		err = o.run(ctx, map[string][]byte{}, units, tests, r)
	}
	if err != nil {
		return nil, err
	}
	out := map[string]bool{}
	valid, _ := task.RunnerOf(&t.Config.Agon)
	for _, id := range slices.Sorted(maps.Keys(r.got)) {
		if valid.ID(id) && len(id) <= 300 {
			out[id] = r.got[id].Passed && !r.got[id].again
		}
	}
	return out, nil
}
