// Package kit is what a kind of arena hands over (Kit), and what it may use of
// the process that it is part of: Options, Server, boxes, gateways, players.
package kit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
	"github.com/agon-arena/agon/calc"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/corpus"
	"github.com/agon-arena/agon/engine/environment"
	"github.com/agon-arena/agon/engine/incentive"
	"github.com/agon-arena/agon/engine/judge"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/platform"
	"github.com/agon-arena/agon/engine/store"
	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/engine/validator"
	"github.com/agon-arena/agon/gateway"
	"github.com/agon-arena/agon/gateway/provider/scripted"
	"github.com/agon-arena/agon/gateway/tool"
	"github.com/agon-arena/agon/internal/lazyregexp"
	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/local"
	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/ui/cli"
	"github.com/agon-arena/agon/ui/web"
)

// Kit is all that the roles know of one kind: `agon up`, `serve`, `validator`,
// `try` and the rest are put together from a list of kits. Only Kind and New are
// required; everything else is an ability that a kind may have, and this is the
// one place where they are listed.
//
// A Kit is made anew for every process: its functions may share state.
type Kit struct {
	// Libraries holds lists of Python packages that arenas may give their agents, as
	// libraries/NAME.txt (package libraries); nil: none ship.
	Libraries fs.FS
	// Kind is the name that arenas give (kind = "golf").
	Kind string
	// New makes the kind. A server that does not play has no root file system.
	New func(Parts) kind.Kind

	// Data holds samples/NAME, template (what `agon agent new KIND` writes) and
	// tasks/SET/TASK. Optional; package embed makes one.
	Data fs.FS
	// Sets are the shipped sets of tasks, in the order of listing: directories of
	// Data's tasks, unless LoadSet makes one of them otherwise (ok).
	Sets    []string
	LoadSet func(o Options, set string) (list []*task.Task, ok bool, err error)
	// Generate makes the set of a period, for arenas whose supply is a generator: the
	// same request gives the same tasks, and knowing the tasks of one seed is of no use
	// for those of another. Its tasks have the levels of difficulty 1 to Levels; 0: they have none.
	Generate func(ctx context.Context, o Options, r GenerateRequest) ([]*task.Task, error)
	Levels   int
	// MadeFrom names what a task is made from, by its key, where others are made from
	// the same and the key tells it: "seed 7"; "": nothing that another task shares.
	// Of such tasks none stays hidden while another is public.
	MadeFrom func(key string) string
	// Supply makes the supply of an arena where the kind has one of its own, and
	// completes its period; nil from it: it is as the arena file says.
	Supply func(s *Server, f ArenaFile, a *agon.Arena) (platform.Supply, error)
	// Feeds says that Supply makes sets of what is published (agon.SupplyFeed).
	Feeds bool
	// CheckTask says what is wrong with a task of the kind, beyond what every
	// task is checked for.
	CheckTask func(*task.Task) error
	// TaskInit writes the template of a task of the kind into dir and returns the
	// names of its files. TaskPreflight tries tasks before they are paid for.
	TaskInit func(dir string) ([]string, error)
	// Adopts tells whether a task that names no kind is one of this kind's: tasks
	// of others, in a form that has no place for it.
	Adopts        func(*task.Task) bool
	TaskPreflight func(ctx context.Context, o Options, d sandbox.Driver, rootfs string, list []*task.Task) ([]cli.TaskPreflight, error)
	// TaskFromRelease makes tasks of releases of a package. env hands out a place
	// to play in; call done afterwards.
	TaskFromRelease func(ctx context.Context, o Options, d sandbox.Driver, rootfs string, k kind.Kind, env func(agon.RunSpec) (e kind.Env, done func()), r cli.TaskReleaseOptions) ([]cli.TaskMade, error)
	// TaskCanary writes a task with t's statement into dir, which must not be there,
	// whose tree has other names, and returns what it changed, old to new. The same
	// seed makes the same task.
	TaskCanary func(t *task.Task, dir, seed string) (map[string]string, error)
	// PrepareTasks fetches what fetched tasks need besides: compilers, interpreters.
	PrepareTasks func(ctx context.Context, list []*task.Task, say func(string)) error
	// InsteadOfCheck and InsteadOfTry name what serves the kind better than
	// `agon task check` and `agon try`; nil: these do.
	InsteadOfCheck, InsteadOfTry *Instead
	// InsteadOfTemplate is the command that begins an entry of a kind which has no
	// template, as it is typed; "": none.
	InsteadOfTemplate string
	// EntryName is the path under which a single file is entered ("agent.py"); "":
	// under its own name.
	EntryName string
	// Baseline is the score of 0 to 1 on every task of what holds an empty seat under
	// the rule paired, where an arena file says none: what guessing gets.
	Baseline float64
	// FinalCall is the call that hands over an agent's answer, if the kind has one:
	// a corpus keeps only conversations that end with it.
	FinalCall *corpus.FinalCall

	// Environment plays tasks of the kind call by call for trainers (`agon env serve`);
	// nil: the kind's agents own their loop.
	Environment func(ctx context.Context, o Options, list []*task.Task) (environment.Environment, error)

	// Judge is what the judges of a run of so many tasks may ask of a platform's
	// gateway where the arena does not say; nil: they ask no model.
	Judge func(tasks int) *agon.Judging

	// Exams are labelled cases for prompts of the kind's own judges, for `agon judge
	// calibrate`, besides those that every binary has (judge.Exams).
	Exams []judge.Exam

	// Demo is the arena that `agon up` opens without a file, on a subnet of its
	// own. Samples are entered there, in this order; Enter does it where entering
	// is not a plain submission. Script (JSON) answers the samples' model calls
	// where no model is configured.
	// With Quiet it is opened only where it is named (`agon up --arena KIND.toml`).
	Demo    func() ArenaFile
	Quiet   bool
	Samples []Sample
	Enter   func(ctx context.Context, s *Server, f ArenaFile) error
	Script  func() []byte
	// Beside makes what plays next to the platform in a demo of the kind.
	Beside func(ctx context.Context, s *Server, f ArenaFile, d sandbox.Driver, rootfs string) (Beside, error)
	// Show is what a bare `agon up` goes on to play once its demos are decided.
	Show *Show
	// Agreement is what validators without a platform say of an arena; nil from
	// it: there are none here.
	Agreement func(arena string) *client.Agreement

	// Page is what the boards of the kind's arenas show below what all boards show.
	Page *web.Part

	// Incentives are the rules that arenas may name besides the engine's own, Calc
	// those that `agon calc` recomputes.
	Incentives map[string]incentive.Rule
	Calc       []calc.Rule

	// Dialects are what the kind's agents may speak at a gateway besides its own
	// dialects; the kind says which of them its doors speak (kind.Speaker).
	Dialects []gateway.Dialect
	// Tools are the metered tools that the kind adds to a gateway.
	Tools func(o Options) ([]tool.Tool, error)
	// ToolHost serves the tools that scripts call by name, next to gateway gw; stop
	// ends it. At most one kit of a list has it.
	ToolHost func(o Options, docs any, d sandbox.Driver, rootfs string, gw *gateway.Gateway) (h *validator.ToolHost, stop func(), err error)

	// Coordinator keeps the kind's own books in the platform's transactions. Open
	// is called once, when there is a platform and before any arena is opened.
	Coordinator platform.Coordinator
	Open        func(ctx context.Context, s *Server) error
	// Prepare completes every arena of the kind before it is opened, Opened is
	// called after.
	Prepare, Opened func(ctx context.Context, s *Server, a *agon.Arena) error
	// Routes are the patterns of the kind's foreign dialect (net/http); Serve makes
	// their handler for the first arena of the kind that is opened.
	Routes []string
	Serve  func(ctx context.Context, s *Server, a agon.Arena) (http.Handler, error)
	// Waits: clients of the dialect leave for good where they are answered 503, so that
	// their requests wait for a server that starts.
	Waits bool

	// Commands are what the kind adds to the command line a; kits is the list that
	// the kit is of.
	Commands func(a *cli.App, kits List) []cli.Extra
	// Programs are public clients of the kind that agon stands in for: it is one of
	// them when it is started under its name.
	Programs []Program
	// Setup prepares what the kind's tasks need on this machine (`agon setup`),
	// Doctor says whether it is there.
	Setup  func(ctx context.Context, o Options, d sandbox.Driver, rootfs string) error
	Doctor func(o Options) []cli.Check
}

