package agon

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// Limits bound one execution environment. Zero means the driver's default.
type Limits struct {
	WallMS      int64 `json:"wall_ms" toml:"wall_ms"`
	CPUMS       int64 `json:"cpu_ms,omitempty" toml:"cpu_ms"`   // CPU time, all processes together
	CPUMilli    int64 `json:"cpu_milli" toml:"cpu_milli"`       // 1000 = one core
	MemoryBytes int64 `json:"memory_bytes" toml:"memory_bytes"` // resident, swap included
	Pids        int64 `json:"pids" toml:"pids"`
	DiskBytes   int64 `json:"disk_bytes" toml:"disk_bytes"` // everything writable
	Inodes      int64 `json:"inodes" toml:"inodes"`
	OutputBytes int64 `json:"output_bytes" toml:"output_bytes"` // stdout and stderr, each; more ends the run
	// GPUs is how many accelerators the box is given, and GPUMemoryBytes the least memory
	// of each. Zero: none, even if the machine has some.
	GPUs           int64 `json:"gpus,omitempty" toml:"gpus"`
	GPUMemoryBytes int64 `json:"gpu_memory_bytes,omitempty" toml:"gpu_memory_bytes"`
}

// GPU is one accelerator of a validator, as claims and records name it.
type GPU struct {
	// ID names the card without telling its serial: see GPUID.
	ID          string `json:"id"`
	Model       string `json:"model"`        // as its driver says: "NVIDIA A100-SXM4-80GB"
	MemoryBytes int64  `json:"memory_bytes"` // of the card
	Driver      string `json:"driver"`       // version of the kernel's driver: "570.86.15"
}

// Bounds of what a validator says of its GPUs, and of what a task asks for.
const (
	MaxGPUs        = 64 // of a machine
	MaxTaskGPUs    = 16
	MaxGPUModels   = 16
	MaxGPUMemory   = 1 << 42 // bytes: 4 TiB
	maxGPUText     = 80      // bytes of a model's name
	maxGPUVersion  = 40
	gpuIDHexDigits = 32
)

// isGPUText reports whether s may name a model or a version. It has no quote and none of
// the characters that mean something in a pattern of SQL: the queue compares needs as text.
func isGPUText(s string, most int) bool {
	return s != "" && len(s) <= most && !strings.ContainsFunc(s, func(r rune) bool {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		return !letter && !strings.ContainsRune(" ().+/-", r)
	})
}

// GPUID names a card by what its driver calls it (its UUID): the first 32 hex
// digits of a SHA-256, so that a record tells two cards apart and no serial number.
func GPUID(uuid string) string { return Sum([]byte("agon-gpu-v1\n" + uuid)).Hex()[:gpuIDHexDigits] }

// Check says what is wrong with a GPU that a validator names; nil: nothing.
func (g GPU) Check() error {
	switch {
	case len(g.ID) != gpuIDHexDigits || strings.Trim(g.ID, "0123456789abcdef") != "":
		return fmt.Errorf("id %.40q: want %d lower-case hex digits", g.ID, gpuIDHexDigits)
	case !isGPUText(g.Model, maxGPUText):
		return fmt.Errorf("model %.100q: want 1 to %d bytes of letters, digits and ' ().+/-'", g.Model, maxGPUText)
	case g.MemoryBytes < 1 || g.MemoryBytes > MaxGPUMemory:
		return fmt.Errorf("memory_bytes %d: want 1 to %d", g.MemoryBytes, int64(MaxGPUMemory))
	case !isGPUText(g.Driver, maxGPUVersion):
		return fmt.Errorf("driver %.60q: want a version of at most %d bytes", g.Driver, maxGPUVersion)
	}
	return nil
}

// CheckGPUs is Check of a machine's GPUs: each card once.
func CheckGPUs(list []GPU) error {
	if len(list) > MaxGPUs {
		return fmt.Errorf("%d GPUs, at most %d", len(list), MaxGPUs)
	}
	seen := map[string]bool{}
	for i, g := range list {
		if err := g.Check(); err != nil {
			return fmt.Errorf("[%d].%w", i, err)
		}
		if seen[g.ID] {
			return fmt.Errorf("[%d].id %s is named twice", i, g.ID)
		}
		seen[g.ID] = true
	}
	return nil
}

