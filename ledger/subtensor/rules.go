package subtensor

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/scale"
)

const admin = "AdminUtils"

// Call is a call of the runtime, before it is encoded.
type Call struct {
	Pallet string
	Name   string
	Args   any // a scale.Map by name, or a list in order
}

// RuleCall is the call by which a subnet's owner sets a hyperparameter: a
// number, true or false, or LOW,HIGH of alpha_values. Names are those of a
// metagraph (ledger.Hyperparameters).
func RuleCall(netuid uint16, name, value string) (Call, error) {
	bad := func(want string) (Call, error) {
		return Call{}, &agon.Error{Code: "bad_setting", Status: http.StatusUnprocessableEntity, Field: name, Message: fmt.Sprintf("%s=%s: want %s", name, value, want)}
	}
	if name == ledger.RuleAlpha {
		low, high, ok := strings.Cut(value, ",")
		l, lerr := strconv.ParseUint(low, 10, 16)
		h, herr := strconv.ParseUint(high, 10, 16)
		if !ok || lerr != nil || herr != nil || l > h {
			return bad("LOW,HIGH, two numbers up to 65535")
		}
		return Call{admin, "sudo_set_alpha_values", scale.Map{"netuid": netuid, "alpha_low": l, "alpha_high": h}}, nil
	}
	r, ok := ledger.RuleNamed(name)
	if !ok {
		return Call{}, &agon.Error{
			Code: "bad_setting", Status: http.StatusUnprocessableEntity, Field: name, Message: fmt.Sprintf("an owner sets no hyperparameter %q", name), Mend: "one of " + strings.Join(ledger.OwnerRules(), ", "),
		}
	}
	args := scale.Map{"netuid": netuid}
	switch {
	case r.Bits == 0:
		on, err := strconv.ParseBool(value)
		if err != nil {
			return bad("true or false")
		}
		args[r.Arg] = on
	case r.Bits < 0:
		n, err := strconv.ParseInt(value, 10, -r.Bits)
		if err != nil {
			return bad(fmt.Sprintf("a whole number of %d bits", -r.Bits))
		}
		args[r.Arg] = n
	default:
		n, err := strconv.ParseUint(value, 10, r.Bits)
		if err != nil {
			return bad(fmt.Sprintf("a whole number of %d bits, from 0", r.Bits))
		}
		args[r.Arg] = n
	}
	return Call{r.Pallet, r.Call, args}, nil
}

// AxonCall is the call that tells where a hotkey serves.
func AxonCall(netuid uint16, a ledger.Axon) Call {
	b, kind := a.IP.As16(), 6
	ip := bigOf(b[:])
	if a.IP.Is4() {
		four := a.IP.As4()
		ip, kind = bigOf(four[:]), 4
	}
	return Call{module, "serve_axon", scale.Map{
		"netuid": netuid, "version": a.Version, "ip": ip, "port": a.Port, "ip_type": kind, "protocol": a.Protocol, "placeholder1": a.Placeholder1, "placeholder2": a.Placeholder2,
	}}
}
