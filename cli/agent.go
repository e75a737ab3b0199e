package cli

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agon-arena/agon/cli/output"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/plain"
)

func (a *App) agentCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "agent",
		Short:   "Agents: start one from a commented template",
		Example: "  agon agent new coding ./mine",
		Args:    a.noSubcommand,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.agentNewCmd())
	return cmd
}

func (a *App) agentNewCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "new KIND [DIR]",
		Short:   "Write a commented agent to start from",
		Long:    "Write a commented agent of a kind into a new directory (default: ./agent). JSON: {kind, dir, files}.",
		Example: "  agon agent new coding\n  agon agent new coding ./mine && agon try ./mine/agent.py --arena demo-coding",
		Args:    args(1, 2, "a kind and at most one directory"),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveFilterDirs
			}
			return a.templateKinds(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := "agent"
			if len(args) == 2 {
				dir = args[1]
			}
			return a.agentNew(cmd.Context(), args[0], dir)
		},
	}
}

// templateKinds lists the kinds that have a template.
func (a *App) templateKinds() []string {
	if a.Services.Templates == nil {
		return nil
	}
	entries, err := fs.ReadDir(a.Services.Templates, ".")
	if err != nil {
		return nil
	}
	var out []string
	for _, e := range entries {
		if e.IsDir() {
			out = append(out, e.Name())
		}
	}
	return out
}

func (a *App) agentNew(ctx context.Context, kind, dir string) error {
	if a.Services.Templates == nil {
		return missing("agent templates")
	}
	if !fs.ValidPath(kind) || strings.Contains(kind, "/") || kind == "." {
		return output.Usage("", "use one of "+strings.Join(a.templateKinds(), ", "), "no kind %q", kind)
	}
	var files []client.File
	err := fs.WalkDir(a.Services.Templates, kind, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := fs.ReadFile(a.Services.Templates, p)
		if err != nil {
			return err
		}
		files = append(files, client.File{Path: strings.TrimPrefix(p, kind+"/"), Content: b})
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return output.Usage("", "use one of "+strings.Join(a.templateKinds(), ", "), "no kind %q", kind)
	}
	if err != nil {
		return err
	}
	if err := writeNew(dir, files); err != nil {
		return err
	}
	names := ids(files, func(f client.File) string { return filepath.Join(dir, f.Path) })
	if err := a.printer.Print(ctx, output.Result{Value: map[string]any{"kind": kind, "dir": dir, "files": names}, IDs: names, Human: func(h *output.Human) {
		for _, n := range names {
			h.Line("%s", n)
		}
	}}); err != nil {
		return err
	}
	a.IO.Notef("try it with `agon try %s --arena demo-%s`", plain.Line(names[0]), kind)
	return nil
}
