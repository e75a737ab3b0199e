// Package sandbox is the box: the only place where foreign code runs. Drivers
// (runc, bwrap, …) live below it; sandboxtest is their conformance suite.
//
// Threat model: everything inside a box is hostile and knows this code. A box
// has no network but its doors, no capability, no writable path but those in
// its spec, and nothing of it outlives Close.
package sandbox

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"time"

	"github.com/agon-arena/agon"
)

// Driver makes boxes. Safe for concurrent use.
type Driver interface {
	// Info names driver, version and the limits that it can enforce on this host.
	Info() agon.Driver
	// Start makes a box and returns when it can execute commands. On error
	// nothing is left behind. Errors wrap ErrHost when the host could not
	// carry the box (disk, memory, driver), ErrSpec when the spec is wrong.
	Start(ctx context.Context, spec Spec) (Box, error)
}

var (
	// ErrHost marks failures of this machine: never a contestant's.
	ErrHost = errors.New("host cannot run the box")
	// ErrSpec marks a spec that no driver can carry out.
	ErrSpec = errors.New("bad box spec")
	// ErrNoDriver is returned by Probe when no sandbox works here; its text carries the mend.
	ErrNoDriver = errors.New("no sandbox works on this machine")
	// ErrUnsafe marks a result that may not be read: not a regular file, too large, outside the box.
	ErrUnsafe = errors.New("unsafe result")
	// ErrNotExist marks a result that is absent.
	ErrNotExist = errors.New("no such result")
)

// Spec describes a box.
type Spec struct {
	// Name is for logs and host paths: [a-z0-9-]{1,40}.
	Name string
	// Rootfs is the directory of the root file system, mounted read-only.
	Rootfs string
	// Mounts are laid over the root in order.
	Mounts []Mount
	// Doors are the only way out. Their listeners exist before the box does.
	Doors []Door
	// Env is the whole environment ("K=V"); nothing is inherited. PATH and
	// HOME=/tmp are added where neither Env nor Cmd.Env names them; PWD is Cmd.Dir.
	Env []string
	// Hostnames map names to 127.0.0.1 in /etc/hosts.
	Hostnames []string
	// Limits; a zero takes its value from DefaultLimits (no CPU time limit).
	Limits agon.Limits
	// UID and GID of executed commands inside the box; 0 means 1000.
	UID, GID int
	// Devices are what Limits.GPUs asks for, as package sandbox/gpu describes them; nil:
	// none. The two go together. Not every driver can (ErrHost).
	Devices *Devices
	// Network true gives the box the host's network. Only for fetching
	// published packages in a throw-away box with nothing of ours in it.
	Network bool
	// Root makes the box one that an image is built in: its commands are user 0
	// of the box's own user namespace, with the capabilities that installing
	// packages takes, and may change the root file system; Box.Layer hands "/" on.
	// Nothing of the root file system's host files changes. Not every driver can
	// (ErrHost). Never for contestants' code.
	Root bool
	// Warm is a program that later boxes need not start, where the driver can spare it; nil: none.
	Warm *Warm
	// Apart marks a box that sees nothing of a task, because what it makes serves
	// others, too: the engine adds no data set to it.
	Apart bool
}

// Warm is a program of ours that has work to do before it needs anything of its box,
// such as an interpreter that imports. A driver may have it done once, in a box with
// nothing of anybody's, and make other boxes of an image of that. There, the first
// Exec of the same Args goes on where the program waited: see package warm for what
// the program has to do. To all else such a box is like one that was started.
type Warm struct {
	Args []string
	// Env is what the program is started with. What Exec gives it comes later, and
	// should say the same of what is read at a start.
	Env []string
}

// MountKind says how a mount behaves.
type MountKind string

// Mount kinds.
const (
	// MountReadOnly binds a host path read-only (nosuid, nodev).
	MountReadOnly MountKind = "ro"
	// MountOverlay shows a host directory with a writable layer of the box's
	// own above it (overlayfs; a copy where overlayfs is not allowed). The
	// host directory never changes. The writable layers of a box share DiskBytes and Inodes.
	MountOverlay MountKind = "overlay"
	// MountScratch is an empty writable directory within the same quota.
	MountScratch MountKind = "scratch"
	// MountLayer shows, again writable, what another, ended box left in its
	// mount of the same Target (see Box.Layer).
	MountLayer MountKind = "layer"
	// MountTmp is a tmpfs of SizeBytes (within the memory limit).
	MountTmp MountKind = "tmp"
)