// Program is a client that agon is when it is started under another name.
type Program struct {
	Name string
	Args func(args []string) []string // its command line as agon's
	Exit func(code int) int           // agon's exit code as its own
}

// Instead names a command that serves a kind better.
type Instead struct {
	Why  string // "is a research task, which has no reference solution"
	Mend string // "agon task preflight tries it"
}

// Entry is the path under which a miner's file is entered.
func (k Kit) Entry(file string) string {
	if k.EntryName == "" {
		return filepath.Base(file)
	}
	return k.EntryName
}

// Beside plays next to a platform until its context ends; with once it ends
// when there is something to see.
type Beside interface {
	Run(ctx context.Context, once bool)
	Close()
}

// Parts are what a kind may be made of.
type Parts struct {
	Options Options
	Rootfs  string // of the boxes; "" on a server that does not play
	Model   string // what AGON_LLM_MODEL says: one name, or several between commas
	Keyed   bool   // a real model is configured
	// Judges are the models that judge, the first before its substitutes; empty is the gateway's first.
	Judges []string
	// Panel is how many of Judges give a verdict of each case; below 2: one.
	Panel int
}

// Parts are those of this host, playing in boxes over rootfs.
func (o Options) Parts(rootfs string) Parts {
	p := Parts{Options: o, Rootfs: rootfs}
	if o.Getenv == nil {
		return p
	}
	p.Model, p.Keyed = o.Getenv("AGON_LLM_MODEL"), o.Getenv("AGON_LLM_BASE_URL") != "" || o.Getenv("AGON_JUDGE_BASE_URL") != ""
	p.Judges = o.Models(RoleJudge)
	if n, err := strconv.Atoi(o.Getenv("AGON_JUDGE_PANEL")); err == nil {
		p.Panel = min(n, len(p.Judges))
	}
	return p
}

