// Command gsrpc lets go-substrate-rpc-client read a ledger and land extrinsics on
// it: gsrpc URL. It is a module of its own: the client stays out of agon's
// dependencies. It prints one line of JSON.
//
// The client knows no CheckMetadataHash: as on the chain, its user adds the byte
// of that extension, and what it adds to the signed bytes.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	gsrpc "github.com/centrifuge/go-substrate-rpc-client/v4"
	"github.com/centrifuge/go-substrate-rpc-client/v4/signature"
	"github.com/centrifuge/go-substrate-rpc-client/v4/types"
	"github.com/centrifuge/go-substrate-rpc-client/v4/types/codec"
)

func main() {
	out := map[string]string{}
	if err := run(os.Args[1], out); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if err := json.NewEncoder(os.Stdout).Encode(out); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// account is System.Account as Bittensor has it: balances of 64 bits.
type account struct {
	Nonce, Consumers, Providers, Sufficients types.U32
	Free, Reserved, Frozen                   types.U64
	Flags                                    types.U128
}

type client struct {
	api     *gsrpc.SubstrateAPI
	meta    *types.Metadata
	genesis types.Hash
	version *types.RuntimeVersion
}

func run(url string, out map[string]string) error {
	c := client{}
	var err error
	if c.api, err = gsrpc.NewSubstrateAPI(url); err != nil {
		return err
	}
	if c.meta, err = c.api.RPC.State.GetMetadataLatest(); err != nil {
		return err
	}
	if c.genesis, err = c.api.RPC.Chain.GetBlockHash(0); err != nil {
		return err
	}
	if c.version, err = c.api.RPC.State.GetRuntimeVersionLatest(); err != nil {
		return err
	}
	call := func(name string, f func() error) {
		if err := f(); err != nil {
			out[name] = err.Error()
		} else {
			out[name] = "ok"
		}
	}
	cold, err := signature.KeyringPairFromSecret("//Charlie", 42)
	if err != nil {
		return err
	}
	hot, err := signature.KeyringPairFromSecret("//Charlie//hot", 42)
	if err != nil {
		return err
	}
	hotID, err := types.NewAccountID(hot.PublicKey)
	if err != nil {
		return err
	}
	var before account
	call("balance", func() error { return c.get(&before, "System", "Account", cold.PublicKey) })
	call("tempo", func() error {
		var tempo types.U16
		if err := c.get(&tempo, "SubtensorModule", "Tempo", le16(1)); err != nil || tempo == 0 {
			return fmt.Errorf("tempo %d: %w", tempo, errors.Join(err))
		}
		return nil
	})
	call("register", func() error {
		return c.send(cold, "SubtensorModule.burned_register", types.NewU16(1), *hotID)
	})
	call("keys", func() error {
		var key types.AccountID
		if err := c.get(&key, "SubtensorModule", "Keys", le16(1), le16(1)); err != nil || key != *hotID {
			return fmt.Errorf("uid 1 is %x: %w", key, errors.Join(err))
		}
		return nil
	})
	call("set_commitment", func() error {
		return c.send(hot, "Commitments.set_commitment", types.NewU16(1), []raw5{{6, [5]byte{'h', 'e', 'l', 'l', 'o'}}})
	})
	call("transfer", func() error {
		to, err := types.NewMultiAddressFromAccountID(hot.PublicKey)
		if err != nil {
			return err
		}
		if err := c.send(cold, "Balances.transfer_keep_alive", to, types.NewUCompactFromUInt(1_000_000_000)); err != nil {
			return err
		}
		var after account
		if err := c.get(&after, "System", "Account", cold.PublicKey); err != nil || after.Free != before.Free-1_000_000_000 || after.Nonce != 2 {
			return fmt.Errorf("the account was %+v and is %+v: %w", before, after, errors.Join(err))
		}
		return nil
	})
	call("registration of a known key is refused by name", func() error {
		err := c.send(cold, "SubtensorModule.burned_register", types.NewU16(1), *hotID)
		var failed refused
		if !errors.As(err, &failed) || failed.name != "HotKeyAlreadyRegisteredInSubNet" {
			return fmt.Errorf("%w", errors.Join(err, errors.New("want another refusal")))
		}
		return nil
	})
	call("headers", func() error { return c.headers() })
	return nil
}

// raw5 is a committed field of five bytes, which is case 6 of its form.
type raw5 struct {
	Case byte
	Text [5]byte
}

func le16(n uint16) []byte { return []byte{byte(n), byte(n >> 8)} }

func (c client) get(v any, pallet, item string, keys ...[]byte) error {
	key, err := types.CreateStorageKey(c.meta, pallet, item, keys...)
	if err != nil {
		return err
	}
	ok, err := c.api.RPC.State.GetStorageLatest(key, v)
	if err == nil && !ok {
		err = errors.New("no value")
	}
	return err
}

// headers follows the parents of the newest blocks.
func (c client) headers() error {
	head, err := c.api.RPC.Chain.GetHeaderLatest()
	if err != nil {
		return err
	}
	for n := uint64(head.Number); n > 0; n-- {
		hash, err := c.api.RPC.Chain.GetBlockHash(n - 1)
		if err != nil {
			return err
		}
		if hash != head.ParentHash {
			return fmt.Errorf("block %d: its parent is %x, the block before is %x", n, head.ParentHash, hash)
		}
		if head, err = c.api.RPC.Chain.GetHeader(hash); err != nil {
			return err
		}
	}
	return nil
}

// refused is an extrinsic that its block has, with an error.
type refused struct{ name string }

func (r refused) Error() string { return r.name }

// send signs a call, sends it, and waits until its block is final.
func (c client) send(who signature.KeyringPair, name string, args ...any) error {
	call, err := types.NewCall(c.meta, name, args...)
	if err != nil {
		return err
	}
	body, err := codec.Encode(call)
	if err != nil {
		return err
	}
	var state account
	key, err := types.CreateStorageKey(c.meta, "System", "Account", who.PublicKey)
	if err != nil {
		return err
	}
	if _, err := c.api.RPC.State.GetStorageLatest(key, &state); err != nil {
		return err
	}
	nonce := types.NewUCompactFromUInt(uint64(state.Nonce))
	extra, err := codec.Encode(struct {
		Era        types.ExtrinsicEra
		Nonce, Tip types.UCompact
		Mode       types.U8 // of CheckMetadataHash: none
	}{types.ExtrinsicEra{IsImmortalEra: true}, nonce, types.NewUCompactFromUInt(0), 0})
	if err != nil {
		return err
	}
	more, err := codec.Encode(struct {
		Spec, Tx       types.U32
		Genesis, Birth types.Hash
		Metadata       types.U8
	}{c.version.SpecVersion, c.version.TransactionVersion, c.genesis, c.genesis, 0})
	if err != nil {
		return err
	}
	sig, err := signature.Sign(append(append(append([]byte{}, body...), extra...), more...), who.URI)
	if err != nil {
		return err
	}
	signer, err := types.NewMultiAddressFromAccountID(who.PublicKey)
	if err != nil {
		return err
	}
	x := types.NewExtrinsic(call)
	x.Version |= types.ExtrinsicBitSigned
	x.Signature = types.ExtrinsicSignatureV4{
		Signer: signer, Signature: types.MultiSignature{IsSr25519: true, AsSr25519: types.NewSignature(sig)},
		Era: types.ExtrinsicEra{IsImmortalEra: true}, Nonce: nonce, Tip: types.NewUCompactFromUInt(0),
	}
	// The byte of the mode stands between the tip and the call.
	x.Method = types.Call{CallIndex: types.CallIndex{SectionIndex: 0, MethodIndex: body[0]}, Args: body[1:]}
	sub, err := c.api.RPC.Author.SubmitAndWatchExtrinsic(x)
	if err != nil {
		return err
	}
	defer sub.Unsubscribe()
	for {
		select {
		case err := <-sub.Err():
			return errors.Join(err, errors.New("the watch ended"))
		case status := <-sub.Chan():
			if status.IsFinalized {
				return c.outcome(status.AsFinalized)
			}
		}
	}
}

// outcome reads the last event of the block, that of the extrinsic's end.
func (c client) outcome(block types.Hash) error {
	key, err := types.CreateStorageKey(c.meta, "System", "Events")
	if err != nil {
		return err
	}
	raw, err := c.api.RPC.State.GetStorageRaw(key, block)
	if err != nil {
		return err
	}
	for _, p := range c.meta.AsMetadataV14.Pallets {
		if !p.HasErrors || p.Name != "SubtensorModule" {
			continue
		}
		variants := c.meta.AsMetadataV14.EfficientLookup[p.Errors.Type.Int64()].Def.Variant.Variants
		for _, v := range variants {
			// System.ExtrinsicFailed of Module{index, error}.
			mark := []byte{0, 1, 3, byte(p.Index), byte(v.Index), 0, 0, 0}
			if contains(*raw, mark) {
				return refused{string(v.Name)}
			}
		}
	}
	if !contains(*raw, []byte{0, 0}) {
		return errors.New("no outcome")
	}
	return nil
}

func contains(b, part []byte) bool {
	for i := 0; i+len(part) <= len(b); i++ {
		if string(b[i:i+len(part)]) == string(part) {
			return true
		}
	}
	return false
}
