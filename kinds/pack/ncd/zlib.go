package ncd

import (
	"fmt"
	"unsafe"

	"modernc.org/libc"
	zlib "modernc.org/z/lib"
)

// chunk is how much the library reads or writes at once, in bytes.
const chunk = 64 << 10

// memory is what a compressor has outside Go's heap. The library keeps
// addresses as integers, which Go's collector does not see.
type memory struct {
	base, work zlib.Z_stream
	version    [8]byte
	in, out    [chunk]byte
}

// compressor measures texts with the zlib that other validators use: another
// one gives other lengths and so other verdicts. Not safe for concurrent use;
// close gives its memory back.
type compressor struct {
	tls      *libc.TLS
	at       uintptr
	m        *memory
	hasBase  bool
	baseText string
}

func newCompressor() *compressor {
	c := &compressor{tls: libc.NewTLS()}
	if c.at = libc.Xcalloc(c.tls, 1, libc.Tsize_t(unsafe.Sizeof(memory{}))); c.at == 0 {
		panic("copycat: out of memory")
	}
	c.m = *(**memory)(unsafe.Pointer(&c.at))
	copy(c.m.version[:], "1.2.11")
	return c
}

func (c *compressor) close() {
	c.dropBase()
	libc.Xfree(c.tls, c.at)
	c.tls.Close()
	c.m = nil
}

func (c *compressor) dropBase() {
	if c.hasBase {
		zlib.XdeflateEnd(c.tls, address(&c.m.base))
		c.hasBase, c.baseText = false, ""
	}
}

func address[T any](p *T) uintptr { return uintptr(unsafe.Pointer(p)) }

// open starts a stream: level 9, window 15, memory 8, the default strategy.
func (c *compressor) open(s *zlib.Z_stream) {
	*s = zlib.Z_stream{}
	if rc := zlib.XdeflateInit_(c.tls, address(s), 9, address(&c.m.version), int32(unsafe.Sizeof(*s))); rc != zlib.Z_OK {
		panic(fmt.Sprintf("copycat: zlib does not start: status %d", rc)) // out of memory, or another library
	}
}

// feed compresses text into nowhere and counts.
func (c *compressor) feed(s *zlib.Z_stream, text string, last bool) {
	for {
		n := copy(c.m.in[:], text)
		text = text[n:]
		s.Fnext_in, s.Favail_in = address(&c.m.in), zlib.UInt(n)
		flush := int32(zlib.Z_NO_FLUSH)
		if last && text == "" {
			flush = zlib.Z_FINISH
		}
		for {
			s.Fnext_out, s.Favail_out = address(&c.m.out), chunk
			rc := zlib.Xdeflate(c.tls, address(s), flush)
			if rc != zlib.Z_OK && rc != zlib.Z_STREAM_END && rc != zlib.Z_BUF_ERROR {
				panic(fmt.Sprintf("copycat: zlib answers status %d", rc))
			}
			if rc != zlib.Z_OK || flush == zlib.Z_NO_FLUSH && s.Favail_out > 0 {
				break
			}
		}
		if text == "" {
			return
		}
	}
}

// size is the length of text, compressed alone.
func (c *compressor) size(text string) int {
	c.open(&c.m.work)
	return c.finish(text)
}

// after is the length of first and second, compressed as one text. The state
// after first is kept for the next call.
func (c *compressor) after(first, second string) int {
	if !c.hasBase || c.baseText != first {
		c.dropBase()
		c.open(&c.m.base)
		c.feed(&c.m.base, first, false)
		c.hasBase, c.baseText = true, first
	}
	if rc := zlib.XdeflateCopy(c.tls, address(&c.m.work), address(&c.m.base)); rc != zlib.Z_OK {
		panic(fmt.Sprintf("copycat: zlib does not copy its state: status %d", rc))
	}
	return c.finish(second)
}

func (c *compressor) finish(text string) int {
	c.feed(&c.m.work, text, true)
	n := int(c.m.work.Ftotal_out)
	zlib.XdeflateEnd(c.tls, address(&c.m.work))
	return n
}
