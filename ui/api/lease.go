package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/internal/traceparent"
)

// pathLeases is where the routes begin that a crowd of validators calls all day.
const pathLeases = "/v1/leases"

// pathJudging is where those of judge leases begin.
const pathJudging = "/v1/judge-leases"

// leases registers the routes of leases by hand: huma decodes a body twice and
// walks it by reflection, which is a third of what such a request costs. They
// are described in the document as huma would. Their nonces were deferred
// (wrap), so each is settled before its reply.
func (a *server) leases(mux *http.ServeMux, api huma.API, p Leases) {
	quick(a, mux, api, p, huma.Operation{
		OperationID: "claim", Path: pathLeases, Summary: "Claim a run, waiting for one (validators)",
		Description: "Signed (agon-v1). 200 with a lease, 204 when nothing came within wait_ms.",
	}, func(ctx context.Context, _ string, in client.ClaimRequest) (*client.Lease, error) {
		l, err := p.Claim(ctx, caller(ctx), in)
		if l != nil {
			l.Trace = traceparent.Of(ctx)
		}
		return l, err
	})
	quick(a, mux, api, p, huma.Operation{
		OperationID: "needed-images", Path: "/v1/images", Summary: "Images that the tasks of one's arenas stand on (validators)",
		Description: "Signed (agon-v1). Data sets that they name stand there, too, as dataset:…. A validator has them before it claims, and names in missing_images of its claims what it does not have.",
	}, func(ctx context.Context, _ string, in client.ClaimRequest) (*client.NeededImages, error) {
		return p.NeededImages(ctx, caller(ctx), in)
	})
	quick(a, mux, api, p, huma.Operation{
		OperationID: "heartbeat", Path: pathLeases + "/{id}/heartbeat", Summary: "Extend a lease, move its run, append events",
		Description: "Signed (agon-v1).",
	}, func(ctx context.Context, id string, in client.Heartbeat) (*client.HeartbeatReply, error) {
		return p.Heartbeat(ctx, caller(ctx), id, in)
	})
	quick(a, mux, api, p, huma.Operation{
		OperationID: "result", Path: pathLeases + "/{id}/result", Summary: "Report how the attempt ended (idempotent)",
		Description: "Signed (agon-v1).",
	}, func(ctx context.Context, id string, in client.Result) (*client.ResultReply, error) {
		return p.Result(ctx, caller(ctx), id, in)
	})
	quick(a, mux, api, p, huma.Operation{
		OperationID: "claim-judging", Path: pathJudging, Summary: "Claim a result of another validator to judge again (validators)",
		Description: "Signed (agon-v1). 200 with a lease, 204 when nothing came within wait_ms.",
	}, func(ctx context.Context, _ string, in client.ClaimRequest) (*client.JudgeLease, error) {
		return p.ClaimJudging(ctx, caller(ctx), in)
	})
	quick(a, mux, api, p, huma.Operation{
		OperationID: "judging-heartbeat", Path: pathJudging + "/{id}/heartbeat", Summary: "Extend a judge lease",
		Description: "Signed (agon-v1).",
	}, func(ctx context.Context, id string, in client.JudgeHeartbeat) (*client.HeartbeatReply, error) {
		return p.BeatJudging(ctx, caller(ctx), id, in)
	})
	quick(a, mux, api, p, huma.Operation{
		OperationID: "judging-result", Path: pathJudging + "/{id}/result", Summary: "Report what was made of the evidence (idempotent)",
		Description: "Signed (agon-v1).",
	}, func(ctx context.Context, id string, in client.JudgeResult) (*client.JudgeReply, error) {
		return p.JudgingResult(ctx, caller(ctx), id, in)
	})
}

