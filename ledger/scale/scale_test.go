package scale

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/agon-arena/agon/calc"
)

const (
	alice    = "5GrwvaEF5zXb26Fz9rcQpDWS57CtERHpNehXCPcNoHGKutQY"
	aliceHex = "d43593c715fdd31c61141abd04a99fd6822c8558854ccde39a5684e7a56da27d"
)

var cache sync.Map

func metadata(t testing.TB, spec int) *Metadata {
	t.Helper()
	if m, ok := cache.Load(spec); ok {
		return m.(*Metadata)
	}
	b, err := os.ReadFile(fmt.Sprintf("testdata/spec-%d.scale", spec))
	if err != nil {
		t.Fatal(err)
	}
	m, err := Decode(b)
	if err != nil {
		t.Fatalf("spec %d: %v", spec, err)
	}
	cache.Store(spec, m)
	return m
}

func parse(t testing.TB, s string) any {
	t.Helper()
	v, err := ParseJSON([]byte(s))
	if err != nil {
		t.Fatalf("%s: %v", s, err)
	}
	return v
}

// TestIndices holds what moves between releases against what is known of each.
func TestIndices(t *testing.T) {
	for _, x := range []struct {
		spec, version int
		fast          uint8 // SettingWeightsTooFast
		pallets       map[string]uint8
		calls         map[string]uint8 // of SubtensorModule
		extensions    string
		fields        uint64 // Commitments.MaxFields
	}{
		{
			218, 14, 30,
			map[string]uint8{"SubtensorModule": 7},
			map[string]uint8{"set_weights": 0, "add_stake": 2, "serve_axon": 4, "burned_register": 7, "serve_axon_tls": 40, "commit_weights": 96, "reveal_weights": 97, "batch_reveal_weights": 98},
			"ChargeTransactionPayment SubtensorSignedExtension CommitmentsSignedExtension CheckMetadataHash", 1,
		},
		{
			393, 16, 28,
			map[string]uint8{"SubtensorModule": 7, "Registry": 17, "Commitments": 18, "Drand": 26},
			map[string]uint8{
				"set_weights": 0, "set_mechanism_weights": 119, "batch_set_weights": 80, "commit_weights": 96, "commit_mechanism_weights": 115, "reveal_weights": 97, "reveal_mechanism_weights": 116,
				"batch_reveal_weights": 98, "commit_timelocked_weights": 113, "commit_timelocked_mechanism_weights": 118, "burned_register": 7, "serve_axon": 4, "serve_axon_tls": 40, "add_stake": 2,
				"add_stake_limit": 88, "remove_stake_limit": 89,
			},
			"CheckNonZeroSender CheckSpecVersion CheckTxVersion CheckGenesis CheckMortality CheckNonce CheckWeight ChargeTransactionPayment SudoTransactionExtension CheckShieldedTxValidity SubtensorTransactionExtension DrandPriority CheckMetadataHash", 3,
		},
		{
			424, 16, 29,
			map[string]uint8{
				"System": 0, "RandomnessCollectiveFlip": 1, "Timestamp": 2, "Aura": 3, "Grandpa": 4, "Balances": 5, "TransactionPayment": 6, "SubtensorModule": 7, "Utility": 11, "Sudo": 12,
				"Multisig": 13, "Preimage": 14, "Scheduler": 15, "Proxy": 16, "Commitments": 18, "AdminUtils": 19, "SafeMode": 20, "Ethereum": 21, "EVM": 22, "EVMChainId": 23, "BaseFee": 25,
				"Drand": 26, "Crowdloan": 27, "Swap": 28, "Contracts": 29, "MevShield": 30, "AlphaAssets": 31, "LimitOrders": 32,
			},
			map[string]uint8{
				"set_weights": 0, "set_mechanism_weights": 119, "batch_set_weights": 80, "commit_timelocked_weights": 113, "commit_timelocked_mechanism_weights": 118, "register_limit": 134,
				"set_tempo": 139, "set_activity_cutoff_factor": 140, "trigger_epoch": 141,
			},
			"CheckNonZeroSender CheckSpecVersion CheckTxVersion CheckGenesis CheckMortality CheckNonce CheckWeight ChargeTransactionPayment SudoTransactionExtension CheckShieldedTxValidity SubtensorTransactionExtension DrandPriority CheckMetadataHash", 3,
		},
	} {
		t.Run(fmt.Sprint(x.spec), func(t *testing.T) {
			m := metadata(t, x.spec)
			if m.Version != x.version {
				t.Errorf("version %d", m.Version)
			}
			for name, index := range x.pallets {
				if p, err := m.Pallet(name); err != nil || p.Index != index {
					t.Errorf("%s: %v %v, want %d", name, p, err, index)
				}
			}
			for name, index := range x.calls {
				if _, c, err := m.Call("SubtensorModule", name); err != nil || c.Index != index {
					t.Errorf("%s: %v %v, want %d", name, c, err, index)
				}
			}
			var names []string
			for _, e := range m.Extensions {
				names = append(names, e.Name)
			}
			if got := strings.Join(names, " "); !strings.HasSuffix(got, x.extensions) {
				t.Errorf("extensions %s", got)
			}
			if _, name, _ := m.ModuleError(7, x.fast); name != "SettingWeightsTooFast" {
				t.Errorf("error 7,%d is %s", x.fast, name)
			}
			if n, err := m.Constant("Commitments", "MaxFields"); err != nil || n != x.fields {
				t.Errorf("MaxFields %v %v", n, err)
			}
			if m.CallType == nil || m.EventType == nil {
				t.Error("no outer types")
			}
		})
	}
	m := metadata(t, 424)
	for index, name := range map[uint8]string{
		4: "HotKeyNotRegisteredInSubNet", 10: "NotEnoughStakeToSetWeights", 15: "NeuronNoValidatorPermit", 16: "WeightVecNotEqualSize", 17: "DuplicateUids",
		18: "UidVecContainInvalidOne", 19: "WeightVecLengthIsLow", 27: "MaxWeightExceeded", 30: "IncorrectWeightVersionKey", 31: "ServingRateLimitExceeded",
		32: "UidsLengthExceedUidsInSubNet", 51: "NoWeightsCommitFound", 52: "InvalidRevealCommitHashNotMatch", 53: "CommitRevealEnabled", 54: "CommitRevealDisabled",
		74: "MechanismDoesNotExist", 77: "TooManyUnrevealedCommits", 78: "ExpiredWeightCommit", 79: "RevealTooEarly", 81: "CommittingWeightsTooFast",
		110: "IncorrectCommitRevealVersion", 111: "InvalidRevealRound", 134: "RegistrationPriceLimitExceeded",
	} {
		if _, got, ok := m.ModuleError(7, index); !ok || got != name {
			t.Errorf("error 7,%d is %s, want %s", index, got, name)
		}
	}
	if _, name, _ := m.ModuleError(18, 2); name != "SpaceLimitExceeded" {
		t.Errorf("error 18,2 is %s", name)
	}
	for name, index := range map[string]uint8{
		"sudo_set_weights_version_key": 6, "sudo_set_weights_set_rate_limit": 7, "sudo_set_immunity_period": 13, "sudo_set_min_allowed_weights": 14, "sudo_set_kappa": 16,
		"sudo_set_commit_reveal_weights_enabled": 49, "sudo_set_commit_reveal_weights_interval": 57, "sudo_set_liquid_alpha_enabled": 50, "sudo_set_yuma3_enabled": 69,
		"sudo_set_mechanism_count": 76, "sudo_set_mechanism_emission_split": 77, "sudo_set_recycle_or_burn": 80,
	} {
		if _, c, err := m.Call("AdminUtils", name); err != nil || c.Index != index {
			t.Errorf("AdminUtils.%s: %v %v, want %d", name, c, err, index)
		}
	}
}

