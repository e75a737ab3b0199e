package toolchain

import (
	"os"
	"path/filepath"
	"testing"
)

// What is fetched is what is pinned, and is there the second time.
func TestEnsure(t *testing.T) {
	if os.Getenv("AGON_SLOW_TESTS") == "" && !(Have("go", "") && Have("node", "")) {
		t.Skip("the toolchains are not here: run make runners")
	}
	for name, program := range map[string]string{"go": "go", "node": "node"} {
		dir, err := Ensure(t.Context(), name, "", func(s string) { t.Log(s) })
		if err != nil {
			t.Fatal(err)
		}
		if st, err := os.Stat(filepath.Join(dir, "tree", "bin", program)); err != nil || st.Mode().Perm()&0o111 == 0 {
			t.Errorf("%s: %v", name, err)
		}
		again, err := Ensure(t.Context(), name, "", func(s string) { t.Errorf("the second time: %s", s) })
		if err != nil || again != dir {
			t.Errorf("%s: %s, then %s: %v", name, dir, again, err)
		}
	}
	if _, err := Ensure(t.Context(), "cobol", t.TempDir(), nil); err == nil {
		t.Error("a toolchain that nobody knows")
	}
}
