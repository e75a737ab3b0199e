package gpu

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/agon-arena/agon/sandbox"
)

// Finding is one thing that Inspect looked at.
type Finding struct {
	Name   string // "cards", "driver", "card 0", …
	State  string // one of the states below
	Detail string
	Mend   string // what to do, unless State is FindingOK
}

// States of findings.
const (
	FindingOK   = "ok"
	FindingWarn = "warn" // boxes do without
	FindingFail = "fail" // boxes cannot be given GPUs
)

// Machine is what Inspect looks at besides the devices.
type Machine struct {
	Boxes sandbox.Driver // that plays runs here; nil: none works
	// Supported says whether the box driver knows a version of the devices' driver; nil: any.
	Supported func(ctx context.Context, version string) (bool, error)
	Locks     Locks
}

// makers are those that /sys names, of display and accelerator classes.
var makers = map[string]string{"0x10de": "NVIDIA", "0x1002": "AMD", "0x8086": "Intel"}

// Inspect says what GPUs a machine has, what of them boxes can be given, and what is
// missing, from the cards on the bus to a time measured by an event.
func (n *Nvidia) Inspect(ctx context.Context, m Machine) []Finding {
	cards := n.cards()
	out := []Finding{{"cards", FindingOK, cardText(cards), ""}}
	if cards["NVIDIA"] == 0 {
		if _, err := n.root.Stat("proc/driver/nvidia/version"); err != nil {
			out[0].State, out[0].Mend = FindingWarn, "tasks that ask for GPUs are for other validators; agon gives boxes NVIDIA's only"
			return out
		}
	}
	if _, err := n.root.Stat("proc/driver/nvidia/version"); err != nil {
		return append(out, Finding{"driver", FindingFail, errNoDriver.Error(), "install NVIDIA's driver for this kernel and load it: modprobe nvidia nvidia-uvm"})
	}
	list, err := n.Devices(ctx)
	if err != nil {
		return append(out, Finding{"driver", FindingFail, err.Error(), "see that `nvidia-smi` works for this user"})
	}
	if len(list) == 0 {
		return append(out, Finding{"driver", FindingFail, "no card that boxes can be given", "cards that are divided (MIG) are left out: nvidia-smi -mig 0"})
	}
	out = append(out, Finding{"driver", FindingOK, fmt.Sprintf("%d card(s) under NVIDIA's driver %s", len(list), list[0].Driver), ""})
	for _, d := range list {
		out = append(out, n.inspectCard(ctx, d, m.Locks))
	}
	out = append(out, n.inspectCDI(), inspectBoxes(ctx, m, list[0].Driver))
	return append(out, n.inspectAttach(ctx, list), n.inspectTimer(ctx, list[0]))
}

// cards counts the cards on the bus, by maker.
func (n *Nvidia) cards() map[string]int {
	out := map[string]int{}
	list, err := fs.ReadDir(n.root.FS(), "sys/bus/pci/devices")
	if err != nil {
		return out
	}
	read := func(dir, file string) string {
		// An entry is a link that leads elsewhere below /sys.
		b, err := readSmall(n.root, path.Join("sys/bus/pci/devices", dir, file), maxProc)
		if err != nil {
			return ""
		}
		return strings.TrimSpace(string(b))
	}
	for _, e := range list[:min(len(list), 4096)] {
		class := read(e.Name(), "class")
		if maker := makers[read(e.Name(), "vendor")]; maker != "" && (strings.HasPrefix(class, "0x03") || strings.HasPrefix(class, "0x12")) {
			out[maker]++
		}
	}
	return out
}

func cardText(cards map[string]int) string {
	var parts []string
	for maker, k := range cards {
		parts = append(parts, fmt.Sprintf("%d of %s", k, maker))
	}
	if len(parts) == 0 {
		return "no GPU on this machine's bus"
	}
	slices.Sort(parts)
	return "on this machine's bus: " + strings.Join(parts, ", ")
}

