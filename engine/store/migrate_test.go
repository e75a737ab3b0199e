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

// Servers of the version before go on, and start again, on a schema that only grew.
func TestMigrationsThatTakeAway(t *testing.T) {
	if files, err := fs.Glob(migrations, "migrations/*.sql"); err != nil || worksFrom > len(files) {
		t.Fatalf("programs of schema %d work on this one, which is %d: %v", worksFrom, len(files), err)
	} else {
		for i, f := range files[worksFrom:] {
			b, err := migrations.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range statements(string(b)) {
				grows := strings.HasPrefix(s, "CREATE TABLE ") || strings.HasPrefix(s, "CREATE INDEX ") ||
					strings.HasPrefix(s, "ALTER TABLE ") && strings.Contains(s, " ADD COLUMN ") && strings.Contains(s, " DEFAULT ")
				if !grows {
					t.Errorf("%s: does a program of the version before work after %.60q? Else set worksFrom to %d", f, s, worksFrom+i+1)
				}
			}
		}
	}
}
