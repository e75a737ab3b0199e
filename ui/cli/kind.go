package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agon-arena/agon/internal/plain"
	"github.com/agon-arena/agon/ui/cli/output"
)

// Kinds are forms of competition: those of this binary, and new ones.
type Kinds struct {
	List  func() []KindInfo
	New   func(KindNewOptions) (*KindNew, error)
	Build func(context.Context, BuildOptions) (*Built, error)
}

// KindInfo is a kind of this binary.
type KindInfo struct {
	Kind    string   `json:"kind"`
	Arena   string   `json:"arena,omitempty"` // the id of the one that it ships
	Sets    []string `json:"sets"`
	Samples []string `json:"samples"`
}

// KindNewOptions is `agon kind new`.
type KindNewOptions struct {
	Name, Dir string
	Module    string // "" = that which Dir lies in
	Agon      string // a clone of agon; "" = found
}

// KindNew is what was written.
type KindNew struct {
	Kind    string   `json:"kind"`
	Dir     string   `json:"dir"`
	Package string   `json:"package"`          // its import path
	Module  string   `json:"module,omitempty"` // if it is one of its own
	Arena   string   `json:"arena"`            // what `agon up --arena` takes
	Files   []string `json:"files"`
	Next    []string `json:"next"` // what to do now, in order
}

// BuildOptions is `agon build`.
type BuildOptions struct {
	With []string // MODULE[@VERSION] or MODULE=DIR
	File string   // the binary
	Agon string   // a clone of agon; "" = found
	Say  func(format string, args ...any)
}

// Built is a binary with more kinds.
type Built struct {
	File string   `json:"file"`
	With []string `json:"with"`
	Agon string   `json:"agon"` // where its own code was taken from
}

func (a *App) kindCmd(k Kinds) *cobra.Command {
	list := &cobra.Command{
		Use:     "list",
		Short:   "List the kinds of arena in this binary",
		Long:    "List the kinds of arena in this binary. JSON: an array of {kind, arena, sets, samples}; arena is the id of the one that the kind ships.",
		Example: "  agon kind list",
		Args:    Args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if k.List == nil {
				return Missing("kinds")
			}
			kinds := k.List()
			return a.Printer.Print(cmd.Context(), output.List(kinds, func(x KindInfo) string { return x.Kind }, func(h *output.Human) {
				rows := make([][]output.Cell, len(kinds))
				for i, x := range kinds {
					rows[i] = []output.Cell{output.Text(x.Kind), output.Text(x.Arena), output.Text(strings.Join(x.Sets, ", ")), output.Text(strings.Join(x.Samples, ", "))}
				}
				h.Table([]output.Column{{Title: "kind", Min: 8}, {Title: "arena"}, {Title: "sets"}, {Title: "samples", Min: 8}}, rows)
			}))
		},
	}
	return a.noun(&cobra.Command{
		Use:     "kind",
		Short:   "Kinds of arena: list them, write a new one",
		Long:    "Kinds of arena: without a subcommand, list those of this binary. docs/kinds.md is the walk from an empty folder to an arena.",
		Example: "  agon kind\n  agon kind new golf ./golf",
	}, list, a.kindNewCmd(k))
}

func (a *App) kindNewCmd(k Kinds) *cobra.Command {
	var o KindNewOptions
	cmd := &cobra.Command{
		Use:   "new NAME DIR",
		Short: "Write a kind of arena that works into a new directory, to be changed step by step",
		Long: `Write a kind of arena that works into a new directory: rules, a task, a sample, a
template, an arena file, tests, and a README that says what to change next.

Below kinds/ of a clone of agon it becomes a package there, and one entry in
kinds/kits.go puts it into the binary. In a directory that lies in no Go module,
or with --module, it becomes a module of its own: agon build makes a binary with
it. JSON: {kind, dir, package, module, arena, files, next}.`,
		Example: "  agon kind new golf kinds/golf\n  agon kind new --module example.org/golf golf ./golf",
		Args:    Args(2, 2, "a name and a directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if k.New == nil {
				return Missing("kinds")
			}
			o.Name, o.Dir = args[0], args[1]
			made, err := k.New(o)
			if err != nil {
				return err
			}
			if err := a.Printer.Print(cmd.Context(), output.Result{Value: made, IDs: made.Files, Human: func(h *output.Human) {
				for _, f := range made.Files {
					h.Line("%s", f)
				}
			}}); err != nil {
				return err
			}
			a.IO.Notef("next:")
			for _, n := range made.Next {
				a.IO.Notef("  %s", plain.Line(n))
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&o.Module, "module", "", "make it a Go `module` of its own (default: where DIR lies in none, example.org/NAME)")
	agonFlag(cmd, &o.Agon)
	return cmd
}

func agonFlag(cmd *cobra.Command, dir *string) {
	cmd.Flags().StringVar(dir, "agon", "", "`directory` of a clone of agon (default: this one, or that which the binary stands in or was built from)")
}

func (a *App) buildCmd(k Kinds) *cobra.Command {
	var o BuildOptions
	cmd := &cobra.Command{
		Use:   "build",
		Short: "Build agon with kinds of other Go modules in it (needs Go)",
		Long: `Build agon with kinds of other Go modules in it, besides its own. The root package
of each module has func Kit() kit.Kit. It compiles, so it needs Go.

-o names the binary here; JSON: {file, with, agon}.`,
		Example: "  agon build --with example.org/golf=./golf -o ./agon-golf\n  agon build --with example.org/golf@v1.2.0 --with example.org/chess -o ./agon",
		Args:    Args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if k.Build == nil {
				return Missing("build")
			}
			o.Say = func(format string, args ...any) { a.IO.Notef(format, args...) }
			built, err := k.Build(cmd.Context(), o)
			if err != nil {
				return err
			}
			return a.Printer.Print(cmd.Context(), output.Result{Value: built, IDs: []string{built.File}, Human: func(h *output.Human) {
				h.Line("%s: agon with %s", built.File, strings.Join(built.With, ", "))
			}})
		},
	}
	// MODULE has no comma, but a directory may.
	cmd.Flags().StringArrayVar(&o.With, "with", nil, "`module` with a kind: MODULE, MODULE@VERSION or MODULE=DIR; may be given more than once")
	// The format of what is printed is by the place it goes to: -o is the binary, as with go build.
	cmd.Flags().StringVarP(&o.File, "output", "o", "./agon", "write the binary to this `file`")
	agonFlag(cmd, &o.Agon)
	return cmd
}