// Sample is one of the kind's own agents, in Kit.Data.
type Sample struct {
	Name  string
	Model bool // it asks a model: without a configured one it plays on the script and is never seated
	// Refused samples show a gate at work: entering them fails, and that is shown.
	Refused bool
}

// List is the kinds of one binary, in the order of listing.
type List []Kit

// Of returns the kit of a kind.
func (l List) Of(kind string) (Kit, bool) {
	for _, k := range l {
		if k.Kind == kind {
			return k, true
		}
	}
	return Kit{}, false
}

// Check says what is wrong with a list: every kit has a name of its own and makes a kind.
func (l List) Check() error {
	seen := map[string]bool{}
	for _, k := range l {
		switch {
		case !kindName().MatchString(k.Kind):
			return fmt.Errorf("kind %q: want 2 to 40 of a-z, 0-9 and -, starting with a letter", k.Kind)
		case k.New == nil:
			return fmt.Errorf("kind %s: its kit has no New", k.Kind)
		case seen[k.Kind]:
			return fmt.Errorf("kind %s: two kits have this name", k.Kind)
		}
		seen[k.Kind] = true
	}
	return nil
}

// kindName is what a task and an arena file may name.
var kindName = lazyregexp.New(`^[a-z][a-z0-9-]{1,39}$`)

// Names lists the kinds that arenas may name.
func (l List) Names() []string {
	var out []string
	for _, k := range l {
		out = append(out, k.Kind)
	}
	return out
}

// Commands returns what the kinds add to a command line.
func (l List) Commands() []func(a *cli.App) []cli.Extra {
	var out []func(a *cli.App) []cli.Extra
	for _, k := range l {
		if k.Commands != nil {
			out = append(out, func(a *cli.App) []cli.Extra { return k.Commands(a, l) })
		}
	}
	return out
}

// Program is what the binary is when it is started as path: agon itself, unless
// a kind has a program of this name.
func (l List) Program(path string) Program {
	name := filepath.Base(path)
	for _, k := range l {
		for _, p := range k.Programs {
			if p.Name == name {
				return p
			}
		}
	}
	return Program{Name: name, Args: func(args []string) []string { return args }, Exit: func(code int) int { return code }}
}

