package disk

import (
	"path/filepath"
	"testing"
)

func TestRoom(t *testing.T) {
	free, total, err := Room(t.TempDir())
	if err != nil || free <= 0 || total < free {
		t.Errorf("%d of %d, %v", free, total, err)
	}
	if _, _, err := Room(filepath.Join(t.TempDir(), "absent")); err == nil {
		t.Error("a directory that is not there has room")
	}
}