func (n *Nvidia) inspectCard(ctx context.Context, d Device, l Locks) Finding {
	name := fmt.Sprintf("card %d", d.Index)
	s, err := n.Sample(ctx, d)
	if err != nil {
		return Finding{name, FindingFail, err.Error(), "see that `nvidia-smi -q` works for this user"}
	}
	f := Finding{name, FindingOK, fmt.Sprintf("%s, %.1f GiB, /dev/nvidia%d, %d of %d MHz, %d °C", d.Model, float64(d.MemoryBytes)/(1<<30), d.Minor, s.ClockMHz, s.MaxMHz, s.Celsius), ""}
	if l.Held(d) {
		f.Detail += ", held by a run"
	}
	switch {
	case !slices.Contains(s.Slowed, "clocks_set"):
		f.State, f.Mend = FindingWarn, fmt.Sprintf("its clocks are not set, so that pairs are more often void: nvidia-smi -i %d --lock-gpu-clocks=MHZ", d.Index)
	case s.MemoryBytes > d.MemoryBytes/20 && !l.Held(d):
		f.State, f.Mend = FindingWarn, fmt.Sprintf("%d MiB of its memory are in use by others than agon's boxes: stop what uses it (nvidia-smi)", s.MemoryBytes>>20)
	}
	return f
}

func (n *Nvidia) inspectCDI() Finding {
	good := []string{}
	for _, f := range readCDI(n.root) {
		switch {
		case f.Err != nil:
			return Finding{"cdi", FindingFail, fmt.Sprintf("%s: %v", f.Path, f.Err), "mend or remove the file; nvidia-ctk cdi generate writes one"}
		case f.Spec.Kind == cdiKind:
			good = append(good, fmt.Sprintf("%s (%d devices)", f.Path, len(f.Spec.Devices)))
		}
	}
	if len(good) == 0 {
		return Finding{"cdi", FindingFail, "no file in /etc/cdi or /run/cdi is of " + cdiKind, "install nvidia-container-toolkit and run: nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml"}
	}
	return Finding{"cdi", FindingOK, strings.Join(good, ", "), ""}
}

func inspectBoxes(ctx context.Context, m Machine, version string) Finding {
	if m.Boxes == nil {
		return Finding{"boxes", FindingFail, "no box driver works here", "see the other checks of agon doctor"}
	}
	name := m.Boxes.Info().Name
	if !sandbox.GivesDevices(m.Boxes) {
		return Finding{"boxes", FindingFail, name + " gives no box a GPU", "run as root, with runsc (agon setup) or runc"}
	}
	if m.Supported != nil {
		switch ok, err := m.Supported(ctx, version); {
		case err != nil:
			return Finding{"boxes", FindingFail, name + ": " + err.Error(), "run: agon setup"}
		case !ok:
			return Finding{"boxes", FindingFail, fmt.Sprintf("%s does not know driver %s", name, version), "install a version that `runsc nvproxy list-supported-drivers` names, or set AGON_DRIVER=runc"}
		}
	}
	return Finding{"boxes", FindingOK, name + " gives boxes GPUs", ""}
}

// inspectAttach asks for each card alone: what is wrong with one is said of that one.
func (n *Nvidia) inspectAttach(ctx context.Context, list []Device) Finding {
	var wrong error
	nodes := 0
	for _, d := range list {
		a, err := n.Attach(ctx, []Device{d})
		if err != nil {
			wrong = errors.Join(wrong, err)
			continue
		}
		nodes += len(a.Nodes)
	}
	if wrong != nil {
		return Finding{"devices", FindingFail, wrong.Error(), "run: nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml"}
	}
	return Finding{"devices", FindingOK, fmt.Sprintf("%d nodes, and the driver's libraries for boxes in %s", nodes, n.c.Libraries), ""}
}

// inspectTimer measures one span with nothing in it.
func (n *Nvidia) inspectTimer(ctx context.Context, d Device) Finding {
	t, err := n.Timer(ctx, d)
	if err == nil {
		defer t.Close()
		if err = t.Start(ctx); err == nil {
			took, serr := t.Stop(ctx)
			if err = serr; err == nil {
				return Finding{"timer", FindingOK, fmt.Sprintf("an empty span takes %v by the card's clock", took), ""}
			}
		}
	}
	return Finding{"timer", FindingWarn, err.Error(), "times are of the host's clock; install python3 and libcuda1 of the driver's version on the host"}
}