type callVector struct{ Pallet, Call, Args, Hex string }

// callVectors are those of chain.md 2.3, checked there with polkadot-js.
var callVectors = []callVector{
	{"SubtensorModule", "set_weights", `{"netuid":3,"dests":[1,2,3],"weights":[100,65535,7],"version_key":0}`, "070003000c0100020003000c6400ffff07000000000000000000"},
	{"SubtensorModule", "set_mechanism_weights", `{"netuid":3,"mecid":0,"dests":[1,2,3],"weights":[100,65535,7],"version_key":10001}`, "07770300000c0100020003000c6400ffff07001127000000000000"},
	{"SubtensorModule", "commit_timelocked_weights", `{"netuid":3,"commit":"0xdeadbeef","reveal_round":30668812,"commit_reveal_version":4}`, "0771030010deadbeef0cf8d301000000000400"},
	{"SubtensorModule", "commit_timelocked_mechanism_weights", `{"netuid":3,"mecid":1,"commit":"0xdeadbeef","reveal_round":30668812,"commit_reveal_version":4}`, "077603000110deadbeef0cf8d301000000000400"},
	{"SubtensorModule", "burned_register", `[3,"` + alice + `"]`, "07070300" + aliceHex},
	{"SubtensorModule", "serve_axon", `{"netuid":3,"version":10001000,"ip":3221225985,"port":8091,"ip_type":4,"protocol":4,"placeholder1":0,"placeholder2":0}`, "07040300689a9800010200c00000000000000000000000009b1f04040000"},
	{"SubtensorModule", "batch_set_weights", `[[1,300],[[[1,65535],[300,5]],[]],[0,70000]]`, "07500804b104080804feff0300b10414000800c2450400"},
	{"Commitments", "set_commitment", `{"netuid":3,"info":{"fields":[{"Raw":"hello"}]}}`, "120003000406" + "68656c6c6f"},
	{"Commitments", "set_commitment", `{"netuid":3,"info":{"fields":[{"Raw5":"0x68656c6c6f"}]}}`, "120003000406" + "68656c6c6f"},
	{"Commitments", "set_commitment", `{"netuid":3,"info":{"fields":[{"Sha256":"` + strings.Repeat("11", 32) + `"}]}}`, "120003000483" + strings.Repeat("11", 32)},
	{"Commitments", "set_commitment", `{"netuid":3,"info":{"fields":[{"TimelockEncrypted":{"encrypted":"0xdeadbeef","reveal_round":30668812}},"ResetBondsFlag"]}}`, "12000300088610deadbeef0cf8d3010000000087"},
	{"Commitments", "set_commitment", `{"netuid":3,"info":{"fields":[{"BigRaw":"0x` + strings.Repeat("ab", 200) + `"}]}}`, "1200030004882103" + strings.Repeat("ab", 200)},
	{
		"Utility", "batch_all", `{"calls":[{"SubtensorModule":{"set_weights":{"netuid":3,"dests":[1],"weights":[2],"version_key":0}}},{"Commitments":{"set_commitment":{"netuid":3,"info":{"fields":[{"Raw":"a"}]}}}}]}`,
		"0b02080700030004010004020000000000000000" + "00" + "12000300040261",
	},
	{"Balances", "transfer_keep_alive", `["5FHneW46xGXgs5mUiveU4sbTyGBzmstUspZC92UhjJM694ty",1000000000]`, "0503008eaf04151687736326c9fea17e25fc5287613693c912909cb226aa4794f26a4802286bee"},
}

