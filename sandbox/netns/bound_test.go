package netns

import (
	"net"
	"os"
	"testing"
)

func TestInUse(t *testing.T) {
	for text, want := range map[string]int{
		"": 0, "TCP:": 0, "sockets: used 9\nTCP: inuse 3 orphan 5 tw 6 alloc 7 mem 8\nUDP: inuse 2 mem 0\nRAW: inuse 4\n": 5,
		"TCP6: inuse 1\nUDP6: inuse 1\nFRAG6: inuse 7 memory 0\n": 2, "TCP: inuse many\n": 0,
	} {
		if got := inUse(text); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

// The sockets of a namespace are counted, accepted or not, and no others.
func TestSockets(t *testing.T) {
	n, err := New()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = n.Close() }()
	if err := n.Bound(); err != nil {
		t.Fatalf("sockets are not bounded: %v", err)
	}
	count := func() int {
		t.Helper()
		k, err := n.Sockets()
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	outside, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = outside.Close() }()
	if k := count(); k != 0 {
		t.Fatalf("%d sockets in a new namespace", k)
	}
	l, err := n.Listen("127.0.0.1:80")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	c, err := n.Dial(t.Context(), 80)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if k := count(); k != 3 { // the listener and both ends, one of which waits to be accepted
		t.Errorf("%d sockets, want 3", k)
	}
}

func TestMaxSockets(t *testing.T) {
	for memory, want := range map[int64]int{8 << 20: 512, 64 << 20: 512, 256 << 20: 2048, 1 << 30: 8192} {
		if got := MaxSockets(memory); got != want {
			t.Errorf("%d MB: %d, want %d", memory>>20, got, want)
		}
	}
}

func TestCanBound(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("a container may forbid the settings to others than root")
	}
	if err := CanBound(); err != nil {
		t.Error(err)
	}
}
