package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// make setup unpacks nothing that is not the archive whose sum is written in
// the script, whatever the proxy sends.
func TestToolchainSum(t *testing.T) {
	for _, tool := range []string{"bash", "curl", "sha256sum"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip("no " + tool + " here")
		}
	}
	var asked atomic.Int32
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if _, err := w.Write([]byte("PK\x05\x06" + strings.Repeat("\x00", 18))); err != nil { // an empty archive
			t.Error(err)
		}
	}))
	defer proxy.Close()
	for _, x := range []struct {
		version, arch, want string
		asked               int32
	}{
		{"1.26.8", "amd64", "has SHA-256", 1},
		{"1.26.8", "arm64", "has SHA-256", 2},
		{"1.99.0", "amd64", "no check sum", 2},
	} {
		dir := t.TempDir()
		out, err := exec.CommandContext(t.Context(), "bash", "../../scripts/toolchain.sh", proxy.URL, x.version, x.arch, filepath.Join(dir, "go")).CombinedOutput()
		if err == nil || !strings.Contains(string(out), x.want) || asked.Load() != x.asked {
			t.Errorf("%s %s: %v, asked %d times: %s", x.version, x.arch, err, asked.Load(), out)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
			t.Errorf("left behind: %v %v", left, err)
		}
	}
	setup, err := os.ReadFile("../../scripts/setup.sh")
	if err != nil {
		t.Fatal(err)
	}
	for _, fetcher := range []string{"curl -", "wget "} {
		if strings.Contains(string(setup), fetcher) {
			t.Errorf("setup.sh fetches with %q beside toolchain.sh, which checks", fetcher)
		}
	}
}
