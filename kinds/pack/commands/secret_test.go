package commands

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agon-arena/agon"
)

// A secret that can be guessed, or that others may read, makes no tasks.
func TestReadSecret(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	for name, c := range map[string]struct {
		bytes int
		mode  os.FileMode
		code  string
	}{
		"sound": {32, 0o600, ""}, "short": {31, 0o600, "bad_secret"}, "empty": {0, 0o600, "bad_secret"}, "open": {32, 0o640, "open_secret"}, "large": {mostSecret + 1, 0o600, "too_large"},
	} {
		if err := errors.Join(os.WriteFile(path, []byte(strings.Repeat("s", c.bytes)), 0o600), os.Chmod(path, c.mode)); err != nil {
			t.Fatal(err)
		}
		b, err := readSecret(path)
		code := ""
		var e *agon.Error
		if errors.As(err, &e) {
			code = e.Code
		}
		if code != c.code || err == nil && len(b) != c.bytes {
			t.Errorf("%s: %d bytes, %v", name, len(b), err)
		}
	}
	if b, err := readSecret(""); b != nil || err != nil {
		t.Errorf("none: %v", err)
	}
}
