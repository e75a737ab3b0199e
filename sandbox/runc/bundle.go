package runc

import (
	"fmt"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/internal/layers"
	"github.com/agon-arena/agon/sandbox/internal/seccomp"
)

// Sizes of the memory file systems that every box gets; they count as memory.
const (
	tmpBytes = 64 << 20
	shmBytes = 16 << 20
	tmpNodes = 8192
)

// pause waits for the end of its input. Children that lose their parent come to
// it; ignoring SIGCHLD lets the kernel reap them.
var pause = []string{"/bin/sh", "-c", "trap '' CHLD; exec cat"}

// bundle is the OCI configuration of a box. sources are the host paths of
// spec.Mounts, empty for those that need none.
func bundle(spec sandbox.Spec, root string, sources []string, group string) *specs.Spec {
	l := spec.Limits
	period := uint64(100_000)
	quota := max(l.CPUMilli*int64(period)/1000, 1000)
	pids := l.Pids + 1 // the first process
	memory := l.MemoryBytes
	c := &specs.Spec{
		Version: "1.0.2",
		Root:    &specs.Root{Path: root, Readonly: true},
		Process: process(pause, []string{"PATH=/usr/bin:/bin"}, "/", sandbox.PauseUID, sandbox.PauseUID, l.DiskBytes),
		// What is not asked for is absent: no /sys, no host devices.
		Hostname: "box",
		Mounts: []specs.Mount{
			{Destination: "/proc", Type: "proc", Source: "proc", Options: []string{"nosuid", "noexec", "nodev"}},
			{Destination: "/dev", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "noexec", "strictatime", "mode=755", "size=64k", "nr_inodes=64"}},
			{Destination: "/dev/pts", Type: "devpts", Source: "devpts", Options: []string{"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"}},
			tmpfs("/dev/shm", shmBytes, 1024),
		},
		Linux: &specs.Linux{
			UIDMappings: []specs.LinuxIDMapping{{ContainerID: 0, HostID: layers.HostBase, Size: layers.Span}},
			GIDMappings: []specs.LinuxIDMapping{{ContainerID: 0, HostID: layers.HostBase, Size: layers.Span}},
			CgroupsPath: group,
			Namespaces: []specs.LinuxNamespace{
				{Type: specs.PIDNamespace}, {Type: specs.IPCNamespace}, {Type: specs.UTSNamespace},
				{Type: specs.MountNamespace}, {Type: specs.UserNamespace}, {Type: specs.CgroupNamespace},
			},
			Resources: &specs.LinuxResources{
				Devices: []specs.LinuxDeviceCgroup{{Allow: false, Access: "rwm"}},
				Memory:  &specs.LinuxMemory{Limit: &memory, Swap: &memory}, // the sum of both: no swap
				CPU:     &specs.LinuxCPU{Quota: &quota, Period: &period},
				Pids:    &specs.LinuxPids{Limit: &pids},
			},
			Seccomp: seccomp.OCI(),
			MaskedPaths: []string{
				"/proc/acpi", "/proc/asound", "/proc/cmdline", "/proc/config.gz", "/proc/interrupts", "/proc/kallsyms",
				"/proc/kcore", "/proc/keys", "/proc/kpagecount", "/proc/kpageflags", "/proc/latency_stats",
				"/proc/modules", "/proc/sched_debug", "/proc/scsi", "/proc/slabinfo", "/proc/timer_list",
				"/proc/timer_stats", "/proc/vmallocinfo",
			},
			ReadonlyPaths: []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"},
		},
	}
	if !spec.Network {
		c.Linux.Namespaces = append(c.Linux.Namespaces, specs.LinuxNamespace{Type: specs.NetworkNamespace})
	}
	hasTmp := false
	for i, m := range spec.Mounts {
		hasTmp = hasTmp || m.Target == "/tmp"
		switch m.Kind {
		case sandbox.MountTmp:
			c.Mounts = append(c.Mounts, tmpfs(m.Target, m.SizeBytes, max(spec.Limits.Inodes, 64)))
		default:
			if sources[i] == "" {
				continue // it comes with the mount around it
			}
			opt := []string{"rbind", "nosuid", "nodev"}
			if m.Kind == sandbox.MountReadOnly {
				opt = append(opt, "ro")
				if !m.Exec {
					opt = append(opt, "noexec")
				}
			}
			c.Mounts = append(c.Mounts, specs.Mount{Destination: m.Target, Type: "bind", Source: sources[i], Options: opt})
		}
	}
	if !hasTmp {
		// Before the caller's mounts, one of which may lie in it.
		at := 4
		c.Mounts = append(c.Mounts[:at:at], append([]specs.Mount{tmpfs("/tmp", tmpBytes, tmpNodes)}, c.Mounts[at:]...)...)
	}
	return c
}

// tmpfs without nr_inodes would let 300000 empty files eat kernel memory.
func tmpfs(at string, bytes, nodes int64) specs.Mount {
	return specs.Mount{Destination: at, Type: "tmpfs", Source: "tmpfs", Options: []string{
		"nosuid", "nodev", "mode=1777", fmt.Sprintf("size=%d", bytes), fmt.Sprintf("nr_inodes=%d", nodes),
	}}
}

// process describes one process of a box: no capability in any set, no way to gain one.
func process(args, env []string, dir string, uid, gid int, fileBytes int64) *specs.Process {
	limit := func(kind string, resource int, v uint64) specs.POSIXRlimit {
		var host unix.Rlimit
		// We may lower hard limits but not raise them.
		if unix.Getrlimit(resource, &host) == nil && v > host.Max {
			v = host.Max
		}
		return specs.POSIXRlimit{Type: kind, Hard: v, Soft: v}
	}
	return &specs.Process{
		Args: args, Env: env, Cwd: dir,
		User:            specs.User{UID: uint32(uid), GID: uint32(gid)},
		Capabilities:    &specs.LinuxCapabilities{},
		NoNewPrivileges: true,
		Rlimits: []specs.POSIXRlimit{
			limit("RLIMIT_NOFILE", unix.RLIMIT_NOFILE, 1024),
			limit("RLIMIT_CORE", unix.RLIMIT_CORE, 0),
			limit("RLIMIT_FSIZE", unix.RLIMIT_FSIZE, uint64(fileBytes)),
			limit("RLIMIT_MEMLOCK", unix.RLIMIT_MEMLOCK, 64<<10),
		},
	}
}
