package local

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/ledger"
)

// Registration says who may register hotkeys on a ledger that strangers reach.
type Registration string

const (
	// RegistrationOpen lets a hotkey register itself under any coldkey: a demo's.
	RegistrationOpen Registration = "open"
	// RegistrationOperator lets the operator register, nobody else.
	RegistrationOperator Registration = "operator"
	// RegistrationColdkey lets a coldkey register hotkeys under itself. It is free,
	// so a subnet whose uids are all taken evicts nobody.
	RegistrationColdkey Registration = "coldkey"
	// RegistrationBurn is RegistrationColdkey for a price, which the coldkey pays;
	// coldkeys have what the operator gives them and what they earn.
	RegistrationBurn Registration = "burn"
)

// Registrations lists the modes.
func Registrations() []Registration {
	return []Registration{RegistrationOpen, RegistrationOperator, RegistrationColdkey, RegistrationBurn}
}

// ParseRegistration reads a mode.
func ParseRegistration(s string) (Registration, error) {
	r := Registration(s)
	if !slices.Contains(Registrations(), r) {
		var names []string
		for _, m := range Registrations() {
			names = append(names, string(m))
		}
		return "", &agon.Error{Code: "bad_setting", Status: http.StatusUnprocessableEntity, Field: "registration", Message: fmt.Sprintf("registration %q: want %s", s, strings.Join(names, ", "))}
	}
	return r, nil
}

// Served is a ledger as strangers reach it: over every protocol who may
// register is decided here. All else is the ledger's.
type Served struct {
	*Ledger
	Mode     Registration
	Operator string // hotkey, SS58
}

var _ ledger.Full = (*Served)(nil)

// Together is the ledger's, with the same mode.
func (s *Served) Together(ctx context.Context, f func(ledger.Full) error) error {
	return s.together(ctx, func(l *Ledger) error { return f(&Served{Ledger: l, Mode: s.Mode, Operator: s.Operator}) })
}

// Register implements ledger.Writer for protocols in which the coldkey signs.
func (s *Served) Register(ctx context.Context, netuid uint16, hotkey, coldkey string) (uint16, error) {
	return s.RegisterSigned(ctx, netuid, hotkey, coldkey, coldkey)
}

// RegisterSigned is Register by a signer, who is checked by the mode. The
// operator may always register; the price, if there is one, is the coldkey's.
func (s *Served) RegisterSigned(ctx context.Context, netuid uint16, hotkey, coldkey, signer string) (uint16, error) {
	if signer == s.Operator && s.Operator != "" {
		return s.Ledger.Register(ctx, netuid, hotkey, coldkey)
	}
	refuse := func(field, message, mend string) error {
		return &agon.Error{
			Code: "registration_" + string(s.Mode), Status: http.StatusForbidden, Field: field, Message: message, Mend: mend, Err: ledger.ErrBadOrigin.With(field + ": " + message),
		}
	}
	switch s.Mode {
	case RegistrationOpen:
		if signer != hotkey && signer != coldkey {
			return 0, refuse("hotkey", "the signer is neither the hotkey nor the coldkey", "sign with the hotkey that is to be registered")
		}
		return s.Ledger.RegisterSigned(ctx, netuid, hotkey, coldkey, signer)
	case RegistrationColdkey, RegistrationBurn:
		if signer != coldkey {
			return 0, refuse("coldkey", "a registration here is signed by the coldkey that it names", "agon ledger register, where the wallet has its coldkey")
		}
		if err := checkRegistration(netuid, hotkey, coldkey); err != nil {
			return 0, err
		}
		uid, _, err := s.call(ctx, &extrinsic{Call: callRegister, Netuid: netuid, Hotkey: hotkey, Coldkey: coldkey, Signer: signer, Keep: s.Mode == RegistrationColdkey})
		return uid, err
	}
	return 0, refuse("signer", "only the operator registers hotkeys here", "send your hotkey's and your coldkey's address to the operator, who runs `agon ledger register --hotkey … --coldkey …`")
}
