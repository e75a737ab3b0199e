package timelock

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A relay is asked by the network's path; those that lie, cut or are gone are
// passed over, and one that is honest is enough.
func TestRelay(t *testing.T) {
	const round = 30668812
	good := fmt.Sprintf(`{"round":%d,"randomness":"00","signature":"%s"}`, round, beacons[round])
	serve := func(status int, body string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != fmt.Sprintf("/%s/public/%d", ChainHash, round) {
				t.Errorf("asked for %s", r.URL.Path)
			}
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body)) // the client may be gone
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	gone := httptest.NewServer(nil)
	gone.Close()
	liars := []string{
		gone.URL, "ftp://relay.example", serve(404, "no such round"), serve(200, ""), serve(200, good[:40]), serve(200, strings.Repeat(" ", maxBeacon)+good),
		serve(200, strings.Replace(good, beacons[round], beacons[round+1], 1)), // another round's
		serve(200, strings.Replace(good, "30668812", "30668813", 1)),
		serve(200, strings.Replace(good, beacons[round], "zz", 1)),
		serve(200, strings.Replace(good, beacons[round], strings.Repeat("00", 48), 1)),
	}
	for _, host := range liars {
		if _, err := (&Relay{Hosts: []string{host}}).Signature(t.Context(), round); !errors.Is(err, ErrNoBeacon) {
			t.Errorf("%s: %v", host, err)
		}
	}
	sig, err := (&Relay{Hosts: append(liars, serve(200, good)+"/")}).Signature(t.Context(), round)
	if err != nil || fmt.Sprintf("%x", sig) != beacons[round] {
		t.Errorf("%x %v", sig, err)
	}
}

func FuzzBeacon(f *testing.F) {
	f.Add([]byte(fmt.Sprintf(`{"round":1000,"signature":"%s"}`, beacons[1000])))
	f.Add([]byte(`{"round":1000,"signature":""}`))
	f.Add([]byte(`{`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if sig, err := parseBeacon(b, 1000); err == nil && fmt.Sprintf("%x", sig) != beacons[1000] {
			t.Errorf("%s: took %x", b, sig)
		}
	})
}