// Commons returns what the kinds give away: the template and the samples of each.
func (l List) Commons() platform.Commons {
	out := platform.Commons{}
	for _, k := range l {
		if k.Data == nil {
			continue
		}
		for _, dir := range []string{"template", "samples"} {
			if sub, err := fs.Sub(k.Data, dir); err == nil {
				if _, err := fs.Stat(sub, "."); err == nil {
					out[k.Kind] = append(out[k.Kind], sub)
				}
			}
		}
	}
	return out
}

// DemoPairs are the numbers of the rule paired in a demo: one machine has one
// validator, the samples are few and far apart, and nobody loses by a mistake,
// so that its alpha is larger than an arena's should be.
func DemoPairs() map[string]float64 {
	return map[string]float64{
		incentive.NumValidators: 1, incentive.NumAgree: 1, incentive.NumAlpha: 0.05, incentive.NumEntries: 0,
		incentive.NumMaxPairs: 96, incentive.NumBatch: 8, incentive.NumMinGain: 0.2,
	}
}

// Incentives returns every rule that arenas may name: the engine's own, of which
// paired is the default, and those of the kinds.
func (l List) Incentives() map[string]incentive.Rule {
	m := map[string]incentive.Rule{incentive.WinnerTakesAllRule: incentive.WinnerTakesAll(), incentive.PairedRule: incentive.Paired()}
	for _, k := range l {
		maps.Copy(m, k.Incentives)
	}
	return m
}

// Exams returns what judges can be measured by: the engine's own, then the kinds'.
func (l List) Exams() []judge.Exam {
	out := judge.Exams()
	for _, k := range l {
		out = append(out, k.Exams...)
	}
	return out
}

// Finals returns the final calls of the kinds that have one.
func (l List) Finals() corpus.Finals {
	out := corpus.Finals{}
	for _, k := range l {
		if k.FinalCall != nil {
			out[k.Kind] = k.FinalCall
		}
	}
	return out
}

// Dialects returns what a gateway of this process speaks besides its own dialects.
func (l List) Dialects() []gateway.Dialect {
	var out []gateway.Dialect
	for _, k := range l {
		out = append(out, k.Dialects...)
	}
	return out
}

// Speaks names every dialect that a session of the kind's agents may have: what
// its doors speak, and what it brings to a gateway.
func (k Kit) Speaks() []string {
	out := slices.Clone(kind.Dialects(k.New(Parts{})))
	for _, d := range k.Dialects {
		if !slices.Contains(out, d.Name) {
			out = append(out, d.Name)
		}
	}
	return out
}

// Demos returns the arenas that are opened without a file.
func (l List) Demos() []ArenaFile {
	var out []ArenaFile
	for _, k := range l {
		if k.Demo != nil && !k.Quiet {
			out = append(out, k.Demo().Complete(l))
		}
	}
	return out
}

// Script joins the scripts of all kinds' samples and of what they show: the first rule that
// matches answers.
func (l List) Script() (*scripted.Script, error) {
	var all []*scripted.Script
	for _, k := range l {
		for _, script := range k.scripts() {
			s, err := scripted.Parse(script(), "json")
			if err != nil {
				return nil, fmt.Errorf("read the script of %s: %w", k.Kind, err)
			}
			all = append(all, s)
		}
	}
	return scripted.Join(all...), nil
}

// Libraries are the lists of packages that ship, of all kinds, by name.
func (l List) Libraries() map[string][]byte {
	out := map[string][]byte{}
	for _, k := range l {
		if k.Libraries == nil {
			continue
		}
		files, _ := fs.Glob(k.Libraries, "libraries/*.txt")
		for _, f := range files {
			if b, err := fs.ReadFile(k.Libraries, f); err == nil {
				out[strings.TrimSuffix(path.Base(f), ".txt")] = b
			}
		}
	}
	return out
}

// Templates returns what `agon agent new KIND` writes, by kind.
func (l List) Templates() map[string]fs.FS {
	out := map[string]fs.FS{}
	for _, k := range l {
		if k.Data == nil {
			continue
		}
		if _, err := fs.Stat(k.Data, "template"); err != nil {
			continue
		}
		if sub, err := fs.Sub(k.Data, "template"); err == nil {
			out[k.Kind] = sub
		}
	}
	return out
}

