package pack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/kinds/pack/clawbench"
	"github.com/agon-arena/agon/kinds/pack/commands"
	"github.com/agon-arena/agon/kinds/pack/office"
)

// GenerateOffice is `agon task generate office`.
func GenerateOffice(ctx context.Context, c commands.GenerateOptions) (_ *commands.Generated, err error) {
	out := &commands.Generated{Seed: c.Seed, Count: c.Count, Difficulty: c.Difficulty, Tasks: []commands.MadeTask{}, Out: c.Out}
	tmp := ""
	if c.Out != "" {
		if _, err := os.Lstat(c.Out); !errors.Is(err, os.ErrNotExist) {
			return nil, &agon.Error{Code: "exists", Status: 409, Field: "out", Message: c.Out + " is there already", Mend: "name a new directory"}
		}
		// Written beside it and renamed, so that a half of it is never taken for the whole.
		if tmp, err = os.MkdirTemp(filepath.Dir(filepath.Clean(c.Out)), ".office-"); err != nil {
			return nil, fmt.Errorf("make a directory: %w", err)
		}
		defer func() {
			if err != nil {
				_ = os.RemoveAll(tmp)
			}
		}()
		if err := os.Chmod(tmp, 0o755); err != nil {
			return nil, err
		}
	}
	var all strings.Builder
	for i := range c.Count {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		t, err := officeTask(c.Seed, i, c.Difficulty)
		if err != nil {
			return nil, err
		}
		fmt.Fprintln(&all, t.Key, t.Digest)
		out.Tasks = append(out.Tasks, commands.MadeTask{Task: t.Key, Digest: t.Digest})
		if tmp != "" {
			if err := MaterialiseTasks([]*task.Task{t}, tmp); err != nil {
				return nil, err
			}
		}
	}
	out.Digest = agon.Sum([]byte(all.String()))
	if tmp != "" {
		if err := os.Rename(tmp, c.Out); err != nil {
			return nil, fmt.Errorf("name the directory: %w", err)
		}
	}
	return out, nil
}

func officeTask(seed uint64, index, difficulty int) (*task.Task, error) {
	w, err := office.Make(seed, index, difficulty)
	if err != nil {
		return nil, err
	}
	var files []blob.File
	for name, b := range w.Files {
		files = append(files, blob.File{Path: name, Content: b})
	}
	set, err := clawbench.Load(blob.FS(files))
	if err != nil {
		return nil, fmt.Errorf("scenario %d of seed %d: %w", index, seed, err)
	}
	list, err := ScenarioTasks(set, "office")
	if err != nil {
		return nil, err
	}
	return list[0], nil
}
