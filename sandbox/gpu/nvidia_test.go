package gpu_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/gpu"
	"github.com/agon-arena/agon/sandbox/gpu/gputest"
)

// fakeCuda is the path of the stand-in for the driver's library, built once.
var fakeCuda = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "agon-cuda-")
	if err != nil {
		return "", err
	}
	lib := filepath.Join(dir, "libcuda.so.570.0")
	out, err := exec.Command("gcc", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o", lib, "testdata/libcuda.c").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return lib, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if lib, err := fakeCuda(); err == nil {
		_ = os.RemoveAll(filepath.Dir(lib))
	}
	os.Exit(code)
}

const (
	uuid0 = "GPU-11111111-2222-3333-4444-555555555555"
	uuid1 = "GPU-66666666-7777-8888-9999-aaaaaaaaaaaa"
)

// machine is a root directory as NVIDIA's driver and nvidia-ctk leave one.
type machine struct {
	root, devices, sample string
	config                gpu.Config
}

func (m *machine) write(t *testing.T, p, text string) {
	t.Helper()
	p = filepath.Join(m.root, p)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

const cdiFile = `cdiVersion: "0.5.0"
kind: nvidia.com/gpu
devices:
  - name: "0"
    containerEdits:
      deviceNodes: [{path: /dev/nvidia0}, {path: /dev/dri/card1}]
  - name: "1"
    containerEdits:
      deviceNodes: [{path: /dev/nvidia1}]
containerEdits:
  env: [NVIDIA_VISIBLE_DEVICES=void, LD_PRELOAD=/evil.so]
  deviceNodes: [{path: /dev/nvidiactl}, {path: /dev/nvidia-uvm}, {path: /dev/nvidia-uvm-tools}, {path: /dev/nvidia-modeset}]
  mounts:
    - {hostPath: /usr/lib/libcuda.so.570.0, containerPath: /usr/lib/libcuda.so.570.0, options: [ro]}
    - {hostPath: /run/nvidia-persistenced/socket, containerPath: /run/nvidia-persistenced/socket}
    - {hostPath: /usr/bin/nvidia-smi, containerPath: /usr/bin/nvidia-smi}
  hooks:
    - {hookName: createContainer, path: /usr/bin/nvidia-cdi-hook, args: [nvidia-cdi-hook, update-ldcache, --folder, /usr/lib]}
    - {hookName: createContainer, path: /usr/bin/nvidia-cdi-hook, args: [nvidia-cdi-hook, chmod]}
`

func newMachine(t *testing.T) *machine {
	t.Helper()
	lib, err := fakeCuda()
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{
		root:    t.TempDir(),
		devices: "0, " + uuid0 + ", NVIDIA A100-SXM4-80GB, 81920, 570.86.15, Disabled\n1, " + uuid1 + ", NVIDIA A100-SXM4-80GB, 81920, 570.86.15, [N/A]\n",
		sample:  "1410, 1593, 1410, 44, 71.21, 4, 0x0000000000000004\n",
	}
	m.write(t, "proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.86.15\n")
	for i, u := range []string{uuid0, uuid1} {
		m.write(t, fmt.Sprintf("proc/driver/nvidia/gpus/0000:0%d:00.0/information", i),
			fmt.Sprintf("Model: \t\t NVIDIA A100-SXM4-80GB\nIRQ:   \t\t 54\nGPU UUID: \t %s\nDevice Minor: \t %d\n", u, i))
	}
	m.write(t, "etc/cdi/nvidia.yaml", cdiFile)
	b, err := os.ReadFile(lib)
	if err != nil {
		t.Fatal(err)
	}
	m.write(t, "usr/lib/libcuda.so.570.0", string(b))
	m.config = gpu.Config{
		Root: m.root, Libraries: t.TempDir(), Cuda: lib,
		Query: func(_ context.Context, args ...string) ([]byte, error) {
			if strings.HasPrefix(args[0], "--id=") {
				return []byte(m.sample), nil
			}
			return []byte(m.devices), nil
		},
		Number: func(p string) (int64, int64, error) { return 195, int64(p[len(p)-1]), nil },
	}
	return m
}

func (m *machine) driver(t *testing.T) *gpu.Nvidia {
	t.Helper()
	d, err := gpu.NewNvidia(m.config)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// The suite over NVIDIA's driver, of which only nvidia-smi and the library are stand-ins.
func TestNvidia(t *testing.T) { gputest.Run(t, newMachine(t).driver(t)) }

func attach(t *testing.T, m *machine, index int) (*sandbox.Devices, error) {
	t.Helper()
	d := m.driver(t)
	list, err := d.Devices(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return d.Attach(t.Context(), list[index:index+1])
}

// What a CDI file says beyond what computing takes stays outside of the box.
func TestAttachShowsLittle(t *testing.T) {
	m := newMachine(t)
	a, err := attach(t, m, 0)
	if err != nil {
		t.Fatal(err)
	}
	var nodes []string
	for _, n := range a.Nodes {
		nodes = append(nodes, n.Path)
	}
	if slices.Sort(nodes); !slices.Equal(nodes, []string{"/dev/nvidia-uvm", "/dev/nvidia0", "/dev/nvidiactl"}) {
		t.Errorf("nodes %v", nodes)
	}
	if !slices.Equal(a.Env, []string{"NVIDIA_VISIBLE_DEVICES=void", "LD_LIBRARY_PATH=" + gpu.LibraryDir}) {
		t.Errorf("variables %v", a.Env)
	}
	if len(a.Mounts) != 1 || a.Mounts[0].Target != gpu.LibraryDir || len(a.Hooks) != 0 || !a.Proxy {
		t.Errorf("%+v", a)
	}
	list, err := os.ReadDir(a.Mounts[0].Source)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]string{}
	for _, e := range list {
		names[e.Name()], _ = os.Readlink(filepath.Join(a.Mounts[0].Source, e.Name()))
	}
	if want := map[string]string{"libcuda.so": "libcuda.so.570.0", "libcuda.so.1": "libcuda.so.570.0", "libcuda.so.570.0": ""}; fmt.Sprint(names) != fmt.Sprint(want) {
		t.Errorf("libraries %v, want %v", names, want)
	}
	m.config.Hooks = []string{"/usr/bin/nvidia-cdi-hook update-ldcache"}
	if a, err = attach(t, m, 0); err != nil || len(a.Hooks) != 1 || a.Hooks[0].Args[1] != "update-ldcache" {
		t.Errorf("the hook that the operator named: %+v, %v", a, err)
	}
}

// What is wrong with a machine is said, and what to do; it is never the contestant's.
func TestAttachRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*testing.T, *machine)
		want string
	}{
		"none": {func(t *testing.T, m *machine) { os.Remove(filepath.Join(m.root, "etc/cdi/nvidia.yaml")) }, "nvidia-ctk cdi generate"},
		"stale": {func(t *testing.T, m *machine) {
			m.write(t, "etc/cdi/nvidia.yaml", strings.ReplaceAll(cdiFile, "/dev/nvidia0", "/dev/nvidia1"))
		}, "whose node is /dev/nvidia0"},
		"no node": {func(t *testing.T, m *machine) {
			m.write(t, "etc/cdi/nvidia.yaml", strings.ReplaceAll(cdiFile, "/dev/nvidia0", "/dev/other"))
		}, "names no /dev/nvidia0"},
		"no yaml": {func(t *testing.T, m *machine) { m.write(t, "etc/cdi/nvidia.yaml", "cdiVersion: [") }, "/etc/cdi/nvidia.yaml"},
		"renamed": {func(t *testing.T, m *machine) {
			m.write(t, "etc/cdi/nvidia.yaml", strings.ReplaceAll(cdiFile, "{path: /dev/nvidia0}", "{path: /dev/nvidia0, hostPath: /dev/sda}"))
		}, "hostPath"},
		"no lib":   {func(t *testing.T, m *machine) { os.Remove(filepath.Join(m.root, "usr/lib/libcuda.so.570.0")) }, "libcuda.so.570.0"},
		"bad lib":  {func(t *testing.T, m *machine) { m.write(t, "usr/lib/libcuda.so.570.0", "text") }, "no library"},
		"too long": {func(t *testing.T, m *machine) { m.write(t, "etc/cdi/nvidia.yaml", cdiFile+strings.Repeat("#", 5<<20)) }, "over 4194304 bytes"},
	} {
		m := newMachine(t)
		c.edit(t, m)
		if _, err := attach(t, m, 0); !errors.Is(err, sandbox.ErrHost) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// A FIFO in the directory of CDI files holds nobody up, and a later file wins.
func TestCDIFiles(t *testing.T) {
	m := newMachine(t)
	if err := unix.Mkfifo(filepath.Join(m.root, "etc/cdi/a.yaml"), 0o644); err != nil {
		t.Fatal(err)
	}
	m.write(t, "run/cdi/nvidia.json", `{"cdiVersion":"0.6.0","kind":"nvidia.com/gpu","devices":[{"name":"`+uuid0+`","containerEdits":{"env":["CUDA_X=1"],
		"deviceNodes":[{"path":"/dev/nvidia0"}],"mounts":[{"hostPath":"/usr/lib/libcuda.so.570.0","containerPath":"/x"}]}}]}`)
	a, err := attach(t, m, 0)
	if err != nil || !slices.Contains(a.Env, "CUDA_X=1") {
		t.Errorf("%+v, %v", a, err)
	}
}

func TestDevices(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*machine)
		n    int
		want string
	}{
		"two":       {func(*machine) {}, 2, ""},
		"no driver": {func(m *machine) { os.Remove(filepath.Join(m.root, "proc/driver/nvidia/version")) }, 0, ""},
		"divided":   {func(m *machine) { m.devices = strings.Replace(m.devices, "Disabled", "Enabled", 1) }, 1, ""},
		"no minor":  {func(m *machine) { os.RemoveAll(filepath.Join(m.root, "proc/driver/nvidia/gpus")) }, 0, "does not name GPU 0"},
		"twice":     {func(m *machine) { m.devices += m.devices }, 0, "named twice"},
		"a quote":   {func(m *machine) { m.devices = strings.Replace(m.devices, "NVIDIA A100", "A'100", 1) }, 0, "model"},
		"no memory": {func(m *machine) { m.devices = strings.Replace(m.devices, "81920", "[N/A]", 1) }, 0, "memory.total"},
		"fields":    {func(m *machine) { m.devices = "0, x\n" }, 0, "want 6 fields"},
	} {
		m := newMachine(t)
		c.edit(m)
		list, err := m.driver(t).Devices(t.Context())
		if len(list) != c.n || (err == nil) != (c.want == "") || err != nil && (!errors.Is(err, gpu.ErrDriver) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %d devices, %v; want %d, %q", name, len(list), err, c.n, c.want)
		}
	}
}

