package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/internal/lazyregexp"
	"github.com/agon-arena/agon/ui/cli/output"
)

// published is what `agon arena publish` did.
type published struct {
	Arena     string   `json:"arena"`
	Dir       string   `json:"dir"`
	Published []string `json:"published"`
	Unchanged int      `json:"unchanged"`
	Withheld  int      `json:"withheld"` // embargo, or not decided
	Commit    string   `json:"commit,omitempty"`
}

func (a *App) arenaPublishCmd() *cobra.Command {
	var to string
	var embargo time.Duration
	var git bool
	cmd := &cobra.Command{
		Use:   "publish ARENA --to DIR",
		Short: "Write accepted submissions, with scores and decisions, to a folder or git repository",
		Long: `Write every decided submission of an arena below DIR/ARENA/ID/: its files under files/, and
submission.json with scores, costs and the decision; index.json lists them. Submissions younger
than --embargo, excluded or undecided are left out. Nothing that is there is changed twice.
With --git the folder is a git repository and what is new is committed; no hook of it runs.
JSON: {arena, dir, published[], unchanged, withheld, commit}.`,
		Example: "  agon arena publish {arena} --to ./packs --git\n  agon arena publish {arena} --to /srv/www/agents --embargo 48h",
		Args:    Args(1, 1, "an arena"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if to == "" {
				return output.Usage("to", "name a folder: --to DIR", "--to is missing")
			}
			if embargo < 0 {
				return output.Usage("embargo", "give 0 or more", "--embargo %s is negative", embargo)
			}
			c, err := a.Reader()
			if err != nil {
				return err
			}
			r, err := a.publish(cmd.Context(), c, args[0], to, embargo)
			if err != nil {
				return err
			}
			if git && len(r.Published) > 0 {
				if r.Commit, err = commitAll(cmd.Context(), to, fmt.Sprintf("%s: %d submissions", args[0], len(r.Published))); err != nil {
					return err
				}
			}
			return a.Printer.Print(cmd.Context(), output.Result{Value: r, IDs: r.Published, Human: func(h *output.Human) {
				h.Line("%d submissions of %s are new in %s, %d were there, %d are withheld", len(r.Published), r.Arena, r.Dir, r.Unchanged, r.Withheld)
			}})
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "write below this `directory`")
	cmd.Flags().DurationVar(&embargo, "embargo", 24*time.Hour, "withhold submissions younger than this `time`")
	cmd.Flags().BoolVar(&git, "git", false, "commit what is new in the git repository at --to")
	return cmd
}

var publicID = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._-]{0,79}$`)

// publish writes what is due. A submission's folder appears whole or not at all.
func (a *App) publish(ctx context.Context, c *client.Client, arena, to string, embargo time.Duration) (*published, error) {
	about, err := c.Arena(ctx, arena)
	if err != nil {
		return nil, err
	}
	if !publicID().MatchString(about.ID) {
		return nil, fmt.Errorf("publish: the server's arena id %q is not a file name", about.ID)
	}
	r := &published{Arena: about.ID, Dir: filepath.Join(to, about.ID), Published: []string{}}
	if err := os.MkdirAll(r.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("make %s: %w", r.Dir, err)
	}
	var index []client.Submission
	for o := (client.ListOptions{Limit: 200}); ; {
		page, err := c.Submissions(ctx, arena, "", o)
		if err != nil {
			return nil, err
		}
		for _, s := range page.Items {
			if s.State != agon.SubmissionScored || s.Decision == nil || a.Now().Sub(s.CreatedAt) < embargo {
				r.Withheld++
				continue
			}
			if !publicID().MatchString(s.ID) {
				return nil, fmt.Errorf("publish: the server's submission id %q is not a file name", s.ID)
			}
			fresh, err := publishOne(ctx, c, r.Dir, s)
			if err != nil {
				return nil, err
			}
			if fresh {
				r.Published = append(r.Published, s.ID)
			} else {
				r.Unchanged++
			}
			index = append(index, s)
		}
		if page.Next == "" {
			break
		}
		o.Cursor = page.Next
	}
	slices.SortFunc(index, func(x, y client.Submission) int { return int(x.Seq - y.Seq) })
	b, err := json.MarshalIndent(map[string]any{"arena": about.ID, "kind": about.Kind, "licence": about.Licence, "submissions": index}, "", " ")
	if err != nil {
		return nil, fmt.Errorf("encode index: %w", err)
	}
	return r, WriteFile(filepath.Join(r.Dir, "index.json"), append(b, '\n'))
}

func publishOne(ctx context.Context, c *client.Client, dir string, s client.Submission) (fresh bool, err error) {
	at := filepath.Join(dir, s.ID)
	if _, err := os.Lstat(at); err == nil {
		return false, nil
	}
	files, err := c.SubmissionFiles(ctx, s.ID)
	if err != nil {
		return false, fmt.Errorf("read submission %s: %w", s.ID, err)
	}
	tmp, err := os.MkdirTemp(dir, ".new-")
	if err != nil {
		return false, fmt.Errorf("publish %s: %w", s.ID, err)
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	root, err := os.OpenRoot(tmp)
	if err != nil {
		return false, fmt.Errorf("publish %s: %w", s.ID, err)
	}
	defer func() { _ = root.Close() }()
	for _, f := range files {
		name := "files/" + f.Path
		if !fs.ValidPath(name) || strings.ContainsAny(name, "\\\x00") || len(f.Path) > 400 {
			return false, fmt.Errorf("publish %s: the server names a file %.80q", s.ID, f.Path)
		}
		if err := root.MkdirAll(filepath.Dir(filepath.FromSlash(name)), 0o755); err != nil {
			return false, fmt.Errorf("publish %s: %w", s.ID, err)
		}
		if err := root.WriteFile(filepath.FromSlash(name), f.Content, 0o644); err != nil {
			return false, fmt.Errorf("publish %s: %w", s.ID, err)
		}
	}
	b, err := json.MarshalIndent(s, "", " ")
	if err != nil {
		return false, fmt.Errorf("encode submission: %w", err)
	}
	if err := root.WriteFile("submission.json", append(b, '\n'), 0o644); err != nil {
		return false, fmt.Errorf("publish %s: %w", s.ID, err)
	}
	if err := os.Chmod(tmp, 0o755); err != nil {
		return false, fmt.Errorf("publish %s: %w", s.ID, err)
	}
	return true, os.Rename(tmp, at)
}

// commitAll commits a folder's changes and returns the commit. The repository
// is the operator's, its files are strangers': no hook, filter or template runs.
func commitAll(ctx context.Context, dir, message string) (string, error) {
	git := func(args ...string) (string, error) {
		cmd := exec.CommandContext(ctx, "git", append([]string{
			"-C", dir, "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "core.attributesFile=/dev/null", "-c", "commit.gpgSign=false", "-c", "gc.auto=0",
		}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_TERMINAL_PROMPT=0", "GIT_ATTR_NOSYSTEM=1")
		out, err := cmd.CombinedOutput()
		if err != nil {
			return "", fmt.Errorf("git %s: %w: %.300s", args[0], err, out)
		}
		return strings.TrimSpace(string(out)), nil
	}
	if _, err := os.Lstat(filepath.Join(dir, ".git")); errors.Is(err, os.ErrNotExist) {
		if _, err := git("init", "-q", "--template="); err != nil {
			return "", err
		}
	}
	// A submission's own .gitattributes would choose filters: they are of no use without configuration, and names are taken as they are.
	if _, err := git("add", "-A", "-f", "."); err != nil {
		return "", err
	}
	if _, err := git("-c", "user.name=agon", "-c", "user.email=agon@example.invalid", "commit", "-q", "--no-verify", "-m", message); err != nil {
		return "", err
	}
	return git("rev-parse", "HEAD")
}