// Starts are the commands that begin an entry of the kinds without a template, by kind.
func (l List) Starts() map[string]string {
	out := map[string]string{}
	for _, k := range l {
		if k.InsteadOfTemplate != "" {
			out[k.Kind] = k.InsteadOfTemplate
		}
	}
	return out
}

// Agreement is what validators without a platform say of an arena; nil where
// there are none.
func (l List) Agreement(arena string) *client.Agreement {
	for _, k := range l {
		if k.Agreement == nil {
			continue
		}
		if a := k.Agreement(arena); a != nil {
			return a
		}
	}
	return nil
}

// Pages returns what boards show besides, by kind.
func (l List) Pages() map[string]web.Part {
	out := map[string]web.Part{}
	for _, k := range l {
		if k.Page != nil {
			out[k.Kind] = *k.Page
		}
	}
	return out
}

// Coordinators returns those of the kinds that have one.
func (l List) Coordinators() map[string]platform.Coordinator {
	out := map[string]platform.Coordinator{}
	for _, k := range l {
		if k.Coordinator != nil {
			out[k.Kind] = k.Coordinator
		}
	}
	return out
}

// Kinds returns every kind, playing in boxes over rootfs.
func (o Options) Kinds(rootfs string) map[string]kind.Kind {
	p := o.Parts(rootfs)
	m := map[string]kind.Kind{}
	for _, k := range o.Kits {
		m[k.Kind] = k.New(p)
	}
	return m
}

// Files returns what a sample of the kit enters.
func (k Kit) Files(sample string) ([]client.File, error) {
	list, err := SampleFiles(k.Data, sample)
	if err != nil {
		return nil, err
	}
	var out []client.File
	for _, path := range slices.Sorted(maps.Keys(list)) {
		out = append(out, client.File{Path: path, Content: list[path]})
	}
	return out, nil
}

// ShippedSet returns a set of a kind as it ships: whole tasks, and recipes of
// tasks that are made from published packages.
func (o Options) ShippedSet(kind, name string) ([]*task.Task, error) {
	none := &agon.Error{
		Code: "not_found", Status: 404, Field: "sets", Message: "there is no shipped set " + name + " of the kind " + kind,
		Mend: "a directory is named with a slash: ./" + name,
	}
	k, ok := o.Kits.Of(kind)
	if !ok {
		return nil, none
	}
	if k.LoadSet != nil {
		list, mine, err := k.LoadSet(o, name)
		if err != nil {
			return nil, fmt.Errorf("make set %s: %w", name, err)
		}
		if mine {
			return o.Kits.checked(kind, list, nil)
		}
	}
	if strings.ContainsAny(name, `./\`) || k.Data == nil {
		return nil, none
	}
	sub, err := fs.Sub(k.Data, "tasks/"+name)
	if err != nil {
		return nil, none
	}
	if _, err := fs.Stat(sub, "."); errors.Is(err, fs.ErrNotExist) {
		return nil, none
	}
	list, err := task.LoadSet(sub, name)
	return o.Kits.checked(kind, list, err)
}

// Server is what a kind may use of the process that serves its arenas. The
// roles make it; nothing in it is to be changed.
type Server struct {
	Options  Options
	Data     *Data
	Store    *store.Store
	Blobs    blob.Store
	Ledger   *local.Ledger // the embedded one
	Platform *platform.Platform
	Operator *Party
	// URL is the address of /v1 on this machine, once it is served.
	URL func() string
	// Near is where parts of this process reach it.
	Near func() string
	// Graphs is the ledger that an arena is on.
	Graphs func(a agon.Arena) Graphs
	// Burns tells what was burned on the ledger that an arena is on.
	Burns func(a agon.Arena) ledger.Burns
	// EnsureSubnet makes the subnet of an arena, owned by the operator, and
	// registers val there, if it is not nil.
	EnsureSubnet func(ctx context.Context, a agon.Arena, val *Party) error
	// EnsureRegistered registers a demo's party unless it is registered; false
	// means that it could not be done here (a ledger elsewhere costs money).
	EnsureRegistered func(ctx context.Context, a agon.Arena, p *Party) (bool, error)
	// Background runs f next to the server, which ends its context and waits for
	// it before it closes what f uses.
	Background func(f func(ctx context.Context))
}
