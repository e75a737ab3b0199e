package subtensor

import (
	"fmt"
	"math/big"
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
		args[r.Arg] = r.Argument(on)
	case r.Bits < 0:
		n, err := strconv.ParseInt(value, 10, -r.Bits)
		if err != nil {
			return bad(fmt.Sprintf("a whole number of %d bits", -r.Bits))
		}
		args[r.Arg] = n
	case r.Fixed:
		bits, ok := fixed(value)
		if !ok {
			return bad("a number such as 1.5")
		}
		args[r.Arg] = scale.Map{"bits": bits}
	default:
		n, err := strconv.ParseUint(value, 10, r.Bits)
		if err != nil {
			return bad(fmt.Sprintf("a whole number of %d bits, from 0", r.Bits))
		}
		args[r.Arg] = n
	}
	return Call{r.Pallet, r.Call, args}, nil
}

// current is a call as the runtime takes it. Newer runtimes moved some calls of owners to
// AdminUtils, and keep those of before, which do nothing and succeed.
func current(m *scale.Metadata, call Call) Call {
	if now, ok := ledger.Moved[call.Name]; ok && call.Pallet == module && m.HasCall(admin, ledger.Moved["set_activity_cutoff_factor"]) {
		call.Pallet, call.Name = admin, now
	}
	return call
}

// fixed is a decimal with 64 fraction bits.
func fixed(s string) (*big.Int, bool) {
	x, ok := new(big.Rat).SetString(s)
	if !ok || len(s) > 40 || strings.ContainsAny(s, "/eE") || x.Sign() < 0 {
		return nil, false
	}
	x.Mul(x, new(big.Rat).SetInt(new(big.Int).Lsh(big.NewInt(1), 64)))
	return new(big.Int).Quo(x.Num(), x.Denom()), true
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
