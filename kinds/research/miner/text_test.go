package miner

import "testing"

func TestAPIErrorText(t *testing.T) {
	for body, want := range map[string]string{
		`{"detail":"no such task"}`:                                                                 "no such task",
		`{"detail":{"error":"claim_limit","message":"one at a time"}}`:                              "one at a time",
		`{"detail":{"error":"claim_limit"}}`:                                                        "claim limit",
		`{"detail":[{"loc":["body","description"],"msg":"field required"},{"loc":[],"msg":"bad"}]}`: "description: field required; bad",
		`<html>`: "GET /x failed: HTTP 422 (<html>)",
	} {
		if got := (&APIError{Method: "GET", Path: "/x", Status: 422, Body: []byte(body)}).Text(); got != want {
			t.Errorf("%s: got %q, want %q", body, got, want)
		}
	}
}
