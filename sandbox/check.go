package sandbox

import (
	"cmp"
	"fmt"
	"math"
	"net"
	"net/url"
	"path"
	"strings"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/internal/lazyregexp"
)

// PauseUID is the user of a box's first process. No command may run as it:
// that is what keeps hostile code from touching the process that is the box.
const PauseUID = 65534

// DefaultUID is the user and group of commands when the spec names none.
const DefaultUID = 1000

// DefaultLimits stand in for limits that a spec leaves at zero.
var DefaultLimits = agon.Limits{
	WallMS: 10 * 60_000, CPUMilli: 1000, MemoryBytes: 512 << 20, Pids: 128,
	DiskBytes: 256 << 20, Inodes: 32768, OutputBytes: 8 << 20,
}

// Bounds of a spec.
const (
	maxMounts = 64
	maxDoors  = 16
	maxEnv    = 512
	maxEnvLen = 128 << 10
)

var (
	nameRE = lazyregexp.New(`^[a-z0-9-]{1,40}$`)
	hostRE = lazyregexp.New(`^[a-z0-9]([a-z0-9.-]{0,62})$`)
)

// BadLimit is a limit that no box takes.
type BadLimit struct {
	Name     string // as in JSON and in arena files
	Value    int64
	Min, Max int64 // what a box takes
}

// String names the limit, what it is and what a box takes.
func (b BadLimit) String() string {
	if b.Value < b.Min {
		return fmt.Sprintf("%s is %d, at least %d", b.Name, b.Value, b.Min)
	}
	return fmt.Sprintf("%s is %d, at most %d", b.Name, b.Value, b.Max)
}

// maxLimit bounds every limit: in nanoseconds or micro-units it is still a number.
const maxLimit = math.MaxInt64 / 1_000_000

// limitRow is one limit: what stands in for zero, and the least that a box takes.
type limitRow struct {
	name          string
	value         *int64
	standard, min int64
	max           int64 // 0: maxLimit
}

// most is the largest value that a box takes.
func (r limitRow) most() int64 { return cmp.Or(r.max, maxLimit) }

func limitRows(l *agon.Limits) []limitRow {
	d := DefaultLimits
	return []limitRow{
		{"wall_ms", &l.WallMS, d.WallMS, 1, 0},
		{"cpu_ms", &l.CPUMS, 0, 1, 0},
		{"cpu_milli", &l.CPUMilli, d.CPUMilli, 1, 0},
		{"memory_bytes", &l.MemoryBytes, d.MemoryBytes, 8 << 20, 0},
		{"pids", &l.Pids, d.Pids, 16, 0},
		{"disk_bytes", &l.DiskBytes, d.DiskBytes, 1, 0},
		{"inodes", &l.Inodes, d.Inodes, 1, 0},
		{"output_bytes", &l.OutputBytes, d.OutputBytes, 1, 0},
		{"gpus", &l.GPUs, 0, 1, agon.MaxTaskGPUs},
		{"gpu_memory_bytes", &l.GPUMemoryBytes, 0, 1, agon.MaxGPUMemory},
	}
}

// CheckLimits lists the limits of l that no box takes, in the order of the type.
// Zero stands for a default and is always taken. Whatever lets an operator choose
// limits asks it, so that no run is planned that cannot be played.
func CheckLimits(l agon.Limits) (wrong []BadLimit) {
	for _, r := range limitRows(&l) {
		if v := *r.value; v != 0 && (v < r.min || v > r.most()) {
			wrong = append(wrong, BadLimit{r.name, v, r.min, r.most()})
		}
	}
	return wrong
}