// GPUNeed is what a task asks of a validator's machine. All GPUs of a run are of one model.
type GPUNeed struct {
	Count       int   `json:"count"`
	MemoryBytes int64 `json:"memory_bytes,omitempty"` // of each, at least
	// Models are names that the model may have: "H100", "A100 80GB"; empty: any. A
	// name fits a model that has all its words: "A10" does not fit an A100.
	Models []string `json:"models,omitempty"`
}

// Check says what is wrong with a need; nil: nothing.
func (n *GPUNeed) Check() error {
	switch {
	case n.Count < 1 || n.Count > MaxTaskGPUs:
		return fmt.Errorf("count %d: want 1 to %d", n.Count, MaxTaskGPUs)
	case n.MemoryBytes < 0 || n.MemoryBytes > MaxGPUMemory:
		return fmt.Errorf("memory_bytes %d: want 0 to %d", n.MemoryBytes, int64(MaxGPUMemory))
	case len(n.Models) > MaxGPUModels:
		return fmt.Errorf("%d models, at most %d", len(n.Models), MaxGPUModels)
	}
	for _, m := range n.Models {
		if !isGPUText(m, maxGPUText) {
			return fmt.Errorf("model %.100q: want 1 to %d bytes of letters, digits and ' ().+/-'", m, maxGPUText)
		}
	}
	return nil
}

// String says the need in words: "2 GPUs of 40.0 GiB (H100 or A100)".
func (n *GPUNeed) String() string {
	if n == nil {
		return "no GPU"
	}
	s := "1 GPU"
	if n.Count != 1 {
		s = fmt.Sprintf("%d GPUs", n.Count)
	}
	if n.MemoryBytes > 0 {
		s += fmt.Sprintf(" of %.1f GiB", float64(n.MemoryBytes)/(1<<30))
	}
	if len(n.Models) > 0 {
		s += " (" + strings.Join(n.Models, " or ") + ")"
	}
	return s
}

// Fits reports whether one GPU is of the kind that is asked for.
func (n *GPUNeed) Fits(g GPU) bool {
	if g.MemoryBytes < n.MemoryBytes {
		return false
	}
	for _, m := range n.Models {
		if hasWords(g.Model, m) {
			return true
		}
	}
	return len(n.Models) == 0
}

// Choose takes the GPUs for a need out of list, the first of one model that are
// enough; nil: list does not have them.
func (n *GPUNeed) Choose(list []GPU) []GPU {
	by := map[string][]GPU{}
	for _, g := range list {
		if !n.Fits(g) {
			continue
		}
		by[g.Model] = append(by[g.Model], g)
		if len(by[g.Model]) == n.Count {
			return by[g.Model]
		}
	}
	return nil
}

// NeedOf is what a run on tasks needs: the most of what each asks for; nil: none of
// them asks for a GPU. Models are those that all who name some have in common.
func NeedOf(tasks []TaskRef) (*GPUNeed, error) {
	var all *GPUNeed
	for _, t := range tasks {
		n := t.GPU
		if n == nil {
			continue
		}
		if err := n.Check(); err != nil {
			return nil, fmt.Errorf("task %s: gpu.%w", t.Key, err)
		}
		if all == nil {
			all = &GPUNeed{}
		}
		all.Count, all.MemoryBytes = max(all.Count, n.Count), max(all.MemoryBytes, n.MemoryBytes)
		switch {
		case len(all.Models) == 0:
			all.Models = slices.Clone(n.Models)
		case len(n.Models) > 0:
			all.Models = slices.DeleteFunc(all.Models, func(m string) bool { return !slices.Contains(n.Models, m) })
			if len(all.Models) == 0 {
				return nil, fmt.Errorf("task %s: gpu.models: no model serves all tasks of one run", t.Key)
			}
		}
	}
	return all, nil
}

// hasWords reports whether every word of want is one of text's, in any order.
func hasWords(text, want string) bool {
	words := func(s string) []string {
		return strings.FieldsFunc(strings.ToLower(s), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '.' })
	}
	has := map[string]bool{}
	for _, w := range words(text) {
		has[w] = true
	}
	for _, w := range words(want) {
		if !has[w] {
			return false
		}
	}
	return true
}

// HardwareClass names what an attempt ran on, so that measured times are compared
// within one class: "2 x NVIDIA A100-SXM4-80GB"; "": no GPU.
func (d Driver) HardwareClass() string {
	if len(d.GPUs) == 0 {
		return ""
	}
	return fmt.Sprintf("%d x %s", len(d.GPUs), d.GPUs[0].Model)
}
