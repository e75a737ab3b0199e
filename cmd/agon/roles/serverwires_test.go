package roles

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/kinds/claim/signin"
	packsignin "github.com/agon-arena/agon/kinds/pack/signin"
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

// packArena writes an arena of policy packs, on the subnet of the claims.
func packArena(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pack.toml")
	if err := os.WriteFile(path, []byte("id = \"test-pack\"\nkind = \"pack\"\ntitle = \"test\"\nnetuid = 3\nsets = [\"office\"]\nincentive = \"cost_takeover\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// trajrl is the form of a message of a validator of TrajectoryRL, with an archive.
func trajrl(t *testing.T, key auth.Signer, purpose string, values map[string]string, archive []byte) (contentType string, body *bytes.Buffer) {
	t.Helper()
	at := strconv.FormatInt(time.Now().Unix(), 10)
	sig, err := key.Sign(packsignin.Message(purpose, key.SS58(), at))
	if err != nil {
		t.Fatal(err)
	}
	body = &bytes.Buffer{}
	m := multipart.NewWriter(body)
	values["validator_hotkey"], values["timestamp"], values["signature"] = key.SS58(), at, hex.EncodeToString(sig)
	for k, v := range values {
		err = errors.Join(err, m.WriteField(k, v))
	}
	f, wrong := m.CreateFormFile("log_archive", "logs.tar.gz")
	if err = errors.Join(err, wrong); err == nil {
		_, err = f.Write(archive)
	}
	if err = errors.Join(err, m.Close()); err != nil {
		t.Fatal(err)
	}
	return m.FormDataContentType(), body
}

// read is what a server answers.
func read(t *testing.T, url string) string {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("%s: %s, %v, %.200s", url, resp.Status, err, b)
	}
	return string(b)
}

// Validators of foreign subnets speak to two servers in turn. The one that led is killed; the
// other knows from the database and the blobs who is registered and was heard of, and has an
// archive of logs: nothing of it is a file of a dialect's folder.
func TestServersKeepForeignDocuments(t *testing.T) {
	c, list := newCluster(t, 2, packArena(t))
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
	var packed bytes.Buffer
	gz := gzip.NewWriter(&packed)
	files := tar.NewWriter(gz)
	if err := errors.Join(files.WriteHeader(&tar.Header{Name: "validator.log", Mode: 0o600}), files.Close(), gz.Close()); err != nil {
		t.Fatal(err)
	}
	kind, body := trajrl(t, v.Hotkey, packsignin.Logs.Purpose, map[string]string{"eval_id": "one", "block_height": "1"}, packed.Bytes())
	resp, err := http.Post(list[1].url+"/api/validators/logs/cycle", kind, body)
	if err != nil {
		t.Fatal(err)
	}
	var log struct {
		ID string `json:"log_id"`
	}
	err = errors.Join(json.NewDecoder(resp.Body).Decode(&log), resp.Body.Close())
	if err != nil || resp.StatusCode != http.StatusOK || log.ID == "" {
		t.Fatalf("an archive: %s, %v", resp.Status, err)
	}

	if err := list[0].end(syscall.SIGKILL); err == nil {
		t.Fatal("a killed server ended well")
	}
	if !registered(list[1]) {
		t.Error("the next leader does not know it")
	}
	if logs := read(t, list[1].url+"/api/eval-logs"); !strings.Contains(logs, log.ID) {
		t.Errorf("the next leader does not list the archive: %.500s", logs)
	}
	if got := read(t, list[1].url+"/api/logs/"+log.ID+".tar.gz"); got != packed.String() {
		t.Errorf("the archive has %d bytes, want %d", len(got), packed.Len())
	}
	for _, of := range []string{"harnyx*/*.json", "trajrl/*"} {
		if files, err := filepath.Glob(filepath.Join(c.dir, of)); err != nil || len(files) > 0 {
			t.Errorf("on the volume: %v %v", files, err)
		}
	}
}
