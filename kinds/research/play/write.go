package play

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/pelletier/go-toml/v2"

	"github.com/agon-arena/agon/kinds/research/surface"
)

// WriteTask writes what is public of a task into dir, which must not be there: what a
// miner can replay without the server. Hidden data is not in it.
func WriteTask(dir string, t Task, base *surface.Tree) error {
	t.Repository = "" // the base lies beside it
	spec, err := toml.Marshal(t)
	if err != nil {
		return fmt.Errorf("write task %s: %w", t.Slug, err)
	}
	config, err := t.ConfigFile("try/" + t.Slug)
	if err != nil {
		return err
	}
	brief := t.Brief
	if brief == "" {
		brief = t.Title
	}
	files := map[string][]byte{
		"task.toml":      config,
		"instruction.md": []byte(brief + "\n"),
		TaskFile:         spec,
	}
	for _, name := range base.Names() {
		f, _ := base.File(name)
		if f.Mode != surface.ModeFile && f.Mode != surface.ModeExec {
			return fmt.Errorf("write task %s: %.80q of the base is a link or a submodule", t.Slug, name)
		}
		if files[BaseDir+"/"+name], err = f.Read(); err != nil {
			return fmt.Errorf("read %.80q of the base: %w", name, err)
		}
	}
	for _, name := range sortedKeys(files) {
		at := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			return fmt.Errorf("write task %s: %w", t.Slug, err)
		}
		if err := os.WriteFile(at, files[name], 0o644); err != nil { //nolint:gosec // boxes read it as another user
			return fmt.Errorf("write task %s: %w", t.Slug, err)
		}
	}
	return nil
}