func TestCalls(t *testing.T) {
	for _, spec := range []int{393, 424} {
		m := metadata(t, spec)
		for _, x := range callVectors {
			b, err := m.EncodeCall(x.Pallet, x.Call, parse(t, x.Args))
			if err != nil || hex.EncodeToString(b) != x.Hex {
				t.Errorf("%d %s %s:\n %x %v\nwant %s", spec, x.Call, x.Args, b, err, x.Hex)
				continue
			}
			v, err := DecodeAll(m.CallType, b)
			if err != nil {
				t.Errorf("%s read back: %v", x.Call, err)
				continue
			}
			j, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			again, err := Encode(nil, m.CallType, parse(t, string(j)))
			if err != nil || !bytes.Equal(again, b) {
				t.Errorf("%s by its JSON %s: %x %v", x.Call, j, again, err)
			}
		}
	}
}

func TestCallRefused(t *testing.T) {
	m := metadata(t, 424)
	for _, x := range []struct{ call, args, want string }{
		{"set_weights", `{"netuid":3}`, "field dests is missing"},
		{"set_weights", `{"netuid":3,"dests":[],"weights":[],"version_key":0,"x":1}`, "field x is unknown"},
		{"set_weights", `[65536,[],[],0]`, "65536 does not fit u16"},
		{"set_weights", `[-1,[],[],0]`, "-1 does not fit u16"},
		{"set_weights", `[1.5,[],[],0]`, "1.5 is not a whole number"},
		{"set_weights", `[1,[],[]]`, "does not fit"},
		{"burned_register", `[3,"16ADqpMa4yzfmWs3nuTSMhfZ2ckeGtvqhPWCNqECEGDcGgU2"]`, "address prefix 0"},
		{"no_such_call", `[]`, "not in the metadata"},
	} {
		if b, err := m.EncodeCall("SubtensorModule", x.call, parse(t, x.args)); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s %s: %x %v, want %q", x.call, x.args, b, err, x.want)
		}
	}
	if _, err := m.EncodeCall("Commitments", "set_commitment", parse(t, `[3,{"fields":[{"Raw":"`+strings.Repeat("x", 129)+`"}]}]`)); err == nil {
		t.Error("129 bytes as Raw")
	}
}

