package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
)

// Cursor forms: "ATTEMPT.SEQ"; the empty cursor is before everything.

func cursorOf(e agon.Event) string { return fmt.Sprintf("%d.%d", e.Attempt, e.Seq) }

func parseCursor(s string) (attempt int, seq int64, err error) {
	if s == "" {
		return 0, 0, nil
	}
	a, q, ok := strings.Cut(s, ".")
	attempt, err1 := strconv.Atoi(a)
	seq, err2 := strconv.ParseInt(q, 10, 64)
	if !ok || err1 != nil || err2 != nil || attempt < 0 || seq < 0 {
		return 0, 0, &agon.Error{Code: "bad_cursor", Status: 400, Field: "after", Message: "a cursor is ATTEMPT.SEQ, for example 1.42"}
	}
	return attempt, seq, nil
}

// streams registers what huma does not do, server-sent events and raw blobs,
// and describes it in the document.
func (a *server) streams(mux *http.ServeMux, doc *huma.OpenAPI) {
	raw := func(ct, what string) map[string]*huma.Response {
		return map[string]*huma.Response{"200": {Description: what, Content: map[string]*huma.MediaType{ct: {}}}, "default": {Description: "Error", Content: map[string]*huma.MediaType{"application/problem+json": {}}}}
	}
	id := func(name string) []*huma.Param {
		return []*huma.Param{{Name: name, In: "path", Required: true, Schema: &huma.Schema{Type: "string"}}}
	}
	doc.AddOperation(&huma.Operation{
		OperationID: "stream-run", Method: http.MethodGet, Path: "/v1/runs/{id}/stream", Parameters: id("id"),
		Summary:     "Live events of a run",
		Description: "Server-sent events: id ATTEMPT.SEQ, event the type, data the event. Last-Event-ID resumes. The last event is `end` with the run.",
		Responses:   raw("text/event-stream", "events"),
	})
	doc.AddOperation(&huma.Operation{
		OperationID: "get-blob", Method: http.MethodGet, Path: "/v1/blobs/{digest}", Parameters: id("digest"),
		Summary:     "Bytes by content, as far as the caller may read them",
		Description: "With the header Agon-Direct: 1 the answer may be 307 and a URL of an object store, which is read without a signature; the reader verifies the digest.",
		Responses:   raw("application/octet-stream", "the bytes"),
	})
	doc.AddOperation(&huma.Operation{
		OperationID: "put-blob", Method: http.MethodPut, Path: "/v1/blobs/{digest}", Parameters: append(id("digest"), &huma.Param{Name: "lease", In: "query", Schema: &huma.Schema{Type: "string", MaxLength: new(maxID)}, Description: "whose evidence the bytes may be; none: of the leases that the caller holds now"}),
		Summary: "Store bytes (validators)", Description: "Signed (agon-v1).",
		RequestBody: &huma.RequestBody{Content: map[string]*huma.MediaType{"application/octet-stream": {}}},
		Responses:   map[string]*huma.Response{"204": {Description: "stored"}},
	})
	mux.HandleFunc("GET /v1/runs/{id}/stream", a.stream)
	mux.HandleFunc("GET /v1/blobs/{digest}", a.getBlob)
	mux.HandleFunc("PUT /v1/blobs/{digest}", a.putBlob)
	mux.HandleFunc(noRoute, func(w http.ResponseWriter, r *http.Request) {
		refuseUnread(w, r, problemOf(r.Context(), &agon.Error{Code: "not_found", Status: 404, Message: "no such route: " + r.URL.Path, Mend: "see /openapi.json"}))
	})
}

func (a *server) getBlob(w http.ResponseWriter, r *http.Request) {
	d := agon.Digest(r.PathValue("digest"))
	err := d.Validate()
	if err != nil {
		err = &agon.Error{Code: "bad_digest", Status: 400, Field: "digest", Message: err.Error()}
	}
	var b []byte
	var at string
	if err == nil && r.Header.Get(client.HeaderDirect) != "" {
		at, err = a.cfg.Platform.BlobAt(r.Context(), caller(r.Context()), d)
	}
	if err == nil && at != "" {
		w.Header().Set("Location", at)
		w.Header().Set("Cache-Control", "no-store") // whoever has the URL may read
		w.WriteHeader(http.StatusTemporaryRedirect)
		return
	}
	if err == nil {
		b, err = a.cfg.Platform.Blob(r.Context(), caller(r.Context()), d)
	}
	if err != nil {
		writeProblem(w, problemOf(r.Context(), err))
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	_, _ = w.Write(b) // the client is gone if this fails
}

func (a *server) putBlob(w http.ResponseWriter, r *http.Request) {
	d := agon.Digest(r.PathValue("digest"))
	b, err := io.ReadAll(r.Body) // bounded by wrap
	if err == nil {
		if err = d.Validate(); err != nil {
			err = &agon.Error{Code: "bad_digest", Status: 400, Field: "digest", Message: err.Error()}
		}
	}
	if err == nil {
		err = a.cfg.Platform.PutBlob(r.Context(), caller(r.Context()), r.URL.Query().Get("lease"), d, b)
	}
	if err != nil {
		writeProblem(w, problemOf(r.Context(), err))
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// keepAlive is how often an idle stream sends a comment.
const keepAlive = 15 * time.Second

// stream sends a run's events: id = cursor, event = type, data = agon.Event.
// Last-Event-ID resumes. The last event is `end` with the run.
func (a *server) stream(w http.ResponseWriter, r *http.Request) {
	ctx, c := r.Context(), caller(r.Context())
	id := r.PathValue("id")
	at, seq, err := parseCursor(r.Header.Get("Last-Event-ID"))
	if err == nil {
		_, err = a.cfg.Platform.Run(ctx, c, id)
	}
	if err != nil {
		writeProblem(w, problemOf(ctx, err))
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	rc := http.NewResponseController(w)
	_ = rc.SetWriteDeadline(time.Time{}) // a stream outlives the server's write timeout
	fmt.Fprint(w, "retry: 1000\n\n")
	const batch = 200
	for ctx.Err() == nil {
		// The run is read before its events: when it is final, all are there.
		run, err := a.cfg.Platform.Run(ctx, c, id)
		if err != nil {
			return
		}
		evs, err := a.cfg.Platform.Events(ctx, c, id, at, seq, batch)
		if err != nil {
			return
		}
		for _, e := range evs {
			b, err := json.Marshal(e)
			if err != nil {
				return
			}
			if _, err := fmt.Fprintf(w, "id: %s\nevent: %s\ndata: %s\n\n", cursorOf(e), e.Type, b); err != nil {
				return
			}
			at, seq = e.Attempt, e.Seq
		}
		if run.State.Final() && len(evs) == 0 {
			if b, err := json.Marshal(run); err == nil {
				fmt.Fprintf(w, "event: end\ndata: %s\n\n", b)
				_ = rc.Flush()
			}
			return
		}
		if err := rc.Flush(); err != nil {
			return
		}
		if len(evs) > 0 {
			continue
		}
		wctx, cancel := context.WithTimeout(ctx, keepAlive)
		err = a.cfg.Platform.Wait(wctx, id)
		cancel()
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			fmt.Fprint(w, ": keep-alive\n\n")
		}
	}
}
