package dataset

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"

	"github.com/agon-arena/agon/engine/task"
)

var environmentTable = regexp.MustCompile(`(?m)^[ \t]*\[environment\][ \t]*(#.*)?$`)

// withImage is a task.toml whose [environment] names an image.
func withImage(config []byte, ref string) []byte {
	line := "image = " + strconv.Quote(ref)
	if at := environmentTable.FindIndex(config); at != nil {
		return bytes.Join([][]byte{config[:at[1]], []byte("\n" + line), config[at[1]:]}, nil)
	}
	return append(bytes.TrimRight(config, "\n"), []byte("\n\n[environment]\n"+line+"\n")...)
}

// SetImage writes the image that was built for a task into its directory, and
// returns the task as it is then.
func SetImage(dir, key, ref string) (*task.Task, error) {
	at := filepath.Join(dir, "task.toml")
	old, err := os.ReadFile(at)
	if err != nil {
		return nil, fmt.Errorf("name the image: %w", err)
	}
	tmp, err := os.CreateTemp(filepath.Dir(dir), ".image-")
	if err != nil {
		return nil, fmt.Errorf("name the image: %w", err)
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.Write(withImage(old, ref))
	if cerr := tmp.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Chmod(tmp.Name(), 0o644)
	}
	if err == nil {
		err = os.Rename(tmp.Name(), at)
	}
	if err != nil {
		return nil, fmt.Errorf("name the image: %w", err)
	}
	t, err := task.LoadDir(dir, key)
	if err != nil { // such as a second [environment] in another spelling
		return nil, fmt.Errorf("name the image: %w", errors.Join(err, os.WriteFile(at, old, 0o644)))
	}
	return t, nil
}

// sameButImage tells whether the task in dir is old but for the image that was built for old.
func sameButImage(old *task.Task, dir, slug string) bool {
	ref := old.Config.Environment.Image
	if ref == "" {
		return false
	}
	t, err := SetImage(dir, "import/"+slug, ref)
	return err == nil && t.Digest == old.Digest
}
