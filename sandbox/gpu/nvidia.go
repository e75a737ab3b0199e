package gpu

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/internal/lazyregexp"
	"github.com/agon-arena/agon/sandbox"
)

// Config makes a Driver of NVIDIA's GPUs.
type Config struct {
	// Root is the machine's root directory; empty is "/". Tests have another.
	Root string
	// Query runs nvidia-smi with arguments and returns what it printed; nil runs the
	// program in PATH, for at most queryTime. It must bound what it returns.
	Query func(ctx context.Context, args ...string) ([]byte, error)
	// Number is the device number of a node; nil asks the file system below Root.
	Number func(path string) (major, minor int64, err error)
	// Libraries is a directory for trees of the driver's libraries as boxes see them.
	Libraries string
	// Hooks are those hooks of CDI files that run: "PATH" or "PATH FIRST-ARGUMENT". A
	// hook is a program that runs as root on the host, on files that a box could have
	// made, so none runs that the operator has not named. Boxes need none: what NVIDIA's
	// do (links of libraries, the loader's cache) the library tree does without a program.
	Hooks []string
	// Python runs the program that times, and Cuda is the driver's library that it opens;
	// empty: "python3" and "libcuda.so.1", as this machine finds them.
	Python, Cuda string
	Now          func() time.Time
}

// Nvidia implements Driver.
type Nvidia struct {
	c    Config
	root *os.Root
}

const (
	queryTime  = 20 * time.Second // of one call of nvidia-smi
	queryBytes = 1 << 20          // of what it prints
	maxProc    = 64 << 10         // bytes of a file of /proc
	// cdiKind is what nvidia-ctk calls its devices.
	cdiKind = "nvidia.com/gpu"
	// LibraryDir is where boxes see the driver's libraries.
	LibraryDir = "/opt/agon-gpu"
)

// NewNvidia returns the driver; it looks at nothing yet but the root.
func NewNvidia(c Config) (*Nvidia, error) {
	if c.Root == "" {
		c.Root = "/"
	}
	if c.Query == nil {
		c.Query = runSMI
	}
	if c.Now == nil {
		c.Now = time.Now //nolint:forbidigo // the one clock of the driver; tests set another
	}
	root, err := os.OpenRoot(c.Root)
	if err != nil {
		return nil, fmt.Errorf("open the machine's root: %w", err)
	}
	n := &Nvidia{c: c, root: root}
	if c.Number == nil {
		n.c.Number = n.number
	}
	return n, nil
}

// runSMI runs nvidia-smi, which prints at most queryBytes.
func runSMI(ctx context.Context, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTime)
	defer cancel()
	bin, err := exec.LookPath("nvidia-smi")
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, bin, args...)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"}
	out := &bounded{left: queryBytes}
	var text bounded
	text.left = 500
	cmd.Stdout, cmd.Stderr = out, &text
	if err := cmd.Run(); err != nil {
		// What is wrong stands in its standard output.
		return nil, fmt.Errorf("%w: %.300q", err, strings.TrimSpace(out.String()+text.String()))
	}
	if out.cut {
		return nil, fmt.Errorf("nvidia-smi prints over %d bytes", queryBytes)
	}
	return out.Bytes(), nil
}

// bounded keeps the first bytes that are written to it.
type bounded struct {
	bytes.Buffer
	left int
	cut  bool
}

func (b *bounded) Write(p []byte) (int, error) {
	k := min(len(p), b.left)
	b.left -= k
	b.cut = b.cut || k < len(p)
	b.Buffer.Write(p[:k])
	return len(p), nil
}

// number asks the file system for a node's device number.
func (n *Nvidia) number(p string) (int64, int64, error) {
	var st unix.Stat_t
	if err := unix.Lstat(path.Join(n.c.Root, p), &st); err != nil {
		return 0, 0, fmt.Errorf("%s: %w", p, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFCHR {
		return 0, 0, fmt.Errorf("%s is not a character device", p)
	}
	return int64(unix.Major(st.Rdev)), int64(unix.Minor(st.Rdev)), nil
}

// errNoDriver says that no kernel driver of NVIDIA's is loaded.
var errNoDriver = errors.New("NVIDIA's kernel driver is not loaded (/proc/driver/nvidia/version is absent)")

// deviceFields are asked of nvidia-smi, in the order of parseDevices.
const deviceFields = "index,uuid,name,memory.total,driver_version,mig.mode.current"

// Devices implements Driver. A card that is divided (MIG) is left out: its parts have
// no clocks of their own, and nothing here keeps them apart.
func (n *Nvidia) Devices(ctx context.Context) ([]Device, error) {
	if _, err := n.root.Stat("proc/driver/nvidia/version"); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	out, err := n.c.Query(ctx, "--query-gpu="+deviceFields, "--format=csv,noheader,nounits")
	if err != nil {
		return nil, fmt.Errorf("%w: nvidia-smi: %w", ErrDriver, err)
	}
	rows, err := parseDevices(out)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDriver, err)
	}
	minors := n.minors()
	var list []Device
	for _, r := range rows {
		if r.mig {
			continue
		}
		minor, ok := minors[r.UUID]
		if !ok {
			return nil, fmt.Errorf("%w: /proc/driver/nvidia/gpus does not name GPU %d", ErrDriver, r.Index)
		}
		r.Minor = minor
		list = append(list, r.Device)
	}
	slices.SortFunc(list, func(a, b Device) int { return a.Index - b.Index })
	return list, nil
}

