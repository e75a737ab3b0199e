// Package oci writes the one container configuration that all drivers with an
// OCI runtime share.
package oci

import (
	"fmt"
	"os"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/internal/layers"
)

// Sizes of the memory file systems that every box gets; they count as memory.
const (
	TmpBytes = 64 << 20
	ShmBytes = 16 << 20
	TmpNodes = 8192
	ShmNodes = 1024
)

// Options are what runtimes do differently.
type Options struct {
	// Root is the prepared root file system.
	Root string
	// Sources are the host paths of spec.Mounts, as layers.Space.Add returned
	// them: an empty one comes with the mount around it.
	Sources []string
	// Group is the cgroup path.
	Group string
	// First is the box's first process.
	First *specs.Process
	// Pids bounds the processes of the box's cgroup.
	Pids int64
	// HostTmp says that memory file systems are mounted on the host: Tmp is
	// shown at /tmp (unless the spec mounts there), Shm at /dev/shm, and mounts
	// of the kind have sources. Else the runtime mounts them.
	HostTmp  bool
	Tmp, Shm string
}

// Bundle is the OCI configuration of a box.
func Bundle(spec sandbox.Spec, o Options) *specs.Spec {
	l := spec.Limits
	period := uint64(100_000)
	quota := max(l.CPUMilli*int64(period)/1000, 1000)
	memory := l.MemoryBytes
	c := &specs.Spec{
		Version: "1.0.2",
		Root:    &specs.Root{Path: o.Root, Readonly: !spec.Root},
		Process: o.First,
		// What is not asked for is absent: no /sys, no host devices.
		Hostname: "box",
		Mounts: []specs.Mount{
			{Destination: "/proc", Type: "proc", Source: "proc", Options: []string{"nosuid", "noexec", "nodev"}},
			{Destination: "/dev", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "noexec", "strictatime", "mode=755", "size=64k", "nr_inodes=64"}},
			{Destination: "/dev/pts", Type: "devpts", Source: "devpts", Options: []string{"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"}},
			memoryFS("/dev/shm", o.Shm, ShmBytes, ShmNodes),
		},
		Linux: &specs.Linux{
			UIDMappings: []specs.LinuxIDMapping{{ContainerID: 0, HostID: layers.HostBase, Size: layers.Span}},
			GIDMappings: []specs.LinuxIDMapping{{ContainerID: 0, HostID: layers.HostBase, Size: layers.Span}},
			CgroupsPath: o.Group,
			Namespaces: []specs.LinuxNamespace{
				{Type: specs.PIDNamespace},
				{Type: specs.IPCNamespace},
				{Type: specs.UTSNamespace},
				{Type: specs.MountNamespace},
				{Type: specs.UserNamespace},
				{Type: specs.CgroupNamespace},
			},
			Resources: &specs.LinuxResources{
				Devices: []specs.LinuxDeviceCgroup{{Allow: false, Access: "rwm"}},
				Memory:  &specs.LinuxMemory{Limit: &memory, Swap: &memory}, // the sum of both: no swap
				CPU:     &specs.LinuxCPU{Quota: &quota, Period: &period},
				Pids:    &specs.LinuxPids{Limit: &o.Pids},
			},
			MaskedPaths: []string{
				// Whose machine it is, and who built its kernel. uname(2) tells the rest.
				"/proc/sys/kernel/random/boot_id", "/proc/version",
				"/proc/acpi", "/proc/asound", "/proc/cmdline", "/proc/config.gz", "/proc/interrupts", "/proc/kallsyms",
				"/proc/kcore", "/proc/keys", "/proc/kpagecount", "/proc/kpageflags", "/proc/latency_stats",
				"/proc/modules", "/proc/sched_debug", "/proc/scsi", "/proc/slabinfo", "/proc/timer_list",
				"/proc/timer_stats", "/proc/vmallocinfo",
			},
			ReadonlyPaths: []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"},
		},
	}
	if d := spec.Devices; d != nil {
		addDevices(c, d)
	}
	if !spec.Network {
		c.Linux.Namespaces = append(c.Linux.Namespaces, specs.LinuxNamespace{Type: specs.NetworkNamespace})
	}
	hasTmp := false
	for i, m := range spec.Mounts {
		hasTmp = hasTmp || m.Target == "/tmp"
		if m.Kind == sandbox.MountTmp && !o.HostTmp {
			c.Mounts = append(c.Mounts, memoryFS(m.Target, "", m.SizeBytes, max(l.Inodes, 64)))
			continue
		}
		if o.Sources[i] == "" {
			continue // it comes with the mount around it
		}
		opt := []string{"rbind", "nosuid", "nodev"}
		if m.Kind == sandbox.MountReadOnly {
			opt = append(opt, "ro")
			if !m.Exec {
				opt = append(opt, "noexec")
			}
		}
		c.Mounts = append(c.Mounts, specs.Mount{Destination: m.Target, Type: "bind", Source: o.Sources[i], Options: opt})
	}
	if !hasTmp {
		// Before the caller's mounts, one of which may lie in it.
		at := 4
		c.Mounts = append(c.Mounts[:at:at], append([]specs.Mount{memoryFS("/tmp", o.Tmp, TmpBytes, TmpNodes)}, c.Mounts[at:]...)...)
	}
	return c
}

