package client

import (
	"fmt"
	"net/http"

	"github.com/agon-arena/agon"
)

// Versions of the protocol between validators and a platform. 1: leases,
// evidence bound to them, closing statements, judging again. 2: claims say
// which versions their validator speaks, and leases which one was agreed.
const (
	protocolMin = 1
	protocolMax = 2
)

// Protocols are the versions that one side speaks, both ends included.
type Protocols struct {
	Min int `json:"min"`
	Max int `json:"max"`
}

// Spoken are the versions that this agon speaks.
func Spoken() Protocols { return Protocols{protocolMin, protocolMax} }

func (p Protocols) String() string {
	if p.Min == p.Max {
		return fmt.Sprintf("version %d", p.Min)
	}
	return fmt.Sprintf("versions %d to %d", p.Min, p.Max)
}

// Agree is the newest version that a server and a validator both speak. Who
// names none speaks version 1. The error names both sides.
func Agree(server, validator *Protocols) (int, error) {
	one := Protocols{1, 1}
	if server == nil {
		server = &one
	}
	if validator == nil {
		validator = &one
	}
	if validator.Min < 1 || validator.Max < validator.Min || validator.Max > 1<<20 {
		return 0, &agon.Error{Code: "bad_claim", Status: http.StatusUnprocessableEntity, Field: "protocols", Limit: "1 to 1048576", Message: fmt.Sprintf("protocols %d to %d: want 1 or more, the lower first", validator.Min, validator.Max)}
	}
	n := min(server.Max, validator.Max)
	if n >= max(server.Min, validator.Min) {
		return n, nil
	}
	older := "validator"
	if server.Max < validator.Min {
		older = "server"
	}
	return 0, &agon.Error{
		Code: "protocol_version", Status: http.StatusUpgradeRequired, Field: "protocols",
		Message: fmt.Sprintf("this validator speaks %s of the protocol, the server %s", validator, server), Mend: "update the " + older + "'s agon",
	}
}
