package dataset

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/internal/lazyregexp"
)

var environmentTable = lazyregexp.New(`(?m)^[ \t]*\[environment\][ \t]*(#.*)?$`)

// withImage is a task.toml whose [environment] names an image.
func withImage(config []byte, ref string) []byte {
	line := "image = " + strconv.Quote(ref)
	if at := environmentTable().FindIndex(config); at != nil {
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
	if err := replace(dir, at, withImage(old, ref)); err != nil {
		return nil, fmt.Errorf("name the image: %w", err)
	}
	t, err := task.LoadDir(dir, key)
	if err != nil { // such as a second [environment] in another spelling
		return nil, fmt.Errorf("name the image: %w", errors.Join(err, os.WriteFile(at, old, 0o644)))
	}
	return t, nil
}

// replace writes a file of a task directory, whole or not at all.
func replace(dir, at string, b []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(dir), ".image-")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.Write(b)
	if cerr := tmp.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Chmod(tmp.Name(), 0o644)
	}
	if err == nil {
		err = os.Rename(tmp.Name(), at)
	}
	return err
}

// SetService writes the image that was built for a container beside a task's into
// its docker-compose.yaml, and returns the task as it is then.
func SetService(dir, key, service, ref string) (*task.Task, error) {
	at := filepath.Join(dir, "environment", "docker-compose.yaml")
	old, err := os.ReadFile(at)
	if err != nil {
		return nil, fmt.Errorf("name the service's image: %w", err)
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(old, &doc); err != nil || len(doc.Content) != 1 {
		return nil, fmt.Errorf("name the service's image: %w", errors.Join(errors.New("no compose file"), err))
	}
	of := field(field(doc.Content[0], "services"), service)
	if of == nil || of.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("name the service's image: no service %.60q", service)
	}
	if v := field(of, "image"); v != nil {
		*v = yaml.Node{Kind: yaml.ScalarNode, Value: ref}
	} else {
		of.Content = append(of.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: "image"}, &yaml.Node{Kind: yaml.ScalarNode, Value: ref})
	}
	b, err := yaml.Marshal(&doc)
	if err != nil {
		return nil, fmt.Errorf("name the service's image: %w", err)
	}
	if err := replace(dir, at, b); err != nil {
		return nil, fmt.Errorf("name the service's image: %w", err)
	}
	return task.LoadDir(dir, key)
}

// field is the value of a key; nil where there is none.
func field(n *yaml.Node, key string) *yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

// sameButImage tells whether the task in dir is old but for the images that were
// built for old and for the containers beside it.
func sameButImage(old *task.Task, dir, slug string) bool {
	key := "import/" + slug
	t, err := task.LoadDir(dir, key)
	if err != nil {
		return false
	}
	if ref := old.Config.Environment.Image; ref != "" && t.Config.Environment.Image == "" {
		if t, err = SetImage(dir, key, ref); err != nil {
			return false
		}
	}
	b, err := old.ReadFile("environment/docker-compose.yaml", task.MaxConfig)
	if err == nil && t.Digest != old.Digest {
		for _, s := range pinned(b) {
			if t, err = SetService(dir, key, s[0], s[1]); err != nil {
				return false
			}
		}
	}
	return t.Digest == old.Digest
}

// StandinImages is how names of images begin that stand in for well-known ones and were built here.
const StandinImages = "standin/"

// pinned are the services of a compose file that are built here and name their
// image by digest, and those images, in the order of the file.
func pinned(b []byte) (out [][2]string) {
	var doc yaml.Node
	if err := yaml.Unmarshal(b, &doc); err != nil || len(doc.Content) != 1 {
		return nil
	}
	all := field(doc.Content[0], "services")
	if all == nil || all.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(all.Content); i += 2 {
		of := all.Content[i+1]
		if image := field(of, "image"); image != nil && (field(of, "build") != nil || strings.HasPrefix(image.Value, StandinImages)) && strings.Contains(image.Value, "@sha256:") {
			out = append(out, [2]string{all.Content[i].Value, image.Value})
		}
	}
	return out
}
