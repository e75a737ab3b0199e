package pack

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/internal/lazyregexp"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/kinds/pack/clawbench"
	"github.com/agon-arena/agon/kinds/pack/commands"
	"github.com/agon-arena/agon/kinds/pack/office"
	"github.com/agon-arena/agon/kinds/pack/season"
)

// GenerateTasks is `agon task generate office` and `agon task generate season`.
func GenerateTasks(ctx context.Context, c commands.GenerateOptions) (_ *commands.Generated, err error) {
	out := &commands.Generated{Count: c.Count, Difficulty: c.Difficulty, Tasks: []commands.MadeTask{}, Out: c.Out}
	if c.Secret == nil {
		out.Seed = &c.Seed
	}
	tmp := ""
	if c.Out != "" {
		if _, err := os.Lstat(c.Out); !errors.Is(err, os.ErrNotExist) {
			return nil, &agon.Error{Code: "exists", Status: 409, Field: "out", Message: c.Out + " is there already", Mend: "name a new directory"}
		}
		// Written beside it and renamed, so that a half of it is never taken for the whole.
		if tmp, err = os.MkdirTemp(filepath.Dir(filepath.Clean(c.Out)), "."+c.Set+"-"); err != nil {
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
		t, err := madeTask(c, i)
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

// seedOf is what one task is made of. Under a secret the name of a task, which has its seed, tells nothing of the others'.
func seedOf(c commands.GenerateOptions, index int) (seed uint64, at int) {
	if c.Secret == nil {
		return c.Seed, index
	}
	m := hmac.New(sha256.New, c.Secret)
	fmt.Fprintf(m, "agon/generated-task/%s/%d/%d", c.Set, c.Difficulty, index)
	return binary.BigEndian.Uint64(m.Sum(nil)), 0
}

// seededName is the name of a task that GenerateTasks made: of a seed, and the task's number under it.
var seededName = lazyregexp.New(`^(?:office-(\d+)-\d+-d\d+|session-(\d+)-\d+)$`)

// seedOfKey is kit.Kit.MadeFrom.
func seedOfKey(key string) string {
	m := seededName().FindStringSubmatch(path.Base(key))
	if m == nil {
		return ""
	}
	return "seed " + cmp.Or(m[1], m[2])
}

func madeTask(c commands.GenerateOptions, index int) (*task.Task, error) {
	seed, at := seedOf(c, index)
	if c.Set == commands.SetSeason {
		w, err := season.Make(seed, at)
		if err != nil {
			return nil, err
		}
		return worldTask(c.Set, seed, w.Files)
	}
	return officeTask(seed, at, c.Difficulty)
}

// usualLevel is the difficulty of scenarios that name none.
const usualLevel = 3

// generateSet is kit.Kit.Generate: office scenarios, each of a seed that tells no other's.
func generateSet(ctx context.Context, _ kit.Options, r kit.GenerateRequest) ([]*task.Task, error) {
	var out []*task.Task
	for _, seed := range r.Seeds {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		t, err := officeTask(uint64(seed), 0, cmp.Or(r.Level, usualLevel))
		if err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	return out, nil
}

func officeTask(seed uint64, at, level int) (*task.Task, error) {
	w, err := office.Make(seed, at, level)
	if err != nil {
		return nil, err
	}
	return worldTask(commands.SetOffice, seed, w.Files)
}

// worldTask makes the task of one generated world.
func worldTask(name string, seed uint64, made map[string][]byte) (*task.Task, error) {
	var files []blob.File
	for name, b := range made {
		files = append(files, blob.File{Path: name, Content: b})
	}
	set, err := clawbench.Load(blob.FS(files))
	if err != nil {
		return nil, fmt.Errorf("scenario of seed %d: %w", seed, err)
	}
	list, err := ScenarioTasks(set, name)
	if err != nil {
		return nil, err
	}
	return list[0], nil
}