// Mount is one entry of a box's file system.
type Mount struct {
	Kind      MountKind
	Source    string // host path (ro, overlay)
	Target    string // absolute path in the box
	Layer     *Layer // for MountLayer
	SizeBytes int64  // for MountTmp
	Exec      bool   // allow execution from ro/overlay/scratch (default true for overlay and scratch)
	// Shared says that what lies at Source never changes and is for every box that names
	// it: a box that serves others, too, may see it (see Spec.Warm).
	Shared bool
}

// Layer is what an ended box left under one writable mount. It is owned by the
// box that made it until Box.Layer is called, then by the caller: Remove it.
type Layer struct {
	Target string
	Lower  string // host dir below (overlay), may be empty
	Dir    string // host dir of the layer: driver's business
	Remove func() error
}

// Door is a listener inside the box's network. One with a Target relays to a host
// URL. The agent holds no token: the door adds Header on the host side. What is
// relayed is HTTP/1.1; other protocols are refused. Connections, header time and
// header size are bounded.
//
// One with Dial passes bytes of any protocol, both ways, to what Dial connects to;
// connections are bounded.
type Door struct {
	Listen string            // "127.0.0.1:8000" as seen inside
	Target string            // base URL of the gateway on the host, "http://127.0.0.1:8901"
	Header map[string]string // set on every relayed request; the same names from inside are dropped
	TLS    *tls.Config       // of a door with a Target that is called over HTTPS; it speaks HTTP/1.1; may be nil

	// Dial stands in the place of Target, such as for a port of another box. A
	// connection that it fails for is closed. It may be called concurrently; ctx ends
	// with the box.
	Dial func(ctx context.Context) (net.Conn, error)
}

// Box is a running sandbox. Methods may be called concurrently.
type Box interface {
	// Exec runs a command and waits. It returns an error only if the driver
	// could not run it (wrapping ErrHost); how the command ended is in Exit.
	// The command's whole process tree is gone when Exec returns under
	// drivers that isolate executions (Info limits has "exec_pidns"), else when the box closes.
	Exec(ctx context.Context, cmd Cmd) (Exit, error)
	// Dial connects to a port that something inside listens on (127.0.0.1 inside).
	Dial(ctx context.Context, port int) (net.Conn, error)
	// ReadFile reads a regular file of at most limit bytes below a writable
	// mount. Links, FIFOs, devices and larger files give ErrUnsafe, absence
	// gives ErrNotExist. It never blocks and never follows a link out of the mount.
	ReadFile(path string, limit int64) ([]byte, error)
	// Layer ends the box's use of the mount and hands its writable layer on,
	// so that another box may be started over it. Call after the last Exec; the box is closed.
	Layer(ctx context.Context, target string) (*Layer, error)
	// End tells how the box ended, once it has; the zero End while it runs.
	End() End
	// Close kills everything inside and removes every trace. Idempotent.
	Close() error
}

// Cmd is one execution.
type Cmd struct {
	Args  []string
	Env   []string // added to Spec.Env
	Dir   string
	Stdin io.Reader
	// Stdout and Stderr get what the command writes, up to Limits.OutputBytes
	// each; a command that writes more is killed (Exit.Limit = "output").
	Stdout, Stderr io.Writer
	// Wall bounds this execution; 0 means Limits.WallMS.
	Wall time.Duration
	// UID inside the box; 0 means the spec's.
	UID int
	// Untrusted marks the contestant's own code. The engine dates the agent's
	// first instruction by it.
	Untrusted bool
}

// Exit is how a command ended.
type Exit struct {
	Code   int    `json:"code"`             // exit status; 128+n when killed by signal n
	Signal int    `json:"signal,omitempty"` // when the driver knows it
	Limit  string `json:"limit,omitempty"`  // the box's own limit that ended it: wall, cpu, memory, output, disk, pids
	// Lost is set when the command ended because the box or its driver was
	// ended by somebody outside: never the agent's doing.
	Lost   string        `json:"lost,omitempty"`
	Wall   time.Duration `json:"wall"`
	CPU    time.Duration `json:"cpu,omitempty"`
	MaxRSS int64         `json:"max_rss,omitempty"`
}

// End is how a box ended.
type End struct {
	Ended  bool   `json:"ended"`
	Closed bool   `json:"closed"`          // by Close
	Limit  string `json:"limit,omitempty"` // own limit that ended it
	// Killed says that the box was ended from outside: "killed", "driver_died", "host_oom", "host_disk".
	Killed string `json:"killed,omitempty"`
}
