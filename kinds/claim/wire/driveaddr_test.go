package wire

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
)

// A validator registers the address that batches are pushed to: one of this network is
// not asked, by name, number or redirect, unless the operator allows it.
func TestDriverAsksNoPrivateAddress(t *testing.T) {
	var asked atomic.Int32
	inside := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer inside.Close()
	for _, address := range []string{inside.URL, "http://localhost" + inside.URL[len("http://127.0.0.1"):], "http://169.254.169.254/latest", "http://[::1]:1/", "http://[::ffff:127.0.0.1]" + inside.URL[len("http://127.0.0.1"):]} {
		if resp, err := (Driver{}).client().Get(address); err == nil {
			resp.Body.Close()
			t.Errorf("%s was asked", address)
		}
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("a server of this network was asked %d times", n)
	}
	resp, err := Driver{Private: true}.client().Get(inside.URL)
	if err != nil || asked.Load() != 1 {
		t.Fatalf("allowed: %v, asked %d times", err, asked.Load())
	}
	resp.Body.Close()
	away := httptest.NewServer(http.RedirectHandler(inside.URL, http.StatusFound))
	defer away.Close()
	resp, err = Driver{Private: true}.client().Get(away.URL)
	if err != nil || resp.StatusCode != http.StatusFound || asked.Load() != 1 {
		t.Fatalf("a redirect was followed: %v, asked %d times", err, asked.Load())
	}
	resp.Body.Close()
}
