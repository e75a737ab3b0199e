package roles

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/kinds/claim/signin"
)

// harnyx makes one request of a validator of Harnyx at a server.
func harnyx(ctx context.Context, t *testing.T, server string, key auth.Signer, method, path, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, server+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	sig, err := key.Sign(signin.Message(method, path, []byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", fmt.Sprintf(`Bittensor ss58="%s",sig="%s"`, key.SS58(), hex.EncodeToString(sig)))
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// A validator of a foreign subnet speaks to two servers in turn. The one that led is killed;
// the other knows its registration, and that it was heard of, from the database: nothing of
// it is a file of the servers' volume.
func TestServersKeepForeignDocuments(t *testing.T) {
	c, list := newCluster(t, 2)
	v := c.party("val-1")
	c.register(v, true)
	registered := func(s *serving) bool {
		t.Helper()
		status, text := harnyx(t.Context(), t, s.url, v.Hotkey, "GET", "/v1/weights", "")
		if status != http.StatusOK && status != http.StatusForbidden {
			t.Fatalf("%d %s", status, text)
		}
		return !strings.Contains(text, "validator_not_registered")
	}
	if registered(list[0]) || registered(list[1]) {
		t.Fatal("it is registered before it is")
	}
	if status, text := harnyx(t.Context(), t, list[1].url, v.Hotkey, "POST", "/v1/validators/register", `{"base_url":"http://127.0.0.1:1"}`); status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
	if !registered(list[0]) || !registered(list[1]) {
		t.Error("a registration through one server is not known at the other")
	}
	if err := list[0].end(syscall.SIGKILL); err == nil {
		t.Fatal("a killed server ended well")
	}
	if !registered(list[1]) {
		t.Error("the next leader does not know it")
	}
	if files, err := filepath.Glob(filepath.Join(c.dir, "harnyx*", "*.json")); err != nil || len(files) > 0 {
		t.Errorf("on the volume: %v %v", files, err)
	}
}
