package web

import (
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"

	"github.com/agon-arena/agon/internal/served"
)

// statics serves the files that the binary carries, which browsers keep for an hour.
func statics(dir fs.FS) (http.Handler, error) {
	docs := map[string]*served.Document{}
	err := fs.WalkDir(dir, ".", func(at string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := fs.ReadFile(dir, at)
		docs[at] = served.New(b)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read static files: %w", err)
	}
	types := map[string]string{".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at := strings.TrimPrefix(r.URL.Path, "/static/")
		d := docs[at]
		if d == nil {
			http.NotFound(w, r)
			return
		}
		typ := types[path.Ext(at)]
		if typ == "" {
			if typ = mime.TypeByExtension(path.Ext(at)); typ == "" {
				typ = "text/plain; charset=utf-8" // a licence
			}
		}
		w.Header().Set("Content-Type", typ)
		w.Header().Set("Cache-Control", "public, max-age=3600")
		d.Write(w, r, http.StatusOK)
	}), nil
}