var keyVectors = []struct{ pallet, item, keys, hex string }{
	{"SubtensorModule", "Tempo", `[3]`, "658faa385070e074c85bf6b568cf05557641384bb339f3758acddfd7053d33170300"},
	{"SubtensorModule", "Keys", `[3,7]`, "658faa385070e074c85bf6b568cf05559f99a2ce711f3a31b2fc05604c93f17903000700"},
	{"SubtensorModule", "Uids", `[3,"` + alice + `"]`, "658faa385070e074c85bf6b568cf0555aab1b4e78e1ea8305462ee53b3686dc80300de1e86a9a8c739864cf3cc5ec2bea59f" + aliceHex},
	{"Commitments", "CommitmentOf", `[3,"` + alice + `"]`, "ca407206ec1ab726b2636c4b145ac287419a60ae8b01e6dcaebd7317e43c69bf0300518366b5b1bc7c99" + aliceHex},
	{"System", "Account", `["0x` + aliceHex + `"]`, "26aa394eea5630e07c48ae0c9558cef7b99d880ec681799c0cf30e8886371da9de1e86a9a8c739864cf3cc5ec2bea59f" + aliceHex},
	{"SubtensorModule", "TotalHotkeyAlpha", `["` + alice + `",3]`, "658faa385070e074c85bf6b568cf0555ee25c3b5b1886863480497907f1829e6de1e86a9a8c739864cf3cc5ec2bea59f" + aliceHex + "0300"},
	{"SubtensorModule", "TimelockedWeightCommits", `[4099,9]`, "658faa385070e074c85bf6b568cf0555119e1c428ff5c7c6dac4c888a10d14434a5e4221e14194ee03108cc95d144a400cb10900000000000000"},
	{"Drand", "Pulses", `[30668812]`, "a285cdb66e8b8524ea70b1693c7b1e050d8e70fd32bfb1639703f9a23d15b15eb12c93e22f1ff9c5ecb591bbfc15619e0cf8d30100000000"},
	{"SubtensorModule", "RevealPeriodEpochs", `[3]`, "658faa385070e074c85bf6b568cf05558f232bcbac768c1d6201850c60f161ed26d32ff00fa1e4fa0300"},
}

