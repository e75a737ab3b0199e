package play

import (
	"embed"
	"encoding/json"
	"fmt"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/internal/lazyregexp"
	"github.com/agon-arena/agon/sandbox/rootfs"
)

//go:embed all:kernel
var kernelFS embed.FS

// KernelConfig says how a kernel is made a task.
type KernelConfig struct {
	// Reference is a module of KernelBench's form: a class Model, get_inputs and
	// get_init_inputs (https://github.com/ScalingIntelligence/KernelBench).
	Reference []byte
	// Image is the root file system with what the module imports, by digest; "": the
	// machine's own, which has Python's standard library.
	Image string
	GPU   *agon.GPUNeed // nil: processor time is measured
	// Tolerance is how far an element of an answer may be off, as a share of the
	// answer's size; 0: 1e-4. Calls is how many inputs at each of three scales; 0: 2.
	Tolerance float64
	Calls     int
}

// Bounds of a kernel's task.
const (
	maxKernelBytes = 256 << 10
	maxKernelCalls = 100
)

var (
	kernelModel  = lazyregexp.New(`(?m)^class Model\b`)
	kernelInputs = lazyregexp.New(`(?m)^def get_inputs\(`)
	kernelName   = lazyregexp.New(`\bModel\b`)
)

func (c *KernelConfig) check() error {
	bad := func(field, format string, a ...any) error {
		return &agon.Error{Code: "bad_kernel", Status: 422, Field: field, Message: "kernel: " + field + ": " + fmt.Sprintf(format, a...)}
	}
	switch ref := c.Reference; {
	case len(ref) > maxKernelBytes:
		return bad("reference", "%d bytes, at most %d", len(ref), maxKernelBytes)
	case !utf8.Valid(ref) || strings.ContainsRune(string(ref), 0):
		return bad("reference", "not a text")
	case !kernelModel().Match(ref) || !kernelInputs().Match(ref):
		return bad("reference", "want a class Model and a function get_inputs")
	case c.Image != "" && !rootfs.Pinned(c.Image):
		return bad("image", "%.200q: want an image by its digest: NAME@sha256:…", c.Image)
	case !(c.Tolerance >= 0 && c.Tolerance <= 0.1):
		return bad("tolerance", "%v: want 0 to 0.1", c.Tolerance)
	case c.Calls < 0 || c.Calls > maxKernelCalls:
		return bad("calls", "%d: want 0 to %d", c.Calls, maxKernelCalls)
	}
	if c.GPU != nil {
		if err := c.GPU.Check(); err != nil {
			return bad("gpu", "%v", err)
		}
	}
	return nil
}

// ImportKernel writes a task of a kernel into dir, which must not exist or be empty; its
// last element is the slug. What entries change is solution.py, which is the reference
// under another name to begin with. It returns the files' names.
func ImportKernel(dir string, c KernelConfig) ([]string, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	if c.Tolerance == 0 {
		c.Tolerance = 1e-4
	}
	if c.Calls == 0 {
		c.Calls = 2
	}
	settings, err := json.Marshal(map[string]any{"tolerance": c.Tolerance, "gpu": c.GPU != nil, "calls": c.Calls})
	if err != nil {
		return nil, fmt.Errorf("encode settings: %w", err)
	}
	good := func(slug string) bool {
		return slugForm().MatchString(slug) && len(slug) >= MinSlug && len(slug) <= MaxSlug
	}
	return task.FromTemplate(kernelFS, "kernel", dir, good, fmt.Sprintf("%d to %d lower-case letters, digits and dashes", MinSlug, MaxSlug), func(name, slug string, b []byte) []byte {
		switch path.Base(name) {
		case "reference.py":
			return c.Reference
		case "solution.py":
			return kernelName().ReplaceAll(c.Reference, []byte("ModelNew"))
		case "settings.json":
			return append(settings, '\n')
		case "task.toml":
			b = append(b, c.environment()...)
		}
		return []byte(strings.ReplaceAll(string(b), "SLUG", slug))
	})
}

// environment is the task's [environment].
func (c *KernelConfig) environment() string {
	s := ""
	if c.Image != "" {
		s += fmt.Sprintf("image = %q\n", c.Image)
	}
	if n := c.GPU; n != nil {
		s += fmt.Sprintf("gpus = %d\n", n.Count)
		if len(n.Models) > 0 {
			s += fmt.Sprintf("gpu_types = [\"%s\"]\n", strings.Join(n.Models, `", "`)) // Check lets no quote through
		}
		if n.MemoryBytes > 0 {
			s += fmt.Sprintf("gpu_memory_mb = %d\n", n.MemoryBytes>>20)
		}
	}
	if s != "" {
		s = "\n[environment]\n" + s
	}
	return s
}
