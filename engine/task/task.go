// Package task reads task directories in the Harbor form (task.toml,
// instruction.md, environment/, tests/, solution/) with one table of our own.
package task

import (
	"io"
	"io/fs"

	"github.com/pelletier/go-toml/v2"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/sandbox/datasets"
	"github.com/agon-arena/agon/sandbox/rootfs"
)

// Task is a parsed task directory. It does not change after Load.
type Task struct {
	Key string // set/name, for example "small/stack-pop"
	// Dir is the directory it was read from (LoadDir), empty after Load from
	// an fs.FS. Foreign bytes: open it with os.Root only, or mount it.
	Dir string
	// Digest names the task's exact data: the manifest digest (package blob)
	// of what Materialise writes. A recipe's digest covers the recipe only.
	Digest      agon.Digest
	Instruction string // instruction.md
	Config      Config

	files []file // sorted by path
	fsys  fs.FS  // where their bytes are read from again
}

// Recipe reports whether t only says how a released task is made: base,
// tests and solution come through Fetch.
func (t *Task) Recipe() bool {
	return t.Config.Agon.Released != nil && t.Config.Agon.Base == ""
}

// Config is task.toml.
type Config struct {
	Version     string      `toml:"version"`
	Task        Meta        `toml:"task"`
	Metadata    Metadata    `toml:"metadata"`
	Agent       AgentConf   `toml:"agent"`
	Verifier    AgentConf   `toml:"verifier"`
	Environment Environment `toml:"environment"`
	Agon        Agon        `toml:"agon"`
}

// Meta is the [task] table.
type Meta struct {
	Name        string   `toml:"name"` // org/name
	Description string   `toml:"description"`
	Keywords    []string `toml:"keywords"`
}

// Metadata is the [metadata] table: provenance and difficulty.
type Metadata struct {
	Difficulty string `toml:"difficulty"`
	Source     string `toml:"source"`
	Licence    string `toml:"licence"`
}

// AgentConf holds the timeouts of [agent] and [verifier].
type AgentConf struct {
	TimeoutSec float64 `toml:"timeout_sec"`
}

// Environment is the [environment] table.
type Environment struct {
	CPUs      float64 `toml:"cpus"`
	MemoryMB  int64   `toml:"memory_mb"`
	StorageMB int64   `toml:"storage_mb"`
	Workdir   string  `toml:"workdir"`
	Stands
	// GPUs is how many accelerators the task's boxes need, GPUTypes the models that will
	// do (Harbor's names for both), GPUMemoryMB the least memory of each.
	GPUs        int      `toml:"gpus,omitempty"`
	GPUTypes    []string `toml:"gpu_types,omitempty"`
	GPUMemoryMB int64    `toml:"gpu_memory_mb,omitempty"`
}

// Stands is what a task's boxes stand on and see, as [environment] names it.
type Stands struct {
	// Image is the root file system of the task's boxes, named by digest
	// ("NAME@sha256:…", "sha256:…"); empty is each machine's own.
	Image string `toml:"image,omitempty"`
	// DockerImage is Harbor's name for the same; kinds that read it want a digest.
	DockerImage string `toml:"docker_image,omitempty"`
	// Datasets are read-only data sets by digest (NAME=WHERE@sha256:…), which the
	// task's boxes see below /datasets.
	Datasets []string `toml:"datasets,omitempty"`
}

// GPU is what accelerators the task's boxes need; nil: none.
func (e Environment) GPU() *agon.GPUNeed {
	if e.GPUs == 0 && len(e.GPUTypes) == 0 && e.GPUMemoryMB == 0 {
		return nil
	}
	return &agon.GPUNeed{Count: e.GPUs, MemoryBytes: e.GPUMemoryMB << 20, Models: e.GPUTypes}
}

// Datasets are the data sets that a task names, as WHERE@sha256:…, without their names.
func (t *Task) Datasets() (out []string) {
	list, _ := datasets.ParseAll(t.Config.Environment.Datasets) // Load has checked them
	for _, r := range list {
		out = append(out, r.String())
	}
	return out
}

// DatasetsIn reads which data sets the task in a directory names, which may hold
// anything. A directory without a task names none. Errors wrap datasets.ErrDataset.
func DatasetsIn(dir string) ([]datasets.Ref, error) {
	return datasets.ParseAll(StandsIn(dirFS(dir)).Datasets)
}