func TestStorageKeys(t *testing.T) {
	m := metadata(t, 424)
	for _, x := range keyVectors {
		keys := parse(t, x.keys).([]any)
		b, err := m.StorageKey(x.pallet, x.item, keys...)
		if err != nil || hex.EncodeToString(b) != x.hex {
			t.Errorf("%s %s: %x %v, want %s", x.item, x.keys, b, err, x.hex)
			continue
		}
		back, err := m.SplitKey(x.pallet, x.item, b)
		if err != nil || len(back) != len(keys) || back[0] == nil {
			t.Errorf("%s: read back %v %v", x.item, back, err)
		}
		b[40%len(b)] ^= 1
		if _, err := m.SplitKey(x.pallet, x.item, b[:len(b)-1]); err == nil {
			t.Errorf("%s: a key that is cut is read", x.item)
		}
	}
	if b, err := m.StorageKey("SubtensorModule", "Keys", uint64(3)); err != nil || len(b) != 34 {
		t.Errorf("prefix %x %v", b, err)
	}
	if _, err := m.StorageKey("SubtensorModule", "Tempo", 1, 2); err == nil {
		t.Error("too many keys")
	}
}

func TestHashers(t *testing.T) {
	sizes := map[Hasher]int{Blake2_128: 16, Blake2_256: 32, Blake2_128Concat: 19, Twox128: 16, Twox256: 32, Twox64Concat: 11, Identity: 3}
	for h, want := range sizes {
		if got := h.Hash([]byte("abc")); len(got) != want {
			t.Errorf("hasher %d gives %d bytes, want %d", h, len(got), want)
		}
	}
	if got := hex.EncodeToString(Blake2_256.Hash([]byte("abc"))); got != "bddd813c634239723171ef3fee98579b94964e3bb1cb3e427262c8c068d52319" {
		t.Errorf("blake2_256 %s", got)
	}
}

func TestStorageValues(t *testing.T) {
	m := metadata(t, 424)
	// chain.md 2.6: real storage after a commitment at block 27.
	raw, _ := hex.DecodeString("0000000000000000" + "1b000000" + "0412" + "6d7c7368613235363a6465616462656566")
	v, err := m.DecodeStorage("Commitments", "CommitmentOf", raw)
	if err != nil {
		t.Fatal(err)
	}
	j, _ := json.Marshal(v)
	if string(j) != `{"block":27,"deposit":0,"info":{"fields":[{"Raw17":"0x6d7c7368613235363a6465616462656566"}]}}` {
		t.Errorf("commitment %s", j)
	}
	for item, want := range map[string]any{
		"Kappa": uint64(32767), "ImmunityPeriod": uint64(4096), "MinAllowedWeights": uint64(1024), "WeightsSetRateLimit": uint64(100), "MaxAllowedValidators": uint64(128),
		"BondsMovingAverage": uint64(900000), "BondsPenalty": uint64(65535), "CommitRevealWeightsEnabled": true, "RevealPeriodEpochs": uint64(1), "ServingRateLimit": uint64(50),
		"ActivityCutoffFactorMilli": uint64(13889), "SubnetOwnerCut": uint64(11796),
	} {
		if got, err := m.DecodeStorage("SubtensorModule", item, nil); err != nil || got != want {
			t.Errorf("default of %s: %v %v, want %v", item, got, err, want)
		}
	}
	if v, err := m.DecodeStorage("Commitments", "CommitmentOf", nil); v != nil || err != nil {
		t.Errorf("absent commitment: %v %v", v, err)
	}
	if v, err := m.DecodeStorage("System", "Account", make([]byte, 56)); err != nil || v.(Map)["nonce"] != uint64(0) {
		t.Errorf("account %v %v", v, err)
	}
	if _, err := m.DecodeStorage("System", "Account", make([]byte, 57)); err == nil {
		t.Error("a byte too much")
	}
}

