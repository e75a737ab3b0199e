package entry

import (
	"encoding/base64"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// A first process without a filter that it can install is not a first process: it
// ends before it says that the box is ready or takes a request.
func TestNoFilter(t *testing.T) {
	bin, err := Ensure(t.Context(), "")
	if errors.Is(err, ErrNoGo) {
		t.Skipf("LOUD: %v; this test did not run", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	encode := func(n int) string { return base64.StdEncoding.EncodeToString(make([]byte, n)) }
	for name, args := range map[string][]string{
		"none": nil, "empty": {""}, "not base64": {"{}"}, "half an instruction": {encode(12)},
		"too long": {encode(8 * 4097)}, "not a program": {encode(16)},
	} {
		var out strings.Builder
		cmd := exec.CommandContext(t.Context(), bin, args...)
		cmd.Env = []string{}
		in, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		cmd.Stdin, cmd.Stdout, cmd.Stderr = in, &out, &out
		var exit *exec.ExitError
		if err := cmd.Run(); !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(out.String(), "filter") {
			t.Errorf("%s: %v, %q", name, err, out.String())
		}
		_ = in.Close()
	}
}

func TestLock(t *testing.T) {
	path := t.TempDir() + "/lock"
	unlock, err := Lock(t.Context(), path, "it")
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan error, 1)
	go func() {
		second, err := Lock(t.Context(), path, "it")
		if err == nil {
			second()
		}
		got <- err
	}()
	select {
	case err := <-got:
		t.Fatalf("locked twice, %v", err)
	default:
	}
	unlock()
	if err := <-got; err != nil {
		t.Error(err)
	}
}
