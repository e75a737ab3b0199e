package run

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/gateway/provider/scripted"
	"github.com/agon-arena/agon/incentive"
	"github.com/agon-arena/agon/kind"
	"github.com/agon-arena/agon/samples"
	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/task"
	"github.com/agon-arena/agon/tasks"
)

// kit is all that the wiring knows of one kind: each has one, in its own file
// kit_<kind>.go, and every role is put together from the list of them.
type kit struct {
	name string
	// build makes the kind; a server that does not play has no root file system.
	build func(parts) kind.Kind
	// demo is the arena that `agon up` opens without a file, on a subnet of its own.
	demo func() ArenaFile
	// sets are the shipped sets of tasks, in the order of listing. They are
	// directories of package tasks, unless load makes one of them otherwise.
	sets []string
	load func(o Options, set string) ([]*task.Task, bool, error)
	// samples are entered in the demo, in this order.
	samples []sample
	// script answers the samples' model calls where no model is configured (JSON).
	script func() []byte
	// incentives are the rules that arenas of this kind may name.
	incentives map[string]incentive.Rule
	// routes are the patterns of the foreign dialect of this kind; serve makes
	// their handler for the first arena of the kind that is opened.
	routes []string
	serve  func(ctx context.Context, s *server, a agon.Arena) (http.Handler, error)
	// prepare completes every arena of the kind before it is opened, opened is
	// told after. Both optional.
	prepare, opened func(ctx context.Context, s *server, a *agon.Arena) error
	// enter enters the samples where that is not a plain submission.
	enter func(ctx context.Context, s *server, f ArenaFile) error
	// beside makes what plays next to the platform in a demo of the kind. Optional.
	beside func(ctx context.Context, s *server, f ArenaFile, d sandbox.Driver, root string) (beside, error)
}

// beside plays next to the platform until its context ends; with once it ends
// when there is something to see.
type beside interface {
	run(ctx context.Context, once bool)
	close()
}

// parts are what a kind may be made of.
type parts struct {
	o      Options
	rootfs string
	model  string // the model of judges; empty: the gateway's first
	keyed  bool   // a real model is configured
}

// sample is one of agon's own agents: files of package samples.
type sample struct {
	name  string
	model bool // it asks a model: without a configured one it plays on the script and is never seated
	// refused samples show a gate at work: entering them fails, and that is said.
	refused bool
}

// kits are the kinds of this binary.
func kits() []kit { return []kit{codingKit(), claimKit(), packKit(), shoppingKit(), researchKit()} }

// kitOf returns the kit of a kind.
func kitOf(name string) (kit, bool) {
	for _, k := range kits() {
		if k.name == name {
			return k, true
		}
	}
	return kit{}, false
}

// KindNames lists the kinds that arenas may name.
func KindNames() []string {
	var out []string
	for _, k := range kits() {
		out = append(out, k.name)
	}
	return out
}

// kinds returns every kind, playing in boxes over rootfs.
func kinds(o Options, rootfs string) map[string]kind.Kind {
	o.floor()
	p := parts{o: o, rootfs: rootfs}
	if o.Getenv != nil {
		p.model, p.keyed = o.Getenv("AGON_LLM_MODEL"), o.Getenv("AGON_LLM_BASE_URL") != ""
	}
	m := map[string]kind.Kind{}
	for _, k := range kits() {
		m[k.name] = k.build(p)
	}
	return m
}

// incentives returns every rule that arenas may name.
func incentives() map[string]incentive.Rule {
	m := map[string]incentive.Rule{}
	for _, k := range kits() {
		maps.Copy(m, k.incentives)
	}
	return m
}

// demos returns the arenas that are opened without a file.
func demos() []ArenaFile {
	var out []ArenaFile
	for _, k := range kits() {
		if k.demo != nil {
			out = append(out, k.demo())
		}
	}
	return out
}

// arenaFiles returns the arenas to open: those of the files named, else the demos.
func arenaFiles(o Options) ([]ArenaFile, error) {
	if len(o.Arenas) == 0 {
		return demos(), nil
	}
	var out []ArenaFile
	for _, path := range o.Arenas {
		f, err := LoadArenaFile(path, KindNames())
		if err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	return out, nil
}

// demoScript joins the scripts of all kinds' samples: the first rule that matches answers.
func demoScript() (*scripted.Script, error) {
	var all []*scripted.Script
	for _, k := range kits() {
		if k.script == nil {
			continue
		}
		s, err := scripted.Parse(k.script(), "json")
		if err != nil {
			return nil, fmt.Errorf("read the script of %s: %w", k.name, err)
		}
		all = append(all, s)
	}
	return scripted.Join(all...), nil
}

// files returns what the sample enters in an arena of a kind.
func (sa sample) files(kind string) ([]client.File, error) {
	list, err := samples.Files(kind, sa.name)
	if err != nil {
		return nil, err
	}
	var out []client.File
	for _, path := range slices.Sorted(maps.Keys(list)) {
		out = append(out, client.File{Path: path, Content: list[path]})
	}
	return out, nil
}

// shippedSet returns a set of a kind as it ships: whole tasks, and recipes of
// tasks that are made from published packages.
func shippedSet(o Options, kind, name string) ([]*task.Task, error) {
	none := &agon.Error{
		Code: "not_found", Status: 404, Field: "sets", Message: "there is no shipped set " + name + " of the kind " + kind,
		Mend: "a directory is named with a slash: ./" + name,
	}
	k, ok := kitOf(kind)
	if !ok {
		return nil, none
	}
	if k.load != nil {
		list, mine, err := k.load(o, name)
		if err != nil {
			return nil, fmt.Errorf("make set %s: %w", name, err)
		}
		if mine {
			return list, nil
		}
	}
	if strings.ContainsAny(name, `./\`) {
		return nil, none
	}
	sub, err := fs.Sub(tasks.FS, kind+"/"+name)
	if err != nil {
		return nil, none
	}
	if _, err := fs.Stat(sub, "."); errors.Is(err, fs.ErrNotExist) {
		return nil, none
	}
	return task.LoadSet(sub, name)
}

// openForeign opens the dialect of an arena's kind, if it has one that is not open yet.
func (s *server) openForeign(ctx context.Context, a agon.Arena) error {
	k, ok := kitOf(a.Kind)
	if !ok || k.serve == nil {
		return nil
	}
	at := s.foreign[k.name]
	if at == nil || at.Load() != nil {
		return nil
	}
	h, err := k.serve(ctx, s, a)
	if err != nil {
		return err
	}
	at.Store(&h)
	return nil
}

// routeForeign makes room for the dialects of all kinds on mux. Until an arena
// of a kind is open, its routes are not found.
func (s *server) routeForeign(mux *http.ServeMux) {
	for _, k := range kits() {
		if k.serve == nil {
			continue
		}
		at := &handlerBox{}
		s.foreign[k.name] = at
		for _, p := range k.routes {
			mux.Handle(p, at)
		}
	}
}