func TestAPIs(t *testing.T) {
	for _, spec := range []int{393, 424} {
		m := metadata(t, spec)
		for _, name := range []string{"get_metagraph", "get_selective_metagraph", "get_selective_mechagraph"} {
			x, err := m.Method("SubnetInfoRuntimeApi", name)
			if err != nil {
				t.Fatal(err)
			}
			if inner, ok := x.Output.isOption(); !ok || !strings.HasSuffix(inner.Name(), "etagraph") {
				t.Errorf("%s gives %s", name, x.Output)
			}
		}
	}
	x, _ := metadata(t, 424).Method("SubnetInfoRuntimeApi", "get_selective_metagraph")
	if b, err := x.EncodeInputs(3, []uint16{52, 53}); err != nil || hex.EncodeToString(b) != "03000834003500" {
		t.Errorf("inputs %x %v", b, err)
	}
	inner, _ := x.Output.isOption()
	if n := len(inner.Fields); n < 74 || inner.Fields[52].Name != "hotkeys" || inner.Fields[73].Name != "commitments" {
		t.Errorf("%d fields of a selective metagraph", n)
	}
	if _, err := metadata(t, 218).Method("SubnetInfoRuntimeApi", "get_metagraph"); !errors.Is(err, ErrUnknown) {
		t.Errorf("V14 has APIs: %v", err)
	}
}

func TestCompact(t *testing.T) {
	for n, want := range map[uint64]string{0: "00", 1: "04", 63: "fc", 64: "0101", 16383: "fdff", 16384: "02000100", 1<<30 - 1: "feffffff", 1 << 30: "0300000040", 1<<32 - 1: "03ffffffff", 1 << 32: "070000000001", 1<<64 - 1: "13ffffffffffffffff"} {
		b := AppendCompact(nil, n)
		if hex.EncodeToString(b) != want {
			t.Errorf("%d: %x, want %s", n, b, want)
		}
		r := NewReader(b)
		if got := r.Compact(); got != n || r.End() != nil {
			t.Errorf("%x: %d %v", b, got, r.Err())
		}
	}
	for _, s := range []string{"01", "0100", "02000000", "0300000000", "0301000000", "07000000", "0700000000" + "00", ""} {
		b, _ := hex.DecodeString(s)
		r := NewReader(b)
		if r.Compact(); r.End() == nil {
			t.Errorf("%s is read", s)
		}
	}
	big1, _ := new(big.Int).SetString("340282366920938463463374607431768211455", 10)
	if b := appendCompactBig(nil, big1); NewReader(b).CompactBig().Cmp(big1) != 0 {
		t.Errorf("u128 %x", b)
	}
}

// TestHostile gives what must be refused without much work.
func TestHostile(t *testing.T) {
	m := metadata(t, 424)
	for _, x := range []struct {
		typ, hex string
		want     error
	}{
		{"Vec<u64>", "feffffff", ErrShort},
		{"Vec<()>", "feffffff", ErrLimit},
		{"Vec<Vec<()>>", "04feffffff", ErrLimit},
		{"RuntimeCall", strings.Repeat("0b0004", 500), ErrLimit}, // batch in batch in batch
		{"[(); 4294967295]", "", ErrLimit},
		{"[u64; 4294967295]", "", ErrShort},
		{"Bytes", "13ffffffffffffffff", ErrShort},
	} {
		typ, err := m.Named(x.typ)
		if err != nil {
			t.Errorf("%s: %v", x.typ, err)
			continue
		}
		b, _ := hex.DecodeString(x.hex)
		if v, err := DecodeAll(typ, b); !errors.Is(err, x.want) && !errors.Is(err, ErrShort) {
			t.Errorf("%s %s: %v %v, want %v", x.typ, x.hex[:min(len(x.hex), 20)], v, err, x.want)
		}
	}
	if _, err := Decode(make([]byte, MaxMetadata+1)); !errors.Is(err, ErrLimit) {
		t.Errorf("large metadata: %v", err)
	}
}

// TestCut cuts real metadata and flips its bytes: an error each time or other
// metadata, never a panic.
func TestCut(t *testing.T) {
	for _, spec := range []int{218, 424} {
		b, err := os.ReadFile(fmt.Sprintf("testdata/spec-%d.scale", spec))
		if err != nil {
			t.Fatal(err)
		}
		step := len(b)/60 + 1
		for n := 0; n < len(b); n += step {
			if _, err := Decode(b[:n]); err == nil {
				t.Fatalf("spec %d cut at %d is read", spec, n)
			}
			c := bytes.Clone(b)
			c[n] ^= 0xff
			_, _ = Decode(c)
		}
		wrapped := append([]byte{1}, AppendBlob(nil, b)...)
		if m, err := Decode(wrapped); err != nil || len(m.Pallets) == 0 {
			t.Errorf("wrapped: %v", err)
		}
	}
}

