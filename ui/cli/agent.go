package cli

import (
	"context"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/internal/plain"
	"github.com/agon-arena/agon/ui/cli/output"
)

func (a *App) agentCmd(in Agents) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "agent",
		Short:   "Agents: start one from a commented template",
		Example: "  agon agent new {kind} ./mine",
		Args:    a.NoSubcommand,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.agentNewCmd(in))
	return cmd
}

func (a *App) agentNewCmd(in Agents) *cobra.Command {
	return &cobra.Command{
		Use:     "new KIND [DIR]",
		Short:   "Write a commented agent to start from",
		Long:    "Write a commented agent of a kind into a new directory (default: ./agent). JSON: {kind, dir, files}.",
		Example: "  agon agent new {kind}\n  agon agent new {kind} ./mine && agon try ./mine/agent.py --arena {arena}",
		Args:    Args(1, 2, "a kind and at most one directory"),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveFilterDirs
			}
			return slices.Sorted(maps.Keys(in.Templates)), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := "agent"
			if len(args) == 2 {
				dir = args[1]
			}
			return a.agentNew(cmd.Context(), in, args[0], dir)
		},
	}
}

func (a *App) agentNew(ctx context.Context, in Agents, kind, dir string) error {
	templates := in.Templates
	if templates == nil {
		return Missing("agent templates")
	}
	template, ok := templates[kind]
	if start := in.Starts[kind]; !ok && start != "" {
		return output.Usage("", "begin with `"+start+"`", "the kind %s has no template", kind)
	}
	if !ok {
		return output.Usage("", "use one of "+strings.Join(slices.Sorted(maps.Keys(templates)), ", "), "no template of a kind %q", kind)
	}
	var files []client.File
	err := fs.WalkDir(template, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := fs.ReadFile(template, p)
		if err != nil {
			return err
		}
		files = append(files, client.File{Path: p, Content: b})
		return nil
	})
	if err != nil {
		return err
	}
	if err := writeNew(dir, files); err != nil {
		return err
	}
	names := ids(files, func(f client.File) string { return filepath.Join(dir, f.Path) })
	if err := a.Printer.Print(ctx, output.Result{Value: map[string]any{"kind": kind, "dir": dir, "files": names}, IDs: names, Human: func(h *output.Human) {
		for _, n := range names {
			h.Line("%s", n)
		}
	}}); err != nil {
		return err
	}
	a.IO.Notef("try it with `agon try %s --arena %s`", plain.Line(names[0]), plain.Line(a.shippedArena(kind)))
	return nil
}

// shippedArena is the id of the arena that a kind ships; ARENA: it ships none.
func (a *App) shippedArena(kind string) string {
	if list := a.Services.Kinds.List; list != nil {
		for _, k := range list() {
			if k.Kind == kind && k.Arena != "" {
				return k.Arena
			}
		}
	}
	return "ARENA"
}
