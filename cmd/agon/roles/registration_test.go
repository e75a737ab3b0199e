package roles

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/ledger/dial"
	"github.com/agon-arena/agon/ledger/local"
)

// smallNet is the subnet of smallArena.
const smallNet = 3

// registry is a served platform with one arena on subnet smallNet.
type registry struct {
	t *testing.T
	*server
}

func newRegistry(t *testing.T, dir string, mode local.Registration) *registry {
	t.Helper()
	o := testOptions(dir)
	o.Arenas, o.Registration = []string{smallArena(t, "small/interval-merge")}, mode
	s, err := openArenas(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	return &registry{t, s}
}

func newKey(t *testing.T) *auth.Key {
	t.Helper()
	k, err := auth.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func (r *registry) client(k auth.Signer) *client.Client {
	r.t.Helper()
	c, err := client.New(r.URL(), k)
	if err != nil {
		r.t.Fatal(err)
	}
	return c
}

// v1 registers over /v1, by's signature.
func (r *registry) v1(by *auth.Key, hotkey, coldkey string) error {
	return r.client(by).Register(r.t.Context(), smallNet, client.RegisterRequest{Hotkey: hotkey, Coldkey: coldkey})
}

// wire registers over the ledger's own protocol or as a chain's node takes it.
func (r *registry) wire(name string, by *auth.Key, hotkey, coldkey string) error {
	r.t.Helper()
	p, err := dial.Parse(name)
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
	defer cancel()
	l, end, err := dial.Open(ctx, p, dial.Config{InBlock: true, Signer: func(address string) (auth.Signer, error) {
		if address != by.SS58() {
			return nil, fmt.Errorf("no key of %s is here", address)
		}
		return by, nil
	}})
	if err != nil {
		r.t.Fatal(err)
	}
	_, err = l.Register(ctx, smallNet, hotkey, coldkey)
	return errors.Join(err, end())
}

func (r *registry) doors() map[string]func(by *auth.Key, hotkey, coldkey string) error {
	return map[string]func(*auth.Key, string, string) error{
		"v1":     r.v1,
		"ledger": func(by *auth.Key, h, c string) error { return r.wire(r.URL(), by, h, c) },
		"rpc": func(by *auth.Key, h, c string) error {
			return r.wire("ws"+strings.TrimPrefix(r.URL(), "http")+"/rpc", by, h, c)
		},
	}
}

func (r *registry) registered(hotkey string) bool {
	r.t.Helper()
	m, err := r.Ledger.Metagraph(r.t.Context(), smallNet)
	if err != nil {
		r.t.Fatal(err)
	}
	_, ok := m.Neuron(hotkey)
	return ok
}

// Who may register is the same over every protocol that the server speaks.
func TestRegistration(t *testing.T) {
	for _, mode := range []local.Registration{"", local.RegistrationColdkey, local.RegistrationBurn} {
		t.Run("mode "+string(mode), func(t *testing.T) {
			r := newRegistry(t, t.TempDir(), mode)
			info, err := r.client(nil).Server(t.Context())
			want := string(mode)
			if want == "" {
				want = "operator"
			}
			if err != nil || info.Registration != want {
				t.Fatalf("the server tells %q (%v), want %s", info.Registration, err, want)
			}
			for door, register := range r.doors() {
				victim, thief, cold := newKey(t), newKey(t), newKey(t)
				// A hotkey that names another's coldkey, and one that names its own. A chain's
				// node knows only the coldkey's signature: there the thief has none.
				for _, hotkey := range []*auth.Key{thief, victim} {
					if door == "rpc" {
						break
					}
					err := register(hotkey, hotkey.SS58(), cold.SS58())
					if err == nil || r.registered(hotkey.SS58()) {
						t.Fatalf("%s: a hotkey registered itself", door)
					}
					var e *agon.Error
					if door == "v1" && (!errors.As(err, &e) || e.Status != http.StatusForbidden || e.Code != "registration_"+want || e.Field == "" || e.Mend == "") {
						t.Errorf("%s: %#v", door, err)
					}
				}
				// The coldkey itself.
				err := register(cold, victim.SS58(), cold.SS58())
				switch got := r.registered(victim.SS58()); {
				case mode == "" && (err == nil || got):
					t.Errorf("%s: a coldkey registered where only the operator may: %v", door, err)
				case mode == local.RegistrationColdkey && (err != nil || !got):
					t.Errorf("%s: a coldkey's own registration: %v", door, err)
				case mode == local.RegistrationBurn && (err == nil || got):
					t.Errorf("%s: a coldkey registered without money: %v", door, err)
				}
				if mode != local.RegistrationBurn {
					continue
				}
				var e *agon.Error
				if door == "v1" && (!errors.As(err, &e) || !strings.Contains(e.Message, "the coldkey has 0")) {
					t.Errorf("%s: %v", door, err)
				}
				price := r.price()
				if price < DefaultRegistrationPrice {
					t.Errorf("a registration costs %d rao", price)
				}
				if _, err := r.client(cold).Fund(t.Context(), client.FundRequest{Coldkey: cold.SS58(), Rao: 1 << 40}); !client.IsCode(err, "operator_only") {
					t.Errorf("a coldkey gave itself money: %v", err)
				}
				if b, err := r.client(r.Operator.Hotkey).Fund(t.Context(), client.FundRequest{Coldkey: cold.SS58(), Rao: 2 * price}); err != nil || b.Rao != 2*price {
					t.Fatalf("the operator gives money: %v %v", b, err)
				}
				if err := register(cold, victim.SS58(), cold.SS58()); err != nil || !r.registered(victim.SS58()) {
					t.Errorf("%s: a registration that is paid for: %v", door, err)
				}
				if r.price() <= price {
					t.Errorf("%s: the price did not rise from %d", door, price)
				}
			}
		})
	}
}

func (r *registry) price() uint64 {
	m, err := r.client(nil).Ledger(r.t.Context(), smallNet)
	if err != nil {
		r.t.Fatal(err)
	}
	return m.Price
}

// The operator registers others in every mode; permits are the operator's alone.
func TestOperatorRegisters(t *testing.T) {
	r := newRegistry(t, t.TempDir(), "")
	val, cold := newKey(t), newKey(t)
	ask := client.RegisterRequest{Hotkey: val.SS58(), Coldkey: cold.SS58(), Validator: true}
	if err := r.client(val).Register(t.Context(), smallNet, ask); !client.IsCode(err, "operator_only") {
		t.Fatalf("a stranger asked for a permit: %v", err)
	}
	if err := r.client(r.Operator.Hotkey).Register(t.Context(), smallNet, ask); err != nil {
		t.Fatal(err)
	}
	m, err := r.client(nil).Ledger(t.Context(), smallNet)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range m.Neurons {
		if n.Hotkey == val.SS58() && n.Validator && n.Coldkey == cold.SS58() {
			return
		}
	}
	t.Error("the operator's registration is not there")
}

// Open registration is for one machine; a word that is not a mode is refused.
func TestOpenRegistrationIsForLoopback(t *testing.T) {
	o := testOptions(t.TempDir())
	o.Arenas, o.Registration, o.Listen = []string{smallArena(t, "small/interval-merge")}, local.RegistrationOpen, "0.0.0.0:0"
	s, err := openArenas(t.Context(), o)
	var e *agon.Error
	if !errors.As(err, &e) || e.Field != "registration" {
		if err == nil {
			s.close()
		}
		t.Fatalf("open registration on every address: %v", err)
	}
	if _, err := local.ParseRegistration("anybody"); !errors.As(err, &e) || e.Field != "registration" {
		t.Error(err)
	}
	for listen, want := range map[string]bool{"127.0.0.1:1": true, "[::1]:1": true, "localhost:1": true, ":8900": false, "0.0.0.0:1": false, "10.0.0.1:1": false, "x": false} {
		if loopback(listen) != want {
			t.Errorf("loopback(%q) is %v", listen, !want)
		}
	}
}

// An arena's second mechanism is made on the server's own ledger, and one that no
// subnet there can have is refused by the name of the file's field.
func TestArenaOnAMechanism(t *testing.T) {
	r := newRegistry(t, t.TempDir(), local.RegistrationOperator)
	for _, mechanism := range []uint8{1, 0, 1} {
		if err := r.ensureSubnet(t.Context(), agon.Arena{ID: "x", Netuid: smallNet, Mechanism: mechanism}, nil); err != nil {
			t.Fatal(err)
		}
		if m, err := r.Ledger.Metagraph(t.Context(), smallNet); err != nil || len(m.Mechanisms) != 1 {
			t.Errorf("an arena on mechanism %d: %d besides the first, %v", mechanism, len(m.Mechanisms), err)
		}
	}
	var bad *agon.Error
	if err := r.ensureSubnet(t.Context(), agon.Arena{ID: "x", Netuid: smallNet, Mechanism: 2}, nil); !errors.As(err, &bad) || bad.Field != "mechanism" {
		t.Errorf("an arena on a third mechanism: %v", err)
	}
}
