package gpu

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	yaml "go.yaml.in/yaml/v3"
	"golang.org/x/sys/unix"
)

// The Container Device Interface: files that say what a container needs to use a
// device (https://github.com/cncf-tags/container-device-interface, SPEC.md 0.3 to 1.0).
// nvidia-ctk writes them. Of what they may hold, device nodes, mounts, variables and
// hooks are read; all else means nothing to a box.

// Bounds of CDI files.
const (
	maxCDIBytes   = 4 << 20 // a file
	maxCDIFiles   = 64      // of a directory
	maxCDIDevices = 512
	maxCDIList    = 4096 // entries of any list
	maxCDIText    = 4096 // bytes of any text
)

// ErrCDI marks a CDI file that cannot be used.
var ErrCDI = errors.New("bad CDI file")

// cdiSpec is one file.
type cdiSpec struct {
	Version string      `yaml:"cdiVersion"`
	Kind    string      `yaml:"kind"` // vendor/class
	Devices []cdiDevice `yaml:"devices"`
	Edits   cdiEdits    `yaml:"containerEdits"` // of every device
}

type cdiDevice struct {
	Name  string   `yaml:"name"`
	Edits cdiEdits `yaml:"containerEdits"`
}

type cdiEdits struct {
	Env    []string   `yaml:"env"`
	Nodes  []cdiNode  `yaml:"deviceNodes"`
	Mounts []cdiMount `yaml:"mounts"`
	Hooks  []cdiHook  `yaml:"hooks"`
}

type cdiNode struct {
	Path     string `yaml:"path"`
	HostPath string `yaml:"hostPath"`
	Type     string `yaml:"type"`
}

type cdiMount struct {
	HostPath      string `yaml:"hostPath"`
	ContainerPath string `yaml:"containerPath"`
}

type cdiHook struct {
	Name string   `yaml:"hookName"`
	Path string   `yaml:"path"`
	Args []string `yaml:"args"`
	Env  []string `yaml:"env"`
}

// parseCDI reads a CDI file, JSON (which is YAML, too) or YAML. Errors wrap ErrCDI.
func parseCDI(b []byte) (*cdiSpec, error) {
	bad := func(format string, a ...any) (*cdiSpec, error) {
		return nil, fmt.Errorf("%w: %s", ErrCDI, fmt.Sprintf(format, a...))
	}
	if len(b) > maxCDIBytes {
		return bad("over %d bytes", maxCDIBytes)
	}
	var s cdiSpec
	if err := yaml.Unmarshal(b, &s); err != nil {
		return bad("%.300s", err)
	}
	if v := s.Version; !strings.HasPrefix(v, "0.") && !strings.HasPrefix(v, "1.") {
		return bad("cdiVersion %.20q: want 0.x or 1.x", v)
	}
	if vendor, class, ok := strings.Cut(s.Kind, "/"); !ok || vendor == "" || class == "" || len(s.Kind) > 200 {
		return bad("kind %.100q: want VENDOR/CLASS", s.Kind)
	}
	if len(s.Devices) > maxCDIDevices {
		return bad("%d devices, at most %d", len(s.Devices), maxCDIDevices)
	}
	if err := s.Edits.check(); err != nil {
		return bad("containerEdits.%v", err)
	}
	seen := map[string]bool{}
	for i, d := range s.Devices {
		if d.Name == "" || len(d.Name) > 200 {
			return bad("devices[%d].name %.100q: want 1 to 200 bytes", i, d.Name)
		}
		if seen[d.Name] {
			return bad("devices[%d].name %.100q is there twice", i, d.Name)
		}
		seen[d.Name] = true
		if err := d.Edits.check(); err != nil {
			return bad("devices[%d].containerEdits.%v", i, err)
		}
	}
	return &s, nil
}

