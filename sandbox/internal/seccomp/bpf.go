package seccomp

import (
	"bytes"
	"encoding/binary"
	"sync"

	"golang.org/x/sys/unix"
)

// Offsets in struct seccomp_data, little-endian.
const (
	offNr   = 0
	offArch = 4
	offArgs = 16 // low half of argument i is at offArgs + 8*i
)

const (
	retAllow    = 0x7fff0000 // SECCOMP_RET_ALLOW
	retErrno    = 0x00050000 // SECCOMP_RET_ERRNO
	retKill     = 0x80000000 // SECCOMP_RET_KILL_PROCESS
	retEPERM    = retErrno | uint32(unix.EPERM)
	retNoFamily = retErrno | uint32(unix.EAFNOSUPPORT)
	retDone     = retErrno // nothing is done, and the caller hears that it was
	retENOSYS   = retErrno | uint32(unix.ENOSYS)
)

func load(off uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: off}
}

func ret(k uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: k}
}

func jump(op uint16, k uint32, jt, jf uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | op | unix.BPF_K, K: k, Jt: jt, Jf: jf}
}

// span is a run of call numbers.
type span struct{ lo, hi uint32 }

// Program returns the policy as classic BPF instructions.
//
// Each block below either returns or falls through to the next with the call
// number in the accumulator, so that no jump is longer than a block.
func Program() []unix.SockFilter {
	p := []unix.SockFilter{
		load(offArch),
		jump(unix.BPF_JEQ, auditArch, 1, 0),
		ret(retKill), // a 32-bit call on a 64-bit kernel has other numbers
		load(offNr),
	}
	// clone without namespace flags
	p = append(p,
		jump(unix.BPF_JEQ, unix.SYS_CLONE, 0, 4),
		load(offArgs),
		jump(unix.BPF_JSET, newNamespaces, 0, 1),
		ret(retEPERM),
		ret(retAllow),
	)
	p = append(p, jump(unix.BPF_JEQ, unix.SYS_CLONE3, 0, 1), ret(retENOSYS))
	p = append(p,
		jump(unix.BPF_JEQ, unix.SYS_SOCKETPAIR, 0, 4),
		load(offArgs),
		jump(unix.BPF_JEQ, unix.AF_UNIX, 0, 1),
		ret(retAllow),
		ret(retEPERM),
	)
	var sock []unix.SockFilter
	for _, k := range socketKinds {
		sock = append(sock,
			load(offArgs), jump(unix.BPF_JEQ, k.family, 0, 3),
			load(offArgs+16), jump(unix.BPF_JEQ, k.protocol, 0, 1),
			ret(retAllow),
		)
	}
	// What the families of a kernel without them answer: programs then go on without, such as
	// useradd without an audit log, which takes EPERM for an error.
	sock = append(sock, ret(retNoFamily))
	p = append(p, jump(unix.BPF_JEQ, unix.SYS_SOCKET, 0, uint8(len(sock))))
	p = append(p, sock...)
	for _, r := range rules {
		p = append(p, r.block(r.call)...)
	}
	for _, n := range denied {
		p = append(p, jump(unix.BPF_JEQ, n, 0, 1), ret(retEPERM))
	}
	for _, s := range spans() {
		p = append(p,
			jump(unix.BPF_JGT, s.hi, 2, 0), // past this span: try the next
			jump(unix.BPF_JGE, s.lo, 0, 1), // below it: in no span at all
			ret(retAllow),
		)
	}
	return append(p, ret(retENOSYS))
}

// block returns the rule's verdict on calls that it fits, and goes on with the
// call number in the accumulator on others.
func (r rule) block(nr uint32) []unix.SockFilter {
	var body []unix.SockFilter
	for _, a := range r.when {
		at := offArgs + 8*a.arg
		if a.set {
			// A pointer: one half of it is enough.
			body = append(body, load(at), jump(unix.BPF_JEQ, 0, 0, 2), load(at+4), jump(unix.BPF_JEQ, 0, miss, 0))
			continue
		}
		body = append(body, load(at), jump(unix.BPF_JEQ, a.is, 0, miss))
	}
	body = append(body, ret(r.verdict))
	for i := range body { // what does not fit goes to the reload behind the verdict
		if body[i].Jt == miss {
			body[i].Jt = uint8(len(body) - 1 - i)
		}
		if body[i].Jf == miss {
			body[i].Jf = uint8(len(body) - 1 - i)
		}
	}
	out := append([]unix.SockFilter{jump(unix.BPF_JEQ, nr, 0, uint8(len(body)+1))}, body...)
	return append(out, load(offNr))
}

// miss stands for a jump behind a rule's verdict until the block is complete.
const miss = 255

// spans merges the allowed numbers into runs, ascending.
func spans() []span {
	var out []span
	for _, n := range allowed() {
		if l := len(out); l > 0 && out[l-1].hi+1 == n {
			out[l-1].hi = n
			continue
		}
		out = append(out, span{n, n})
	}
	return out
}

// Bytes returns Program as the bytes of struct sock_filter, which is the form that
// bwrap --seccomp and the first process of a box read. Not to be changed.
func Bytes() []byte { return encoded() }

var encoded = sync.OnceValue(func() []byte { return encode(Program()) })

func encode(p []unix.SockFilter) []byte {
	var b bytes.Buffer
	for _, f := range p {
		_ = binary.Write(&b, binary.NativeEndian, f) // a bytes.Buffer never fails
	}
	return b.Bytes()
}