func TestCalc(t *testing.T) {
	reg := calc.New(Rules()...)
	run := func(rule, in string) string {
		var out bytes.Buffer
		if _, err := reg.Run(rule, strings.NewReader(in+"\n"), &out); err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(out.String())
	}
	const file = `"metadata":"testdata/spec-424.scale"`
	for _, x := range callVectors {
		if got := run("chain.call", fmt.Sprintf(`{%s,"pallet":%q,"call":%q,"args":%s}`, file, x.Pallet, x.Call, x.Args)); got != `{"hex":"`+x.Hex+`"}` {
			t.Errorf("%s: %s", x.Call, got)
		}
	}
	for _, x := range keyVectors {
		if got := run("chain.storage_key", fmt.Sprintf(`{%s,"pallet":%q,"item":%q,"keys":%s}`, file, x.pallet, x.item, x.keys)); got != `{"hex":"`+x.hex+`"}` {
			t.Errorf("%s: %s", x.item, got)
		}
	}
	for _, x := range []struct{ in, want string }{
		{`"type":"u16","hex":"0x0300"`, `{"value":3}`},
		{`"type":"Vec<(u16, Compact<u64>)>","hex":"04030004"`, `{"value":[[3,1]]}`},
		{`"type":"AccountId32","hex":"` + aliceHex + `"`, `{"value":"` + alice + `"}`},
		{`"type":"Option<u8>","hex":"00"`, `{"value":null}`},
		{`"type":"u128","hex":"ffffffffffffffffffffffffffffffff"`, `{"value":340282366920938463463374607431768211455}`},
		{`"storage":"SubtensorModule.Kappa","hex":"ff7f"`, `{"value":32767}`},
		{`"storage":"SubtensorModule.Kappa"`, `{"value":32767}`},
		{`"type":"RuntimeCall","hex":"07070300` + aliceHex + `"`, `{"value":{"SubtensorModule":{"burned_register":{"hotkey":"` + alice + `","netuid":3}}}}`},
	} {
		if got := run("chain.decode", "{"+file+","+x.in+"}"); got != x.want {
			t.Errorf("%s: %s, want %s", x.in, got, x.want)
		}
	}
	for _, in := range []string{`{"metadata":"testdata/none","type":"u8","hex":"00"}`, `{` + file + `,"hex":"00"}`, `{` + file + `,"type":"u8","hex":"zz"}`, `{` + file + `,"type":"nothing","hex":"00"}`} {
		if got := run("chain.decode", in); !strings.HasPrefix(got, `{"error"`) {
			t.Errorf("%s: %s", in, got)
		}
	}
}

func FuzzDecode(f *testing.F) {
	b, err := os.ReadFile("testdata/spec-218.scale")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b[:2000])
	f.Add([]byte("meta\x0e\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := Decode(b)
		if err == nil && m.Version < 14 {
			t.Errorf("version %d", m.Version)
		}
	})
}

// FuzzValue reads calls: what is read and written again is the same call.
func FuzzValue(f *testing.F) {
	m := metadata(f, 424)
	for _, x := range callVectors {
		b, _ := hex.DecodeString(x.Hex)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := DecodeAll(m.CallType, b)
		if err != nil {
			return
		}
		again, err := Encode(nil, m.CallType, v)
		if err != nil {
			return // bit sequences are read only
		}
		if !bytes.Equal(again, b) {
			t.Errorf("%x becomes %x by %v", b, again, v)
		}
	})
}

func BenchmarkMetadata(b *testing.B) {
	raw, err := os.ReadFile("testdata/spec-424.scale")
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := Decode(raw); err != nil {
			b.Fatal(err)
		}
	}
}
