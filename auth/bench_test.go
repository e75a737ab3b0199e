package auth

import (
	"runtime"
	"syscall"
	"testing"
	"time"
)

// benchCPU runs f and reports what it costs of one core, next to the time that
// passed: on a busy machine only the former says something about the code.
func benchCPU(b *testing.B, f func()) {
	b.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := threadTime(b)
	n := 0
	for b.Loop() {
		f()
		n++
	}
	used := threadTime(b) - before
	if used > 0 && n > 0 {
		b.ReportMetric(float64(used)/float64(n), "cpu-ns/op")
		b.ReportMetric(float64(n)/used.Seconds(), "op/s/core")
	}
}

// threadTime is the processor time of this thread.
func threadTime(b *testing.B) time.Duration {
	b.Helper()
	const thisThread = 1 // RUSAGE_THREAD
	var u syscall.Rusage
	if err := syscall.Getrusage(thisThread, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func BenchmarkSign(b *testing.B) {
	k, msg := mustURI(b, "//Alice"), []byte("hello arena")
	benchCPU(b, func() {
		if _, err := k.Sign(msg); err != nil {
			b.Fatal(err)
		}
	})
}

func BenchmarkVerify(b *testing.B) {
	k, msg := mustURI(b, "//Alice"), []byte("hello arena")
	sig, err := k.Sign(msg)
	if err != nil {
		b.Fatal(err)
	}
	benchCPU(b, func() {
		if err := Verify(aliceSS58, msg, sig); err != nil {
			b.Fatal(err)
		}
	})
}
