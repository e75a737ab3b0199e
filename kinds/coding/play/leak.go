package play

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/pelletier/go-toml/v2"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/task"
)

// LeakKeys implements kind.LeakKeyer: tasks that mend one release of one
// repository share its issues, and tasks with the same fix are one task.
func (k *Kind) LeakKeys(_ agon.TaskRef, read func(string) ([]byte, error)) ([]string, error) {
	b, err := read("task.toml")
	if err != nil {
		return nil, err
	}
	var c struct {
		Agon task.Agon `toml:"agon"`
	}
	if err := toml.Unmarshal(b, &c); err != nil {
		return nil, fmt.Errorf("read task.toml: %w", err)
	}
	var keys []string
	if r := c.Agon.Released; r != nil {
		keys = append(keys, "issue "+r.Package+" "+r.Fix)
	}
	for _, name := range []string{c.Agon.Solution, "instruction.md"} {
		if name == "" {
			continue
		}
		switch b, err := read(name); {
		case err == nil && len(b) > 0:
			keys = append(keys, name+" "+string(agon.Sum(b)))
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return nil, err
		}
	}
	return keys, nil
}
