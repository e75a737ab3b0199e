// Package provider is what the gateway knows about the places that answer
// model calls. Implementations live below it.
package provider

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"
)

// The paths that an upstream may be asked for, below its base URL.
const (
	PathChat       = "/chat/completions"
	PathEmbeddings = "/embeddings"
)

// The wire forms of calls besides OpenAI's chat and embeddings, for which the
// form is "". Dialects of the gateway have the same names.
const (
	FormAnthropic = "anthropic" // POST /messages
	FormResponses = "responses" // POST /responses
	FormGoogle    = "google"    // POST /models/NAME:generateContent
)

// Forms are all of them.
var Forms = []string{FormAnthropic, FormResponses, FormGoogle}

// Speaker is an Upstream that says which forms it takes. One that does not say
// takes OpenAI's chat and embeddings.
type Speaker interface {
	Speaks(form string) bool
}

// Speaks reports whether an upstream takes calls of a form.
func Speaks(u Upstream, form string) bool {
	if s, ok := u.(Speaker); ok {
		return s.Speaks(form)
	}
	return form == ""
}

// Upstream is one place that answers model calls. Safe for concurrent use.
type Upstream interface {
	// Name is what receipts say of it. It holds no secret and no address.
	Name() string
	// Models lists the names it serves, its default first.
	Models() []string
	// Do sends one call. A Reply is returned for 200 and for the statuses
	// that are the caller's own errors (400, 404, 413, 422), in which case
	// the caller closes Body. Every other ending is a *Failure. Do does not
	// retry. Reads of Body are bounded in bytes and time and fail with a
	// *Failure as well.
	Do(ctx context.Context, req Request) (*Reply, error)
}

// Request is one call, already reduced to allow-listed fields.
type Request struct {
	Path   string // PathChat, PathEmbeddings or that of a form
	Form   string // "": OpenAI's
	Model  string
	Body   []byte // JSON
	Stream bool
}

// Reply is an answer whose body has not been read.
type Reply struct {
	Status      int
	ContentType string
	Body        io.ReadCloser
}

// Class says how an upstream failed.
type Class string

// The classes of failure.
const (
	ClassAuth      Class = "auth"       // 401, 403: our key is wrong
	ClassPayment   Class = "payment"    // 402: our account is empty
	ClassRateLimit Class = "rate_limit" // 429
	ClassServer    Class = "server"     // 5xx, connection refused or reset before a reply
	ClassTimeout   Class = "timeout"
	ClassTruncated Class = "truncated" // the reply broke off
	ClassBadReply  Class = "bad_reply" // not what the protocol allows: redirect, no JSON, too large
	// ClassNotFound is a 404 that the gateway's own probe met as well: the model's name is our mistake.
	ClassNotFound Class = "not_found"
)

// Failure is an upstream's failure. Its text is ours: no byte of the
// provider's reply, address or key is in it.
type Failure struct {
	Class      Class
	Status     int           // the provider's HTTP status, 0 if there was none
	RetryAfter time.Duration // what the provider asked for, 0 if nothing
	// Detail is for the operator's log only. The key is already struck out.
	Detail string
}

func (f *Failure) Error() string {
	if f.Status != 0 {
		return fmt.Sprintf("ask provider: %s (status %d)", f.Class, f.Status)
	}
	return fmt.Sprintf("ask provider: %s", f.Class)
}

// Own reports whether status is one of the caller's own errors, which are
// handed on as they are.
func Own(status int) bool {
	switch status {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		return true
	}
	return false
}

// Classify names the failure of a status that is neither 200 nor Own.
func Classify(status int) Class {
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return ClassAuth
	case status == http.StatusPaymentRequired:
		return ClassPayment
	case status == http.StatusRequestTimeout:
		return ClassTimeout
	case status == http.StatusTooManyRequests:
		return ClassRateLimit
	case status >= 500:
		return ClassServer
	}
	return ClassBadReply
}
