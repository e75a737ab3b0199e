package gpu

import (
	"testing"

	"github.com/agon-arena/agon"
)

func FuzzCDI(f *testing.F) {
	f.Add([]byte("cdiVersion: 0.5.0\nkind: a/b\ndevices: [{name: x, containerEdits: {env: [A=b]}}]\n"))
	f.Add([]byte(`{"cdiVersion":"1.0.0","kind":"a/b","devices":[{"name":"x"}]}`))
	f.Add([]byte("a: &a [x,x]\nb: &b [*a,*a]\nc: [*b,*b]\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := parseCDI(b)
		if err != nil {
			return
		}
		for _, d := range s.Devices {
			e, ok := s.device(d.Name)
			if !ok {
				t.Fatalf("device %q is lost", d.Name)
			}
			for _, n := range e.Nodes {
				if !below("/dev", n.Path) {
					t.Fatalf("node %q", n.Path)
				}
			}
			for _, m := range e.Mounts {
				if !below("/", m.HostPath) {
					t.Fatalf("mount of %q", m.HostPath)
				}
			}
		}
	})
}

func FuzzSMI(f *testing.F) {
	f.Add([]byte("0, GPU-11111111-2222, NVIDIA A100, 81920, 570.86.15, Disabled\n"))
	f.Add([]byte("1410, 1593, 1410, 44, 71.21, 4, 0x0000000000000004\n"))
	f.Add([]byte("GPU UUID: \t GPU-11111111-2222\nDevice Minor: 3\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if rows, err := parseDevices(b); err == nil {
			var list []agon.GPU
			for _, r := range rows {
				list = append(list, r.GPU)
			}
			if err := agon.CheckGPUs(list); err != nil {
				t.Fatal(err)
			}
		}
		if s, err := parseSample(b); err == nil && (s.ClockMHz < 0 || s.MemoryBytes < 0 || s.MilliWatts < 0) {
			t.Fatalf("%+v", s)
		}
		if uuid, minor, ok := parseInformation(b); ok && (!uuidText().MatchString(uuid) || minor < 0) {
			t.Fatalf("%q %d", uuid, minor)
		}
	})
}
