package store

import (
	"fmt"
	"io/fs"
	"strings"
	"testing"
)

// Migrations are numbered without gap or repetition: a database counts them.
func TestMigrationNumbers(t *testing.T) {
	files, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for i, f := range files {
		if want := fmt.Sprintf("migrations/%04d_", i+1); !strings.HasPrefix(f, want) {
			t.Errorf("%s stands at place %d", f, i+1)
		}
	}
}
