package client

import (
	"errors"
	"strings"
	"testing"

	"github.com/agon-arena/agon"
)

// Both sides take the newest version that both speak; where there is none the
// refusal names both and says who is old.
func TestAgree(t *testing.T) {
	p := func(a, b int) *Protocols { return &Protocols{a, b} }
	for _, c := range []struct {
		server, validator *Protocols
		want              int
		say               string
	}{
		{nil, nil, 1, ""},
		{p(1, 2), nil, 1, ""},
		{nil, p(1, 2), 1, ""},
		{p(1, 3), p(2, 5), 3, ""},
		{p(2, 3), nil, 0, "this validator speaks version 1 of the protocol, the server versions 2 to 3|update the validator's agon"},
		{p(3, 3), p(1, 2), 0, "this validator speaks versions 1 to 2 of the protocol, the server version 3|update the validator's agon"},
		{nil, p(2, 3), 0, "this validator speaks versions 2 to 3 of the protocol, the server version 1|update the server's agon"},
		{p(1, 2), p(0, 2), 0, "protocols 0 to 2"},
		{p(1, 2), p(2, 1), 0, "protocols 2 to 1"},
		{p(1, 2), p(1, 1<<21), 0, "protocols 1 to"},
	} {
		n, err := Agree(c.server, c.validator)
		var e *agon.Error
		if n != c.want || (c.say == "") != (err == nil) || err != nil && (!errors.As(err, &e) || !strings.HasPrefix(e.Message+"|"+e.Mend, c.say) || e.Field != "protocols") {
			t.Errorf("%v and %v: %d, %v", c.server, c.validator, n, err)
		}
	}
}
