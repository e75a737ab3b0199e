package play

import (
	"bytes"
	"compress/zlib"
	"embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/fs"
	"strings"
	"sync"

	"github.com/agon-arena/agon/sandbox/warm"
)

//go:embed runtime/boot.py runtime/agon_child.py runtime/ujson.py runtime/requests/__init__.py runtime/src/__init__.py runtime/src/agent/*.py
var runtimeFS embed.FS

// maxArg is what one argument of a program may have on Linux, in bytes.
const maxArg = 128 << 10

// childArgs is the command that plays one problem. What agents import travels
// as an argument, so that no file in a box holds it.
var childArgs = sync.OnceValues(func() ([]string, error) {
	modules, boot := map[string]string{}, ""
	err := fs.WalkDir(runtimeFS, "runtime", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := runtimeFS.ReadFile(p)
		if err != nil {
			return fmt.Errorf("read %s: %w", p, err)
		}
		name := strings.ReplaceAll(strings.TrimSuffix(strings.TrimPrefix(p, "runtime/"), ".py"), "/", ".")
		if name == "boot" {
			boot = string(b)
			return nil
		}
		modules[name] = string(b)
		return nil
	})
	if err != nil {
		return nil, err
	}
	modules[warm.Module] = warm.Source
	b, err := json.Marshal(modules)
	if err != nil {
		return nil, fmt.Errorf("pack the runtime: %w", err)
	}
	var z bytes.Buffer
	w := zlib.NewWriter(&z)
	if _, err := w.Write(b); err != nil {
		return nil, fmt.Errorf("pack the runtime: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("pack the runtime: %w", err)
	}
	arg := base64.StdEncoding.EncodeToString(z.Bytes())
	if len(arg) >= maxArg {
		return nil, fmt.Errorf("pack the runtime: %d bytes do not fit into an argument", len(arg))
	}
	// -P and -s: nothing beside the standard library is on the path; -B: nothing is written.
	return []string{"python3", "-P", "-s", "-B", "-c", boot, arg}, nil
})