func TestUnsteady(t *testing.T) {
	s := func(mhz, mem int64, slowed ...string) gpu.Sample {
		return gpu.Sample{ClockMHz: mhz, MemoryMHz: mem, MaxMHz: 1500, Slowed: slowed}
	}
	for name, c := range map[string]struct {
		list []gpu.Sample
		want string
	}{
		"none":         {nil, ""},
		"steady":       {[]gpu.Sample{s(1400, 1000), s(1390, 1000, "power_cap", "clocks_set"), s(1400, 1000)}, ""},
		"idle before":  {[]gpu.Sample{s(210, 405, "idle"), s(1400, 1000), s(1400, 1000)}, ""},
		"hot and idle": {[]gpu.Sample{s(210, 405, "idle", "hw_thermal")}, "hw_thermal"},
		"hardware":     {[]gpu.Sample{s(1400, 1000, "hw_slowdown")}, "hw_slowdown"},
		"brake":        {[]gpu.Sample{s(1400, 1000, "power_brake")}, "power_brake"},
		"hot":          {[]gpu.Sample{s(1400, 1000, "hw_thermal")}, "hw_thermal"},
		"memory":       {[]gpu.Sample{s(1400, 1000), s(1400, 900)}, "memory moved"},
		"just drift":   {[]gpu.Sample{s(1000, 1000), s(970, 1000)}, ""},
	} {
		if got := gpu.Unsteady(c.list); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// Holders exclude each other, card by card, and somebody who needs several takes none
// until all are free.
func TestLocks(t *testing.T) {
	d := gputest.NewFake(2, "Fake 1000", 1<<30)
	l := gpu.Locks{Dir: t.TempDir(), Again: time.Millisecond}
	one, two := &agon.GPUNeed{Count: 1}, &agon.GPUNeed{Count: 2}
	take := func(n *agon.GPUNeed) *gpu.Hold {
		t.Helper()
		h, err := l.Take(t.Context(), d, n, func() { t.Error("waits") })
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	a, b := take(one), take(one)
	if a.Devices[0].ID == b.Devices[0].ID {
		t.Fatal("two hold one card")
	}
	waits, got := make(chan bool), make(chan *gpu.Hold)
	go func() {
		h, err := l.Take(t.Context(), d, two, func() { close(waits) })
		if err != nil {
			t.Error(err)
		}
		got <- h
	}()
	<-waits
	a.Free()
	take(one).Free() // the waiter for two holds neither
	b.Free()
	both := <-got
	if len(both.Devices) != 2 {
		t.Errorf("%+v", both)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := l.Take(ctx, d, one, cancel); !errors.Is(err, context.Canceled) {
		t.Errorf("given up: %v", err)
	}
	both.Free()
	both.Free()
	take(two).Free()
	if _, err := l.Take(t.Context(), d, &agon.GPUNeed{Count: 3}, nil); !errors.Is(err, gpu.ErrNotHere) {
		t.Errorf("three of two: %v", err)
	}
	if _, err := l.Take(t.Context(), d, &agon.GPUNeed{Count: 1, Models: []string{"H100"}}, nil); !errors.Is(err, gpu.ErrNotHere) {
		t.Errorf("another model: %v", err)
	}
	// A link in the place of a lock is not followed.
	os.Remove(filepath.Join(l.Dir, d.Cards[0].ID))
	if err := os.Symlink("/etc/passwd", filepath.Join(l.Dir, d.Cards[0].ID)); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Take(t.Context(), d, two, nil); !errors.Is(err, sandbox.ErrHost) {
		t.Errorf("a link: %v", err)
	}
}

// Only a library that breaks, and a caller who gives up, end a timer.
func TestTimerFails(t *testing.T) {
	m := newMachine(t)
	m.config.Cuda = "/nonexistent/libcuda.so.1"
	d := m.driver(t)
	list, err := d.Devices(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Timer(t.Context(), list[0]); !errors.Is(err, gpu.ErrDriver) || !strings.Contains(err.Error(), "libcuda") {
		t.Errorf("no library: %v", err)
	}
	m.config.Python = "/nonexistent/python3"
	if _, err := m.driver(t).Timer(t.Context(), list[0]); !errors.Is(err, gpu.ErrDriver) {
		t.Errorf("no program: %v", err)
	}
}