// Complete fills the defaults and checks the spec. Errors wrap ErrSpec and name
// the field. Drivers call it first; it touches nothing outside the spec.
func (s Spec) Complete() (Spec, error) {
	bad := func(format string, a ...any) (Spec, error) {
		return Spec{}, fmt.Errorf("%w: %s", ErrSpec, fmt.Sprintf(format, a...))
	}
	if !nameRE().MatchString(s.Name) {
		return bad("name %.60q: want %s", s.Name, nameRE())
	}
	if !path.IsAbs(s.Rootfs) {
		return bad("rootfs %.200q is not absolute", s.Rootfs)
	}
	if len(s.Mounts) > maxMounts || len(s.Doors) > maxDoors {
		return bad("%d mounts and %d doors, at most %d and %d", len(s.Mounts), len(s.Doors), maxMounts, maxDoors)
	}
	if s.Root && (s.UID != 0 || s.GID != 0) {
		return bad("a box with a root of its own has no uid or gid")
	}
	if s.UID == 0 && !s.Root {
		s.UID = DefaultUID
	}
	if s.GID == 0 {
		s.GID = s.UID
	}
	for _, id := range []int{s.UID, s.GID} {
		if id < 1 && !s.Root || id >= PauseUID {
			return bad("uid or gid %d: want 1 to %d", id, PauseUID-1)
		}
	}
	if wrong := CheckLimits(s.Limits); len(wrong) > 0 {
		return bad("limit %s", wrong[0])
	}
	for _, r := range limitRows(&s.Limits) {
		if *r.value == 0 {
			*r.value = r.standard
		}
	}
	if err := s.Devices.check(s.Limits); err != nil {
		return Spec{}, err
	}
	var err error
	if s.Env, err = checkEnv(s.Env, true); err != nil {
		return Spec{}, err
	}
	for _, h := range s.Hostnames {
		if !hostRE().MatchString(h) {
			return bad("host name %.80q", h)
		}
	}
	seen := map[string]bool{}
	mounts := append([]Mount(nil), s.Mounts...)
	for i := range mounts {
		m := &mounts[i]
		m.Target = path.Clean(m.Target)
		if !path.IsAbs(m.Target) || m.Target == "/" || strings.ContainsAny(m.Target, "\x00\n") || len(m.Target) > 1024 {
			return bad("mount target %.200q", m.Target)
		}
		for _, p := range []string{"/proc", "/dev", "/sys"} {
			if m.Target == p || strings.HasPrefix(m.Target, p+"/") {
				return bad("mount target %.200q: %s belongs to the driver", m.Target, p)
			}
		}
		if seen[m.Target] {
			return bad("mount target %.200q is there twice", m.Target)
		}
		seen[m.Target] = true
		switch m.Kind {
		case MountReadOnly, MountOverlay:
			if !path.IsAbs(m.Source) {
				return bad("mount source %.200q of %s is not absolute", m.Source, m.Target)
			}
		case MountLayer:
			if m.Layer == nil {
				return bad("mount %s has no layer", m.Target)
			}
		case MountTmp:
			if m.SizeBytes <= 0 {
				return bad("mount %s has no size", m.Target)
			}
		case MountScratch:
		default:
			return bad("mount kind %.40q of %s", string(m.Kind), m.Target)
		}
	}
	s.Mounts = mounts
	if s.Network && len(s.Doors) > 0 {
		return bad("a box with the host's network has no doors")
	}
	for _, d := range s.Doors {
		if h, _, err := net.SplitHostPort(d.Listen); err != nil || net.ParseIP(h) == nil || !net.ParseIP(h).IsLoopback() {
			return bad("door %.80q does not listen on a loopback address", d.Listen)
		}
		if d.Dial != nil {
			if d.Target != "" || len(d.Header) > 0 || d.TLS != nil {
				return bad("door %s has a target or headers beside what it dials", d.Listen)
			}
			continue
		}
		u, err := url.Parse(d.Target)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return bad("door %s has no usable target", d.Listen)
		}
	}
	return s, nil
}

// CommandEnv is the environment of one command, in every driver alike: spec,
// then command, later values first in rank; PATH and HOME are added when neither
// names them, PWD is dir. Errors wrap ErrSpec.
func CommandEnv(spec, cmd []string, dir string) ([]string, error) {
	env := append(append([]string(nil), spec...), cmd...)
	return checkEnv(append(env, "PWD="+dir), false)
}

func checkEnv(env []string, keep bool) ([]string, error) {
	if len(env) > maxEnv {
		return nil, fmt.Errorf("%w: %d environment variables, at most %d", ErrSpec, len(env), maxEnv)
	}
	at := map[string]int{}
	var out []string
	for _, e := range env {
		k, _, ok := strings.Cut(e, "=")
		if !ok || k == "" || strings.ContainsRune(e, 0) || len(e) > maxEnvLen {
			return nil, fmt.Errorf("%w: environment variable %.80q", ErrSpec, e)
		}
		if i, dup := at[k]; dup {
			out[i] = e
			continue
		}
		at[k] = len(out)
		out = append(out, e)
	}
	if keep {
		return out, nil
	}
	for _, e := range []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/tmp"} {
		k, _, _ := strings.Cut(e, "=")
		if _, ok := at[k]; !ok {
			out = append(out, e)
		}
	}
	return out, nil
}
