//go:build interop

package interop

import (
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// agonBinary is the binary that make built.
func agonBinary(t *testing.T) string {
	t.Helper()
	agon, err := filepath.Abs("../bin/agon")
	if err != nil {
		t.Fatal(err)
	}
	return agon
}

// serve starts a command of agon that serves, on a fresh data directory below
// dir, waits until it is ready and ends it with the test.
func serve(t *testing.T, dir, command string, args ...string) (url string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	ln.Close()
	cmd := exec.Command(agonBinary(t), append([]string{command, "--data", filepath.Join(dir, "data"), "--listen", addr}, args...)...)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait(); close(ended) }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		<-ended
	})
	until(t, 2*time.Minute, "the server is ready", func() bool {
		select {
		case err := <-ended:
			t.Fatalf("agon %s ended: %v", command, err)
		default:
		}
		resp, err := http.Get("http://" + addr + "/readyz")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusNoContent
	})
	return "http://" + addr
}

// until asks ten times a second whether something holds, so long at most.
func until(t *testing.T, long time.Duration, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	end := time.Now().Add(long)
	for !holds() {
		if time.Now().After(end) {
			t.Fatalf("after %v it does not hold that %s", long, what)
		}
		<-tick.C
	}
}
