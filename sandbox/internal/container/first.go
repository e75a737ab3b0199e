package container

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/internal/oci"
	"github.com/agon-arena/agon/sandbox/internal/seccomp"
)

// EntryThreads is what the process limit of a box has on top, for the threads of
// the first process. Commands cannot take them: RLIMIT_NPROC counts their user.
const EntryThreads = 24

// EntryMount shows the entry program to the box.
func EntryMount(program string) sandbox.Mount {
	return sandbox.Mount{Kind: sandbox.MountReadOnly, Source: program, Target: EntryPath, Exec: true}
}

// First describes the first process, with what it needs of capabilities in the
// box's user namespace: to change to the command's user, to leave commands none,
// and whatever more names. Commands inherit its limits and its filter, which it
// installs before anything else runs, and nothing else.
func First(spec sandbox.Spec, args []string, more ...string) *specs.Process {
	filter := base64.StdEncoding.EncodeToString(seccomp.Bytes())
	p := oci.Process(append([]string{EntryPath, filter}, args...), []string{"GOMAXPROCS=2", "GOMEMLIMIT=32MiB"}, "/",
		sandbox.PauseUID, sandbox.PauseUID, spec.Limits.DiskBytes)
	caps := append([]string{"CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP"}, more...)
	if spec.Root {
		// Those of rootCaps in the entry program, which commands keep.
		caps = append(caps, "CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID")
		p.Env = append(p.Env, "ROOT=1")
	}
	p.Capabilities = &specs.LinuxCapabilities{Bounding: caps, Effective: caps, Permitted: caps, Inheritable: caps, Ambient: caps}
	// One user's processes are counted together. The first process is another
	// user's, whose threads the limit must not be too small for.
	n := uint64(max(spec.Limits.Pids, EntryThreads))
	p.Rlimits = append(p.Rlimits, specs.POSIXRlimit{Type: "RLIMIT_NPROC", Hard: n, Soft: n})
	return p
}

// ReadPID reads the file that a runtime wrote a process number to.
func ReadPID(file string) (int, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return 0, fmt.Errorf("read pid file: %w", err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil || pid <= 1 {
		return 0, fmt.Errorf("read pid file: %.40q", raw)
	}
	return pid, nil
}

// LastError returns the last message of a runtime's JSON log.
func LastError(path string) string {
	raw, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	lines := bytes.Split(bytes.TrimSpace(raw), []byte("\n"))
	var l struct{ Msg string }
	if json.Unmarshal(lines[len(lines)-1], &l) != nil {
		return ""
	}
	return l.Msg[:min(len(l.Msg), 500)]
}
