package client

import (
	"errors"
	"testing"

	"github.com/agon-arena/agon"
)

// An address that lacks only its scheme is given back with it.
func TestSchemed(t *testing.T) {
	for raw, want := range map[string]string{
		"127.0.0.1:8900": "write it as http://127.0.0.1:8900", "localhost:8900": "write it as http://localhost:8900",
		"ftp://x": "write it as http://host:port", "": "write it as http://host:port", "u:p@host": "write it as http://host:port",
	} {
		_, err := New(raw, nil)
		var e *agon.Error
		if !errors.As(err, &e) || e.Mend != want {
			t.Errorf("%q: %v, mend %q, want %q", raw, err, e.Mend, want)
		}
	}
}
