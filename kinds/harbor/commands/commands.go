// Package commands are the kind's commands: tasks of others come and go.
package commands

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/kinds/harbor/dataset"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/ui/cli"
	"github.com/agon-arena/agon/ui/cli/iostreams"
	"github.com/agon-arena/agon/ui/cli/output"
	"github.com/agon-arena/agon/ui/cli/progress"
)

// Tasks is what the kind says of a task.
type Tasks struct {
	Check      func(*task.Task) error // what it wants of it
	NeedsImage func(*task.Task) bool  // all that it lacks are images of its Dockerfiles
	Unbuilt    func(*task.Task) Build
}

// Build is a container of a task whose image has to be made.
type Build struct {
	Name    string // "main" or one beside it; "" where none has
	Context string // the directory that is built, below the task
	File    string // its Dockerfile, below Context
	// Standin is built instead where the task brings no Dockerfile: an image that many
	// tasks share.
	Standin dataset.Base
}

// Of returns the commands; tools writes what answers verifiers' calls.
func Of(a *cli.App, kits kit.List, tasks Tasks, tools func(dir string) error) []cli.Extra {
	return []cli.Extra{
		{Group: "run", Command: boxCmd(a, kits, tools)},
		{Parent: "task", Command: importCmd(a, kits, tasks)},
		{Parent: "task", Command: exportCmd(a)},
	}
}

func importCmd(a *cli.App, kits kit.List, tasks Tasks) *cobra.Command {
	const common = `
Tasks are written below DIR, one directory each. An import that was stopped goes on where
it was: what is there with the same bytes is not written again, and what is there with
others is not touched. JSON: an array of {task, source, ok, cached, digest, licence, reason}.
Exit code 3 if some did not come over, 1 if none did.`
	top := &cobra.Command{
		Use:     "import",
		Short:   "Bring tasks of others: Harbor's, SWE-bench's, polyglot's",
		Example: "  agon task import harbor ./terminal-bench ./tasks\n  agon task import swebench verified.jsonl ./tasks",
		Args:    cli.Args(0, 0, ""),
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	var builds builder
	one := func(use, short, long, example string, flags func(*cobra.Command), run func(ctx context.Context, w *dataset.Writer, source string) error) *cobra.Command {
		cmd := &cobra.Command{
			Use: use, Short: short, Long: long + common, Example: example, Args: cli.Args(2, 2, "a source and a directory"),
			RunE: func(cmd *cobra.Command, args []string) error {
				return imported(cmd.Context(), a, tasks.Check, args[1], func(w *dataset.Writer) error {
					if err := run(cmd.Context(), w, args[0]); err != nil || !builds.on {
						return err
					}
					return builds.all(cmd.Context(), a, kits, tasks, w)
				})
			},
		}
		if flags != nil {
			flags(cmd)
		}
		return cmd
	}
	swe, poly, registry := dataset.OfficialImage, "", dataset.Registry
	var only []string
	top.AddCommand(
		one("harbor SOURCE DIR", "Import Harbor task directories", `Import Harbor task directories: one, or all below a directory or in an archive
(.tar, .tar.gz, .zip), or those of a data set NAME or NAME@VERSION that a registry in Harbor's
form lists, fetched by git at the commits that it pins. Links, devices and what is larger than a
task may be are refused by name.
--build makes the images of Dockerfiles that need one here (agon image build), and of those whose
FROM --from names, and names each by its digest in the task's [environment] image. Containers
beside the task's whose image is redis or postgres get one of Debian's package.
`, "  agon task import harbor ./terminal-bench ./tasks\n  agon task import harbor tasks.tar.gz ./tasks -o json\n  agon task import harbor ./terminal-bench ./tasks --build --from ubuntu:24.04=apt:noble\n  agon task import harbor terminal-bench@2.0 ./tasks --registry ./registry.json",
			func(cmd *cobra.Command) {
				builds.flags(cmd)
				cmd.Flags().StringVar(&registry, "registry", registry, "`file` or address that lists data sets")
			},
			func(ctx context.Context, w *dataset.Writer, source string) error {
				if dataset.IsSet(source) {
					return w.Registry(ctx, registry, source)
				}
				return w.Harbor(ctx, source)
			}),
		one("swebench FILE DIR", "Import SWE-bench instances", `Import SWE-bench instances of a file, .jsonl or .parquet, in the official fields or those
of Multi-SWE-bench: of each a Harbor task whose verifier lays the instance's tests over the
work and runs those that decide (pytest, Django). --image names the instance's image: {id},
{id_1776}, {repo} and {version} are the instance's. A task can be played once its image is
here and [environment] image names it by digest (agon image import).
--build makes the images here instead, for repositories that need only Python and pip: the
repository at the instance's commit, without what came later, on the Debian that has a Python
of that time, with the packages that the registry had on that day, or as the row's
install_config says. --repos names a directory of clones (owner/name); what is not there is
fetched from GitHub. Whether the fix then passes its tests, agon task check says.
`, "  agon task import swebench verified.jsonl ./tasks\n  agon task import swebench verified.parquet ./tasks --image 'registry.example/swe/{id}'\n  agon task import swebench verified.jsonl ./tasks --only pallets__flask-5014 --build --repos ./clones",
			func(cmd *cobra.Command) {
				builds.flags(cmd)
				cmd.Flags().StringVar(&swe, "image", swe, "`template` of the images' names")
				cmd.Flags().StringVar(&builds.repos, "repos", "", "`directory` of git clones, with --build")
				cmd.Flags().StringSliceVar(&only, "only", nil, "`ids` of the instances that are imported (default all)")
			},
			func(ctx context.Context, w *dataset.Writer, source string) error {
				builds.of = func(ctx context.Context, taskDir, to string) (dataset.Base, error) {
					return dataset.InstanceContext(ctx, taskDir, builds.repos, to)
				}
				return w.SWEBench(ctx, source, swe, only...)
			}),
		one("polyglot SOURCE DIR", "Import the polyglot benchmark's exercises", `Import exercises: LANGUAGE/exercises/practice/NAME below a directory. The stub is shown,
tests and example are not. --image names the image of a language ({language}); without it
the machine's own tree plays them, which has Python only.
`, "  agon task import polyglot ./polyglot-benchmark ./tasks\n  agon task import polyglot ./polyglot-benchmark ./tasks --image 'registry.example/{language}@sha256:…'",
			func(cmd *cobra.Command) {
				cmd.Flags().StringVar(&poly, "image", "", "`template` of the images' names")
			},
			func(ctx context.Context, w *dataset.Writer, source string) error {
				return w.Polyglot(ctx, source, poly)
			}),
	)
	return top
}

func imported(ctx context.Context, a *cli.App, check func(*task.Task) error, dir string, run func(*dataset.Writer) error) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make %s: %w", dir, err)
	}
	common, done, err := a.Common()
	if err != nil {
		return err
	}
	w := &dataset.Writer{Dir: dir, Check: check, Done: func(n int) { common.Progress(progress.State{Label: "importing", Done: n}) }}
	err = run(w)
	done()
	list := w.Imported()
	if err != nil && len(list) == 0 {
		return &agon.Error{Code: "bad_source", Status: 422, Field: "source", Message: err.Error(), Mend: "see agon task import --help for what can be read"}
	}
	bad := 0
	for _, x := range list {
		if !x.OK {
			bad++
		}
	}
	if perr := a.Printer.Print(ctx, output.List(list, func(x dataset.Imported) string { return x.Task }, func(h *output.Human) {
		rows := make([][]output.Cell, len(list))
		for i, x := range list {
			state := output.Styled(iostreams.Green, "imported")
			switch {
			case !x.OK:
				state = output.Styled(iostreams.Red, "refused")
			case x.Cached:
				state = output.Text("here")
			}
			rows[i] = []output.Cell{output.Text(x.Task), state, output.Text(x.Licence), output.Text(x.Reason)}
		}
		h.Table([]output.Column{{Title: "task", Min: 12}, {Title: "state"}, {Title: "licence"}, {Title: "reason", Min: 10}}, rows)
	})); perr != nil {
		return perr
	}
	switch {
	case err != nil:
		return err
	case bad > 0 && bad == len(list):
		return &cli.Exit{Code: cli.CodeFailed}
	case bad > 0:
		return &cli.Exit{Code: cli.CodePartly}
	}
	return nil
}

