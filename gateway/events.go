package gateway

import (
	"unicode/utf8"

	"github.com/agon-arena/agon"
)

// ModelCall is the data of an agon.EventModel. docs/events.md describes it.
type ModelCall struct {
	Receipt agon.Receipt `json:"receipt"`
	// Request is what the upstream got, Response what it sent, byte for byte.
	Request  Body `json:"request"`
	Response Body `json:"response"`
	// Message is what the model said, put together from the reply or the stream.
	Message *Message `json:"message,omitempty"`
	Stream  bool     `json:"stream,omitempty"`
	// Error is the class of the provider's failure.
	Error string `json:"error,omitempty"`
	// Over is what the provider billed beyond the reservation, in
	// micro-dollars: the platform's loss.
	Over agon.Micros `json:"over_micros,omitempty"`
	// ClaimedRun is the run id in the body of an A0 call. It identifies nothing.
	ClaimedRun string `json:"claimed_run_id,omitempty"`
}

// Body is the bytes of a request or reply: as Text if they are UTF-8, else in Base64.
type Body struct {
	Text   string `json:"text,omitempty"`
	Base64 []byte `json:"base64,omitempty"`
	Bytes  int64  `json:"bytes"`         // of the whole body
	Cut    bool   `json:"cut,omitempty"` // only the beginning is kept
}

// Refused is the data of an agon.EventRefused.
type Refused struct {
	Route   string `json:"route"`
	Status  int    `json:"status"`
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Note is the data of an agon.EventNote.
type Note struct {
	Text string `json:"text"`
}

const (
	// keepBody bounds a body in an event, keepSmall one after KeepBytes of the session are used up.
	keepBody  = 4 << 20
	keepSmall = 16 << 10
)

// bodyOf keeps at most limit bytes of b, the beginning of a body of total bytes.
func bodyOf(b []byte, total int64, limit int) Body {
	out := Body{Bytes: total}
	if len(b) > limit {
		b = []byte(cut(string(b), limit))
	}
	out.Cut = int64(len(b)) < total
	if utf8.Valid(b) {
		out.Text = string(b)
	} else {
		out.Base64 = b
	}
	return out
}
