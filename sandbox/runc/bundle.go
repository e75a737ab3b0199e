package runc

import (
	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/internal/oci"
	"github.com/agon-arena/agon/sandbox/internal/seccomp"
)

// pause waits for the end of its input. Children that lose their parent come to
// it; ignoring SIGCHLD lets the kernel reap them.
var pause = []string{"/bin/sh", "-c", "trap '' CHLD; exec cat"}

// bundle is the OCI configuration of a box.
func bundle(spec sandbox.Spec, root string, sources []string, group string) *specs.Spec {
	return oci.Bundle(spec, oci.Options{
		Root: root, Sources: sources, Group: group, Seccomp: seccomp.OCI(),
		First: oci.Process(pause, []string{"PATH=/usr/bin:/bin"}, "/", sandbox.PauseUID, sandbox.PauseUID, spec.Limits.DiskBytes),
		Pids:  spec.Limits.Pids + 1, // the first process
	})
}