type deviceRow struct {
	Device
	mig bool
}

var uuidText = lazyregexp.New(`^GPU-[0-9a-f-]{8,60}$`)

// csvRows splits what nvidia-smi prints with --format=csv,noheader,nounits.
func csvRows(b []byte, fields, most int) ([][]string, error) {
	var rows [][]string
	for line := range strings.Lines(string(b)) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		if len(rows) == most {
			return nil, fmt.Errorf("nvidia-smi names over %d devices", most)
		}
		f := strings.Split(line, ",")
		if len(f) != fields {
			return nil, fmt.Errorf("nvidia-smi: %.100q: want %d fields", line, fields)
		}
		for i := range f {
			f[i] = strings.TrimSpace(f[i])
		}
		rows = append(rows, f)
	}
	return rows, nil
}

// parseDevices reads the answer to deviceFields.
func parseDevices(b []byte) ([]deviceRow, error) {
	rows, err := csvRows(b, 6, agon.MaxGPUs)
	if err != nil {
		return nil, err
	}
	var out []deviceRow
	var facts []agon.GPU
	for _, f := range rows {
		var r deviceRow
		if r.Index, err = strconv.Atoi(f[0]); err != nil || r.Index < 0 || r.Index > 1000 {
			return nil, fmt.Errorf("nvidia-smi: index %.20q", f[0])
		}
		if r.UUID = f[1]; !uuidText().MatchString(r.UUID) {
			return nil, fmt.Errorf("nvidia-smi: uuid %.80q of GPU %d", r.UUID, r.Index)
		}
		mib, err := strconv.ParseInt(f[3], 10, 64)
		if err != nil || mib < 1 || mib > agon.MaxGPUMemory>>20 {
			return nil, fmt.Errorf("nvidia-smi: memory.total %.40q of GPU %d", f[3], r.Index)
		}
		r.GPU = agon.GPU{ID: agon.GPUID(r.UUID), Model: f[2], MemoryBytes: mib << 20, Driver: f[4]}
		r.mig = strings.EqualFold(f[5], "enabled")
		out, facts = append(out, r), append(facts, r.GPU)
	}
	if err := agon.CheckGPUs(facts); err != nil {
		return nil, fmt.Errorf("nvidia-smi: GPUs%w", err)
	}
	return out, nil
}

// minors are the nodes of cards, by UUID, as the kernel's driver numbers them.
func (n *Nvidia) minors() map[string]int {
	out := map[string]int{}
	list, err := fs.ReadDir(n.root.FS(), "proc/driver/nvidia/gpus")
	if err != nil {
		return out
	}
	for _, e := range list[:min(len(list), agon.MaxGPUs)] {
		b, err := readSmall(n.root, path.Join("proc/driver/nvidia/gpus", e.Name(), "information"), maxProc)
		if err != nil {
			continue
		}
		if uuid, minor, ok := parseInformation(b); ok {
			out[uuid] = minor
		}
	}
	return out
}

// parseInformation reads /proc/driver/nvidia/gpus/*/information: "KEY: \t VALUE" lines.
func parseInformation(b []byte) (uuid string, minor int, ok bool) {
	minor = -1
	for line := range strings.Lines(string(b)) {
		k, v, _ := strings.Cut(line, ":")
		switch v = strings.TrimSpace(v); strings.TrimSpace(k) {
		case "GPU UUID":
			uuid = v
		case "Device Minor":
			if m, err := strconv.Atoi(v); err == nil && m >= 0 && m < 255 {
				minor = m
			}
		}
	}
	return uuid, minor, uuidText().MatchString(uuid) && minor >= 0
}