func (e *cdiEdits) check() error {
	if n := max(len(e.Env), len(e.Nodes), len(e.Mounts), len(e.Hooks)); n > maxCDIList {
		return fmt.Errorf("a list has %d entries, at most %d", n, maxCDIList)
	}
	for i, v := range e.Env {
		if k, _, ok := strings.Cut(v, "="); !ok || k == "" || len(v) > maxCDIText || strings.ContainsRune(v, 0) {
			return fmt.Errorf("env[%d] %.100q: want NAME=VALUE of at most %d bytes", i, v, maxCDIText)
		}
	}
	for i, n := range e.Nodes {
		if !below("/dev", n.Path) {
			return fmt.Errorf("deviceNodes[%d].path %.100q: want a clean path below /dev", i, n.Path)
		}
		if n.HostPath != "" && n.HostPath != n.Path {
			return fmt.Errorf("deviceNodes[%d].hostPath %.100q: boxes see devices under the path of the host", i, n.HostPath)
		}
		if n.Type != "" && n.Type != "c" && n.Type != "u" {
			return fmt.Errorf("deviceNodes[%d].type %.10q: want c", i, n.Type)
		}
	}
	for i, m := range e.Mounts {
		if !below("/", m.HostPath) || !below("/", m.ContainerPath) {
			return fmt.Errorf("mounts[%d] %.100q at %.100q: want clean absolute paths", i, m.HostPath, m.ContainerPath)
		}
	}
	for i, h := range e.Hooks {
		if !below("/", h.Path) || len(h.Args) > 256 || len(h.Env) > 64 {
			return fmt.Errorf("hooks[%d].path %.100q: want a clean absolute path, at most 256 arguments and 64 variables", i, h.Path)
		}
		for _, t := range slices.Concat(h.Args, h.Env) {
			if len(t) > maxCDIText || strings.ContainsRune(t, 0) {
				return fmt.Errorf("hooks[%d] has an argument of over %d bytes", i, maxCDIText)
			}
		}
	}
	return nil
}

// below reports whether p is a clean path below dir.
func below(dir, p string) bool {
	return path.IsAbs(p) && path.Clean(p) == p && p != dir && len(p) <= maxCDIText && !strings.ContainsAny(p, "\x00\n") &&
		(dir == "/" || strings.HasPrefix(p, dir+"/"))
}

// device is what the file says of a device, with what it says of all.
func (s *cdiSpec) device(name string) (cdiEdits, bool) {
	for _, d := range s.Devices {
		if d.Name == name {
			return cdiEdits{
				Env:    slices.Concat(s.Edits.Env, d.Edits.Env),
				Nodes:  slices.Concat(s.Edits.Nodes, d.Edits.Nodes),
				Mounts: slices.Concat(s.Edits.Mounts, d.Edits.Mounts),
				Hooks:  slices.Concat(s.Edits.Hooks, d.Edits.Hooks),
			}, true
		}
	}
	return cdiEdits{}, false
}

// cdiDirs are read in order: what the second says of a device comes first. /var/run
// is a link to /run on every system that has CDI files.
var cdiDirs = []string{"etc/cdi", "run/cdi"}

// cdiFile is a file that was read, or what is wrong with it.
type cdiFile struct {
	Path string
	Spec *cdiSpec
	Err  error
}

// readCDI reads the CDI files of a machine, whose root is an open directory. Files
// that cannot be read are named in the result: they stop nobody.
func readCDI(root *os.Root) (out []cdiFile) {
	for _, dir := range cdiDirs {
		list, err := fs.ReadDir(root.FS(), dir)
		if err != nil {
			if !errors.Is(err, fs.ErrNotExist) {
				out = append(out, cdiFile{Path: "/" + dir, Err: err})
			}
			continue
		}
		n := 0
		for _, e := range list {
			if ext := path.Ext(e.Name()); ext != ".json" && ext != ".yaml" && ext != ".yml" {
				continue
			}
			f := cdiFile{Path: "/" + path.Join(dir, e.Name())}
			if n++; n > maxCDIFiles {
				f.Err = fmt.Errorf("%w: over %d files in /%s", ErrCDI, maxCDIFiles, dir)
				out = append(out, f)
				break
			}
			var b []byte
			if b, f.Err = readSmall(root, f.Path, maxCDIBytes); f.Err == nil {
				f.Spec, f.Err = parseCDI(b)
			}
			out = append(out, f)
		}
	}
	return out
}

// readSmall reads a regular file below root of at most limit bytes.
func readSmall(root *os.Root, p string, limit int64) ([]byte, error) {
	f, err := root.OpenFile(strings.TrimPrefix(p, "/"), os.O_RDONLY|unix.O_NONBLOCK, 0) // a FIFO holds nobody up
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if fi, err := f.Stat(); err != nil || !fi.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", p)
	}
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fmt.Errorf("%s is over %d bytes", p, limit)
	}
	return b, err
}
