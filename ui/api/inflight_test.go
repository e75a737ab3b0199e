package api

import (
	"bytes"
	"errors"
	"io"
	"net/http/httptest"
	"testing"
)

func TestBytesInFlight(t *testing.T) {
	var f inflight
	send := func(address, key string, n int64, known bool) (func(), error) {
		r := httptest.NewRequest("PUT", "/v1/blobs/x", io.LimitReader(zeros{}, n))
		r.RemoteAddr, r.ContentLength = address+":1", -1
		if known {
			r.ContentLength = n
		}
		body, done, err := f.read(r, key, n)
		if err == nil && int64(len(body)) != n {
			t.Fatalf("%d bytes of %d", len(body), n)
		}
		if err != nil {
			done()
		}
		return done, err
	}
	first, err := send("192.0.2.1", "a", 64<<20, true)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := send("192.0.2.1", "a", 40<<20, true); !errors.Is(err, errInflight) {
		t.Errorf("over the cap of a key: %v", err)
	}
	if done, err := send("192.0.2.2", "a", 40<<20, true); err != nil {
		t.Errorf("a claim of the same key from elsewhere took its room: %v", err)
	} else {
		done()
	}
	second, err := send("192.0.2.1", "b", 60<<20, true)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := send("192.0.2.1", "c", 8<<20, true); !errors.Is(err, errInflight) {
		t.Errorf("over the cap of an address: %v", err)
	}
	third, err := send("192.0.2.2", "d", 60<<20, true)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := send("192.0.2.3", "e", 20<<20, true); !errors.Is(err, errInflight) {
		t.Errorf("over the whole budget: %v", err)
	}
	if done, err := send("192.0.2.3", "e", 8<<10, false); err != nil {
		t.Errorf("a small request in a full house: %v", err)
	} else {
		done()
	}
	first()
	second()
	third()
	done, err := send("192.0.2.3", "e", 3<<20, false) // its length is not told
	if err != nil {
		t.Fatal(err)
	}
	done()
	if f.total != 0 || len(f.by) != 0 {
		t.Errorf("%d bytes and %d entries are left", f.total, len(f.by))
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func FuzzBodyIsWhole(f *testing.F) {
	f.Add([]byte("x"), true)
	f.Add(bytes.Repeat([]byte("ab"), 9000), false)
	f.Fuzz(func(t *testing.T, b []byte, known bool) {
		var fl inflight
		r := httptest.NewRequest("POST", "/v1/x", bytes.NewReader(b))
		if !known {
			r.ContentLength = -1
		}
		got, done, err := fl.read(r, "k", int64(len(b)))
		if err != nil || !bytes.Equal(got, b) {
			t.Fatal(err, len(got), len(b))
		}
		done()
		if fl.total != 0 {
			t.Fatal(fl.total)
		}
	})
}
