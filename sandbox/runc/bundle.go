package runc

import (
	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/internal/container"
	"github.com/agon-arena/agon/sandbox/internal/layers"
	"github.com/agon-arena/agon/sandbox/internal/oci"
)

// Bundle implements container.Runtime.
func (m *machine) Bundle(b *container.Box) (*specs.Spec, error) {
	spec := b.Spec
	spec.Mounts = append([]sandbox.Mount{container.EntryMount(m.d.entry)}, spec.Mounts...)
	o := oci.Options{Group: b.Group.Path(), Pids: spec.Limits.Pids + container.EntryThreads}
	for _, m := range spec.Mounts {
		src := ""
		var err error
		if m.Kind != sandbox.MountTmp { // the runtime mounts those
			if src, err = b.Space.Add(m); err != nil {
				return nil, err
			}
		}
		o.Sources = append(o.Sources, src)
	}
	var err error
	if o.Root, err = b.Space.RootFS(spec.Rootfs, layers.NetFiles(spec), spec.Mounts, spec.Root); err != nil {
		return nil, err
	}
	o.First = container.First(spec, nil)
	return oci.Bundle(spec, o), nil
}
