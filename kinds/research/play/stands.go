package play

import (
	"bytes"
	"fmt"
	"io/fs"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/sandbox/datasets"
	"github.com/agon-arena/agon/sandbox/rootfs"
)

// stands notes what the task's boxes stand on, as miners may be told: a place on
// the author's own machine helps nobody else, so of it stays the digest alone.
func (t *Task) stands(dir fs.FS) {
	s := task.StandsIn(dir)
	t.Image, t.Datasets = s.Named(), nil
	if at := strings.LastIndex(t.Image, "sha256:"); at > 0 && strings.HasPrefix(t.Image, "oci:") {
		t.Image = t.Image[at:]
	}
	list, err := datasets.ParseAll(s.Datasets)
	if err != nil {
		t.Datasets = s.Datasets // Validate says what is wrong
		return
	}
	for _, r := range list {
		where := ""
		if strings.HasPrefix(r.Where, "https://") {
			where = r.Where + "@"
		}
		t.Datasets = append(t.Datasets, r.Name+"="+where+r.Digest)
	}
}

// checkStands says what is wrong with image and data sets.
func (t *Task) checkStands(no func(field, limit, format string, args ...any)) {
	if t.Image != "" && !rootfs.Pinned(t.Image) {
		no("image", "", "%.200q: want an image by its digest, NAME@sha256:… (agon image import prints it)", t.Image)
	}
	if _, err := datasets.ParseAll(t.Datasets); err != nil {
		no("datasets", "", "%v", err)
	}
}

// ConfigFile is the task.toml of a task by the name ("research/my-task").
func (t *Task) ConfigFile(name string) ([]byte, error) {
	var c struct {
		Version string `toml:"version"`
		Task    struct {
			Name string `toml:"name"`
		} `toml:"task"`
		Environment task.Stands `toml:"environment,omitempty"`
		Agon        struct {
			Kind string `toml:"kind"`
		} `toml:"agon"`
	}
	c.Version, c.Task.Name, c.Agon.Kind = "1.0", name, Name
	c.Environment.Image, c.Environment.Datasets = t.Image, t.Datasets
	var b bytes.Buffer
	if err := toml.NewEncoder(&b).Encode(c); err != nil {
		return nil, fmt.Errorf("write task %s: %w", t.Slug, err)
	}
	return b.Bytes(), nil
}