func exportCmd(a *cli.App) *cobra.Command {
	top := &cobra.Command{
		Use:     "export",
		Short:   "Write tasks in the form of others",
		Example: "  agon task export harbor ./tasks ./out\n  agon task export swebench ./tasks instances.jsonl",
		Args:    cli.Args(0, 0, ""),
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	top.AddCommand(&cobra.Command{
		Use:     "harbor DIR OUT",
		Short:   "Write task directories as Harbor reads them",
		Long:    "Write task directories, one or all below DIR, as Harbor reads them: without the table that only agon knows. JSON: an array of {task, source, ok, cached, digest, licence, reason}. Exit code 3 if some could not be written.",
		Example: "  agon task export harbor ./tasks ./out",
		Args:    cli.Args(2, 2, "a directory of tasks and one to write"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return imported(cmd.Context(), a, nil, args[1], func(w *dataset.Writer) error { w.Plain = true; return w.Harbor(cmd.Context(), args[0]) })
		},
	}, &cobra.Command{
		Use:     "swebench DIR FILE",
		Short:   "Write imported instances as SWE-bench has them",
		Long:    "Write the instances of tasks that came of SWE-bench, one or all below DIR, one line each, as they came. JSON: {file, instances}. Exit code 7 if a task is none of SWE-bench's.",
		Example: "  agon task export swebench ./tasks instances.jsonl",
		Args:    cli.Args(2, 2, "a directory of tasks and a file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			n, err := dataset.Lines(cmd.Context(), args[0], args[1])
			if err != nil {
				return &agon.Error{Code: "bad_source", Status: 422, Field: "dir", Message: err.Error(), Mend: "only tasks of agon task import swebench can be written so"}
			}
			v := map[string]any{"file": args[1], "instances": n}
			return a.Printer.Print(cmd.Context(), output.Result{Value: v, IDs: []string{args[1]}, Human: func(h *output.Human) { h.Line("%d instances in %s", n, args[1]) }})
		},
	})
	return top
}
