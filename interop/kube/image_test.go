package kube

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// pauseName is the image that holds the namespaces of each pod.
const pauseName = "agon.test/pause:1"

// pause writes that image, an OCI archive with one program, and returns its path.
func pause(t *testing.T, dir string) string {
	t.Helper()
	program, err := os.ReadFile(need(t, "KUBE_PAUSE"))
	if err != nil {
		t.Fatal(err)
	}
	layer := archive(t, map[string][]byte{"pause": program}, "pause")
	files := map[string][]byte{"oci-layout": []byte(`{"imageLayoutVersion":"1.0.0"}`)}
	var names []string
	// put stores a blob and returns what points to it.
	put := func(b []byte, mediaType string) map[string]any {
		sum := sha256.Sum256(b)
		name := "blobs/sha256/" + hex.EncodeToString(sum[:])
		files[name], names = b, append(names, name)
		return map[string]any{"mediaType": mediaType, "digest": "sha256:" + hex.EncodeToString(sum[:]), "size": len(b)}
	}
	layers := put(layer, "application/vnd.oci.image.layer.v1.tar")
	config := put(text(t, map[string]any{
		"architecture": runtime.GOARCH, "os": "linux", "config": map[string]any{"Entrypoint": []string{"/pause"}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []any{layers["digest"]}},
	}), "application/vnd.oci.image.config.v1+json")
	manifest := put(text(t, map[string]any{
		"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": config, "layers": []any{layers},
	}), "application/vnd.oci.image.manifest.v1+json")
	manifest["annotations"] = map[string]string{"io.containerd.image.name": pauseName}
	files["index.json"] = text(t, map[string]any{"schemaVersion": 2, "manifests": []any{manifest}})
	to := filepath.Join(dir, "pause.tar")
	if err := os.WriteFile(to, archive(t, files, append(names, "oci-layout", "index.json")...), 0o600); err != nil {
		t.Fatal(err)
	}
	return to
}

func text(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// archive is a tar of the named files.
func archive(t *testing.T, files map[string][]byte, names ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, name := range names {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(files[name]))}); err != nil {
			t.Fatal(fmt.Errorf("write %s: %w", name, err))
		}
		if _, err := w.Write(files[name]); err != nil {
			t.Fatal(fmt.Errorf("write %s: %w", name, err))
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