// quick registers and describes a POST route of JSON in and out; a nil answer is 204.
func quick[I, O any](a *server, mux *http.ServeMux, api huma.API, p Leases, o huma.Operation, h func(ctx context.Context, id string, in I) (*O, error)) {
	schemas := api.OpenAPI().Components.Schemas
	content := func(t reflect.Type) map[string]*huma.MediaType {
		return map[string]*huma.MediaType{"application/json": {Schema: schemas.Schema(t, true, "")}}
	}
	o.Method = http.MethodPost
	if strings.Contains(o.Path, "{id}") {
		o.Parameters = []*huma.Param{{Name: "id", In: "path", Required: true, Schema: &huma.Schema{Type: "string", MaxLength: new(maxID)}}}
	}
	o.RequestBody = &huma.RequestBody{Required: true, Content: content(reflect.TypeFor[I]())}
	problem := map[string]*huma.MediaType{"application/problem+json": {Schema: schemas.Schema(reflect.TypeFor[huma.ErrorModel](), true, "")}}
	o.Responses = map[string]*huma.Response{
		"200":     {Description: "OK", Content: content(reflect.TypeFor[O]())},
		"default": {Description: "Error", Content: problem},
	}
	api.OpenAPI().AddOperation(&o)
	mux.HandleFunc("POST "+o.Path, func(w http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		out, err := perform(ctx, r, h)
		if nerr := p.SettleNonce(ctx); nerr != nil {
			err = nerr
		}
		switch {
		case err != nil:
			p := problemOf(ctx, err)
			if p.Status >= 500 && !errors.Is(err, context.Canceled) {
				a.cfg.Log.Error("request failed", "request", p.RequestID, "operation", o.OperationID, "err", err)
			}
			writeProblem(w, p)
		case out == nil:
			w.WriteHeader(http.StatusNoContent)
		default:
			writeJSON(w, out)
		}
	})
}

const maxID = 80 // bytes of an id in a path

func perform[I, O any](ctx context.Context, r *http.Request, h func(ctx context.Context, id string, in I) (*O, error)) (*O, error) {
	id := r.PathValue("id")
	if len(id) > maxID {
		return nil, &agon.Error{Code: "invalid", Status: 422, Field: "path.id", Limit: strconv.Itoa(maxID) + " bytes", Message: "the id is too long"}
	}
	if ct, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";"); ct != "" && strings.TrimSpace(ct) != "application/json" {
		return nil, &agon.Error{Code: "unsupported_media_type", Status: 415, Field: "Content-Type", Message: "the body must be application/json"}
	}
	var in I
	if err := readJSON(r.Body, &in); err != nil {
		return nil, err
	}
	return h(ctx, id, in)
}

// readJSON decodes a body that has been read and bounded: one value of known fields.
func readJSON(body io.Reader, into any) error {
	dec := json.NewDecoder(body)
	dec.DisallowUnknownFields()
	err := dec.Decode(into)
	if err == nil {
		if _, terr := dec.Token(); terr == io.EOF { //nolint:errorlint // Token returns it bare
			return nil
		}
		return &agon.Error{Code: "bad_request", Status: 400, Field: "body", Message: "the body is more than one JSON value"}
	}
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		return &agon.Error{Code: "invalid", Status: 422, Field: "body." + wrong.Field, Message: "expected " + wrong.Type.String() + ", got " + wrong.Value}
	}
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		if s, uerr := strconv.Unquote(name); uerr == nil {
			name = s
		}
		return &agon.Error{Code: "invalid", Status: 422, Field: "body." + name[:min(len(name), maxID)], Message: "unexpected property"}
	}
	if errors.Is(err, io.EOF) {
		return &agon.Error{Code: "bad_request", Status: 400, Field: "body", Message: "request body is required"}
	}
	return &agon.Error{Code: "bad_request", Status: 400, Field: "body", Message: "the body is not JSON: " + err.Error()}
}

func writeJSON(w http.ResponseWriter, v any) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		writeProblem(w, &problem{client.Problem{Type: "about:blank", Title: "Internal Server Error", Status: 500, Code: "internal", Detail: "internal error", Fault: agon.FaultPlatform}})
		return
	}
	h := w.Header()
	h["Content-Type"] = []string{"application/json"}
	h["Content-Length"] = []string{strconv.Itoa(b.Len())}
	_, _ = w.Write(b.Bytes()) // the client is gone if this fails
}