// StandsIn reads what the boxes of the task in a directory stand on. A directory
// without a task, or with one that cannot be read, names nothing: who reads the
// task says what is wrong with it.
func StandsIn(dir fs.FS) (s Stands) {
	f, err := dir.Open(configFile)
	if err != nil {
		return s
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, MaxConfig))
	if err != nil {
		return s
	}
	var c struct {
		Environment Stands `toml:"environment"`
	}
	if toml.Unmarshal(b, &c) != nil {
		return s
	}
	return c.Environment
}

// Image is the root file system that a task names, by its digest; "": none.
func (t *Task) Image() string { return t.Config.Environment.Named() }

// Named is the image, by whichever of its two names; "": none.
func (e Stands) Named() string {
	if e.Image == "" && rootfs.Pinned(e.DockerImage) {
		return e.DockerImage
	}
	return e.Image
}

// Agon is the [agon] table: the kind that the task is of and, for repository
// tasks, what Harbor's fields do not say.
type Agon struct {
	Kind string `toml:"kind"`
	// Base is the directory with the tree at the bug, relative to the task ("environment/repo").
	Base string `toml:"base"`
	// Hidden is the directory whose files are laid over the tree before
	// grading, relative to the task ("tests/hidden"). Its paths are protected: a patch may touch them, the copy wins.
	Hidden string `toml:"hidden"`
	// Solution is the reference patch, relative to the task ("solution/fix.patch").
	Solution string `toml:"solution"`
	// Canary says that the statement is another task's, whose names this tree has not:
	// a file of lines of that one's answer, relative to the task ("tests/canary.txt").
	// An answer that holds them is known by heart.
	Canary string `toml:"canary,omitempty"`
	// PythonPath lists directories of the tree to put on sys.path ("", "src").
	// Load fills in [""] where the file says nothing.
	PythonPath []string `toml:"python_path"`
	// Runner runs the tests: one of Runners; "" is unittest.
	Runner string `toml:"runner,omitempty"`
	// FailToPass and PassToPass name tests as the runner's ids (see Runners).
	FailToPass []string `toml:"fail_to_pass"`
	PassToPass []string `toml:"pass_to_pass"`
	// TestTimeoutSec bounds each test (default 20).
	TestTimeoutSec float64 `toml:"test_timeout_sec"`
	// Python is the interpreter that runs the tests, as a path in the image;
	// empty is the image's python3, and agon's own where it has none.
	Python string `toml:"python,omitempty"`
	// Processes says that tests, or the code that they test, start processes. Without it they cannot.
	Processes bool `toml:"processes"`
	// Plugins are the plugins that pytest loads; others stay off.
	Plugins []string `toml:"plugins,omitempty"`
	// Visible says that the failing tests are in the base tree, so that an agent can run them.
	Visible bool `toml:"visible"`
	// Released is set for tasks made from published packages (see Fetch).
	Released *Released `toml:"released"`
}

// Repository reports whether the task is to mend a repository: base tree, hidden
// tests and a reference patch, which Load then checks. Tasks of other forms have
// no field but Kind, and files that their kind reads (see Form).
func (a *Agon) Repository() bool {
	return a.Base != "" || a.Hidden != "" || a.Solution != "" || a.Released != nil || len(a.FailToPass)+len(a.PassToPass)+len(a.PythonPath) > 0
}

// Released pins a task's bytes to two published versions of one package.
type Released struct {
	Index      string `toml:"index,omitempty"` // one of Indexes; "" is Python's
	Package    string `toml:"package"`         // name on the package index
	Base       string `toml:"base"`            // version with the bug
	BaseSHA256 string `toml:"base_sha256"`     // of its archive
	Fix        string `toml:"fix"`             // version that mends it
	FixSHA256  string `toml:"fix_sha256"`
	Licence    string `toml:"licence"`
	// Tests maps files of the fixed version to where they are laid as hidden tests.
	Tests map[string]string `toml:"tests"`
	// Sources lists the files of the fixed version that make up the reference solution.
	Sources []string `toml:"sources"`
	// Drop lists paths removed from the base tree (for example its own tests when they would clash).
	Drop []string `toml:"drop"`
	// Notes is the file of the fixed version with its release notes. What it has
	// and the base has not is put below the instruction when the task is made.
	Notes string `toml:"notes,omitempty"`
	// Published is the day on which the fix was published, as the index says ("2026-11-02").
	Published string `toml:"published,omitempty"`
	// Quarantined are tests that came out differently when they were repeated,
	// and are in neither list.
	Quarantined []string `toml:"quarantined,omitempty"`
	// Digest pins the task that Fetch makes of this recipe, so that everybody
	// plays the same bytes. Empty in the made task itself.
	Digest agon.Digest `toml:"digest,omitempty"`
}
