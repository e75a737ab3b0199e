package commands

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/kinds/research/coordinator"
	"github.com/agon-arena/agon/kinds/research/miner"
)

// sidecarOf finds the sidecar: where --submission-file says, else in the checkout,
// else in the current directory.
func sidecarOf(cmd *cobra.Command, dir, sidecar string) (string, error) {
	want := sidecar
	if !cmd.Flags().Changed("submission-file") {
		if want = filepath.Join(dir, sidecar); exists(want) {
			return want, nil
		}
	}
	if !exists(sidecar) {
		return "", &agon.Error{
			Code: "no_sidecar", Status: http.StatusUnprocessableEntity, Field: "submission-file", Message: "submission sidecar is missing: " + want,
			Mend: `write it: {"summary": "what I did", "claimed_metrics": {"METRIC": 1.0}}, with the metric that the task names`,
		}
	}
	return sidecar, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// gather reads a sidecar and computes the patch of a workspace.
func gather(ctx context.Context, t *coordinator.TaskView, dir, sidecar string, dirty bool) (*miner.Submission, error) {
	side, err := miner.ReadSidecar(sidecar, "")
	if err != nil {
		return nil, err
	}
	p, err := miner.MakePatch(ctx, dir, t.BaseSHA, t.Task, miner.Ignored(t.Task, dir, sidecar, filepath.Join(filepath.Dir(sidecar), "submission_result.json")))
	if err != nil {
		return nil, err
	}
	if len(p.Outside) > 0 && !dirty {
		return nil, &miner.DirtyError{Paths: p.Outside, Allowed: t.AllowedPatchPaths}
	}
	if p.Text == "" && side.ArtifactURI == "" {
		return nil, miner.ErrNoPatch
	}
	if len(p.Text) > t.MaxPatchBytes {
		return nil, &agon.Error{
			Code: "patch_too_large", Status: 413, Limit: fmt.Sprintf("%d bytes", t.MaxPatchBytes), Message: fmt.Sprintf("the patch has %d bytes, at most %d are allowed", len(p.Text), t.MaxPatchBytes),
		}
	}
	return &miner.Submission{BaseRef: p.Base, Patch: p.Text, Sidecar: side}, nil
}

func metrics(m map[string]float64) string {
	var out []string
	for k, v := range m {
		out = append(out, fmt.Sprintf("%s=%.6g", k, v))
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// one shows one submission whole.

// findTask takes a slug, a task's name as pages have it ("cpu/sortnet"), or an id.
func findTask(ctx context.Context, c *miner.Client, name string, live bool) (*coordinator.TaskView, error) {
	if t, err := c.Task(ctx, "", path.Base(name), live); err == nil || !errors.Is(err, miner.ErrNoTask) {
		return t, err
	}
	return c.Task(ctx, name, "", live)
}