// shownNode are the nodes that computing takes. Others of a CDI file stay outside:
// those for displays and graphics, for tools that watch other processes, for parts of
// divided cards.
var shownNode = lazyregexp.New(`^/dev/(nvidia([0-9]{1,3})|nvidiactl|nvidia-uvm)$`)

// Attach implements Driver.
func (n *Nvidia) Attach(_ context.Context, devices []Device) (*sandbox.Devices, error) {
	fail := func(format string, a ...any) (*sandbox.Devices, error) {
		return nil, fmt.Errorf("%w: %w", sandbox.ErrHost, fmt.Errorf(format, a...))
	}
	files := readCDI(n.root)
	out := &sandbox.Devices{Proxy: true}
	var libs []string
	for _, d := range devices {
		e, err := n.edits(files, d)
		if err != nil {
			return fail("%w", err)
		}
		out.IDs = append(out.IDs, d.ID)
		if err := n.addNodes(out, e, d); err != nil {
			return fail("%w", err)
		}
		for _, v := range e.Env {
			if k, _, _ := strings.Cut(v, "="); (strings.HasPrefix(k, "NVIDIA_") || strings.HasPrefix(k, "CUDA_")) && !slices.Contains(out.Env, v) {
				out.Env = append(out.Env, v)
			}
		}
		for _, m := range e.Mounts {
			if !slices.Contains(libs, m.HostPath) {
				libs = append(libs, m.HostPath)
			}
		}
		n.addHooks(out, e)
	}
	dir, err := n.libraryTree(libs)
	if err != nil {
		return fail("%w", err)
	}
	out.Mounts = []sandbox.DeviceMount{{Source: dir, Target: LibraryDir}}
	out.Env = append(out.Env, "LD_LIBRARY_PATH="+LibraryDir)
	return out, nil
}

// edits finds what the CDI files say of a device: the last file that names it counts.
func (n *Nvidia) edits(files []cdiFile, d Device) (cdiEdits, error) {
	var broken error
	for _, f := range slices.Backward(files) {
		if f.Err != nil {
			broken = fmt.Errorf("%s: %w", f.Path, f.Err)
			continue
		}
		if f.Spec.Kind != cdiKind {
			continue
		}
		for _, name := range []string{d.UUID, strconv.Itoa(d.Index)} {
			if e, ok := f.Spec.device(name); ok {
				return e, nil
			}
		}
	}
	if broken != nil {
		return cdiEdits{}, broken
	}
	return cdiEdits{}, fmt.Errorf("no CDI file names GPU %d; run: nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml", d.Index)
}

// addNodes adds the nodes of one device. A file that is older than the cards of the
// machine could name another card, which somebody else may hold: it is refused.
func (n *Nvidia) addNodes(out *sandbox.Devices, e cdiEdits, d Device) error {
	own := false
	for _, node := range e.Nodes {
		m := shownNode().FindStringSubmatch(node.Path)
		if m == nil {
			continue
		}
		if m[2] != "" {
			if m[2] != strconv.Itoa(d.Minor) {
				return fmt.Errorf("the CDI file names %s for GPU %d, whose node is /dev/nvidia%d; run: nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml", node.Path, d.Index, d.Minor)
			}
			own = true
		}
		if slices.ContainsFunc(out.Nodes, func(x sandbox.DeviceNode) bool { return x.Path == node.Path }) {
			continue
		}
		major, minor, err := n.c.Number(node.Path)
		if err != nil {
			return fmt.Errorf("device node: %w", err)
		}
		out.Nodes = append(out.Nodes, sandbox.DeviceNode{Path: node.Path, Major: major, Minor: minor})
	}
	if !own {
		return fmt.Errorf("the CDI file names no /dev/nvidia%d for GPU %d", d.Minor, d.Index)
	}
	return nil
}

// addHooks adds the hooks that the operator has named.
func (n *Nvidia) addHooks(out *sandbox.Devices, e cdiEdits) {
	for _, h := range e.Hooks {
		if h.Name != "createContainer" {
			continue
		}
		name := h.Path
		if len(h.Args) > 1 {
			name += " " + h.Args[1]
		}
		if !slices.Contains(n.c.Hooks, h.Path) && !slices.Contains(n.c.Hooks, name) {
			continue
		}
		same := func(x sandbox.DeviceHook) bool { return x.Path == h.Path && slices.Equal(x.Args, h.Args) }
		if !slices.ContainsFunc(out.Hooks, same) {
			out.Hooks = append(out.Hooks, sandbox.DeviceHook{Path: h.Path, Args: h.Args, Env: h.Env})
		}
	}
}
