package web

import (
	"encoding/json"
	"net/http"
	"net/url"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/translog"
)

// proofData is the page of a proof: that a fact stands in the log.
type proofData struct {
	base
	Type, ID string
	Proof    *client.LogProof
	Entry    translog.Entry
	Body     string // what everybody may read of it, indented
	Head     translog.Checkpoint
	JSON     string // address of the proof for programs
}

// proof shows where a fact stands in the transparency log, and how to check it
// without this server.
func (s *server) proof(q *request) error {
	typ, id := q.URL.Query().Get("type"), q.URL.Query().Get("id")
	if len(typ) > 40 || len(id) > 200 {
		return &agon.Error{Code: "bad_id", Status: 422, Field: "id", Limit: "200 bytes", Message: "The name is too long."}
	}
	p, err := s.cfg.Platform.Proof(q.Context(), q.caller, typ, id)
	if err != nil {
		return err
	}
	d := proofData{base: q.base("Proof of "+typ, ""), Type: typ, ID: id, Proof: p, JSON: "/v1/log/proof?" + url.Values{"type": {typ}, "id": {id}}.Encode()}
	if d.Entry, d.Head, err = translog.CheckProof(p, p.Key); err != nil {
		return err
	}
	if d.Entry.Body != nil {
		b, err := json.MarshalIndent(d.Entry.Body, "", "  ")
		if err != nil {
			return err
		}
		d.Body = string(b)
	}
	return s.render(q, http.StatusOK, "proof", d)
}