// addDevices gives a box devices of the host: their nodes, the right to open them, and
// the hooks that the operator named. All else of them are mounts and variables.
func addDevices(c *specs.Spec, d *sandbox.Devices) {
	for _, n := range d.Nodes {
		mode := os.FileMode(0o666)
		c.Linux.Devices = append(c.Linux.Devices, specs.LinuxDevice{Path: n.Path, Type: "c", Major: n.Major, Minor: n.Minor, FileMode: &mode})
		c.Linux.Resources.Devices = append(c.Linux.Resources.Devices, specs.LinuxDeviceCgroup{Allow: true, Type: "c", Major: &n.Major, Minor: &n.Minor, Access: "rw"})
	}
	for _, h := range d.Hooks {
		if c.Hooks == nil {
			c.Hooks = &specs.Hooks{}
		}
		c.Hooks.CreateContainer = append(c.Hooks.CreateContainer, specs.Hook{Path: h.Path, Args: h.Args, Env: h.Env})
	}
}

// memoryFS without nr_inodes would let 300000 empty files eat kernel memory.
func memoryFS(at, host string, bytes, nodes int64) specs.Mount {
	if host != "" {
		return specs.Mount{Destination: at, Type: "bind", Source: host, Options: []string{"rbind", "nosuid", "nodev"}}
	}
	return specs.Mount{Destination: at, Type: "tmpfs", Source: "tmpfs", Options: []string{
		"nosuid", "nodev", "mode=1777", fmt.Sprintf("size=%d", bytes), fmt.Sprintf("nr_inodes=%d", nodes),
	}}
}

// Process describes one process of a box: no capability in any set, no way to gain one.
func Process(args, env []string, dir string, uid, gid int, fileBytes int64) *specs.Process {
	return &specs.Process{
		Args: args, Env: env, Cwd: dir,
		User:            specs.User{UID: uint32(uid), GID: uint32(gid)},
		Capabilities:    &specs.LinuxCapabilities{},
		NoNewPrivileges: true,
		Rlimits: []specs.POSIXRlimit{
			limit("RLIMIT_NOFILE", unix.RLIMIT_NOFILE, 1024),
			// 1 and not 0: a core helper of the host runs even at 0.
			limit("RLIMIT_CORE", unix.RLIMIT_CORE, 1),
			limit("RLIMIT_FSIZE", unix.RLIMIT_FSIZE, uint64(fileBytes)),
			limit("RLIMIT_MEMLOCK", unix.RLIMIT_MEMLOCK, 64<<10),
		},
	}
}

// limit lowers v to the host's hard limit, which we may not raise.
func limit(kind string, resource int, v uint64) specs.POSIXRlimit {
	var host unix.Rlimit
	if unix.Getrlimit(resource, &host) == nil && v > host.Max {
		v = host.Max
	}
	return specs.POSIXRlimit{Type: kind, Hard: v, Soft: v}
}
