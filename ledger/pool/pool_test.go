package pool

import (
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/agon-arena/agon/ledger"
)

var top, bottom = OfRao(1_000_000 * Rao), OfRao(1000)

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if math.Abs(got-want) > tolerance*math.Max(1, math.Abs(want)) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func price(r *Reserves) float64 {
	p, _ := new(big.Float).SetInt(r.Price().big()).Float64()
	return p / math.Pow(2, 64)
}

// With equal weights a pool keeps the product of its sides.
func TestEqualWeightsKeepTheProduct(t *testing.T) {
	r := New(1000*Rao, 1000*Rao)
	got, err := r.Buy(100*Rao, top, true)
	if err != nil {
		t.Fatal(err)
	}
	// 1000·(1 − 1000/1100) = 90.909090909 alpha.
	if want := (ledger.Swap{Tao: 100 * Rao, Alpha: 90_909_090_909}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	back, err := r.Sell(got.Alpha, bottom, true)
	if err != nil || back.Tao > 100*Rao || back.Tao < 100*Rao-3 {
		t.Errorf("sold again: %+v, %v", back, err)
	}
	paid, err := r.Buy(100*Rao, top, false)
	if err != nil || paid.Fee != Fee(100*Rao) || paid.Fee != 50_354_772 { // 33/65535
		t.Errorf("fee: %+v, %v", paid, err)
	}
}

// The formulas of a pool with weights, in floating point.
func TestWeightedSwaps(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		x := Reserves{Tao: Rao + r.Uint64N(1e15), Alpha: Rao + r.Uint64N(1e15), Quote: Scale/10 + r.Uint64N(Scale/10*8)}
		w2 := float64(x.Quote) / float64(Scale)
		w1 := 1 - w2
		tao, alpha := float64(x.Tao), float64(x.Alpha)
		near(t, "price", price(&x), w1*tao/(w2*alpha), 1e-9)
		in := 1_000_000 + r.Uint64N(x.Tao*20)
		y := x
		bought, err := y.Buy(in, most, true)
		if err != nil {
			t.Fatal(seed, err)
		}
		near(t, "bought", float64(bought.Alpha), alpha*(1-math.Pow(tao/(tao+float64(in)), w2/w1)), 1e-8)
		z := x
		in = 1_000_000 + r.Uint64N(x.Alpha*20)
		if sold, err := z.Sell(in, Wide{}, true); err != nil && !errors.Is(err, ledger.ErrReservesTooLow) {
			t.Fatal(seed, err)
		} else if err == nil {
			near(t, "sold", float64(sold.Tao), tao*(1-math.Pow(alpha/(alpha+float64(in)), w1/w2)), 1e-8)
		}
		// What comes in beside the price moves the weights, not the price.
		i := x
		i.Inject(r.Uint64N(x.Tao/100), r.Uint64N(x.Alpha/100))
		near(t, "price after an injection", price(&i), price(&x), 1e-9)
	}
}

// Small steps are computed without big numbers, to the same parts of 10^18.
func TestQuickPower(t *testing.T) {
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 2))
		have := Rao + r.Uint64N(1<<60)
		more := r.Uint64N(1 + have>>(6+r.Uint64N(40)))
		n := Scale/10 + r.Uint64N(Scale/10*8)
		got, ok := quickPower(have, more, n, Scale-n)
		a := new(big.Int).SetUint64(have)
		want := power(a, new(big.Int).Add(a, new(big.Int).SetUint64(more)), n, Scale-n)
		if !ok && n <= 8*(Scale-n) || ok && got != want {
			t.Fatalf("(%d/(+%d))^(%d/%d): %d %t, want %d", have, more, n, Scale-n, got, ok, want)
		}
		// And weights: share and side.
		x, y := have, 1+r.Uint64N(1<<62)
		w := new(big.Int).Mul(new(big.Int).SetUint64(x), new(big.Int).SetUint64(y))
		w.Mul(w, new(big.Int).SetUint64(n)).Add(w, new(big.Int).SetUint64(Scale/2)).Quo(w, new(big.Int).SetUint64(Scale))
		s := side(n, x, y)
		if s.big().Cmp(w) != 0 {
			t.Fatalf("side: %v, want %v", s.big(), w)
		}
		sum := s.Add(Wide{r.Uint64() >> r.UintN(64) >> 8, r.Uint64()})
		w.Mul(w, new(big.Int).SetUint64(Scale)).Quo(w, sum.big())
		if share(s, sum) != w.Uint64() {
			t.Fatalf("share: %d, want %v", share(s, sum), w)
		}
	}
}

func TestLimits(t *testing.T) {
	r := New(1000*Rao, 1000*Rao)
	up, err := r.Buy(1000*Rao, OfRao(1_210_000_000), false)
	if err != nil {
		t.Fatal(err)
	}
	// The price is 1.21 when each side has moved by a root of it: 100 TAO, and the fee.
	near(t, "paid", float64(up.Tao-up.Fee), 100*Rao, 1e-8)
	near(t, "price", price(&r), 1.21, 1e-8)
	if up.Fee != MulDiv(up.Tao-up.Fee, FeeRate, 65535-FeeRate) {
		t.Errorf("fee %d of %d", up.Fee, up.Tao)
	}
	before := r
	if _, err := r.Buy(Rao, OfRao(Rao), false); !errors.Is(err, ledger.ErrPriceExceeded) {
		t.Errorf("a limit below the price: %v", err)
	}
	if _, err := r.Sell(Rao, OfRao(2*Rao), false); !errors.Is(err, ledger.ErrPriceExceeded) {
		t.Errorf("a limit above the price: %v", err)
	}
	if _, err := r.Buy(r.Tao*1001, most, true); !errors.Is(err, ledger.ErrSwapInputTooLarge) {
		t.Errorf("too much: %v", err)
	}
	if r != before {
		t.Errorf("a refusal changed the pool: %+v, %+v", before, r)
	}
	down, err := r.Sell(1000*Rao, OfRao(Rao), true)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "back to 1", price(&r), 1, 1e-8)
	near(t, "fetched", float64(down.Tao), 100*Rao, 1e-8)
	empty := New(MinReserve-1, MinReserve-1)
	if _, err := empty.Buy(1000, most, true); !errors.Is(err, ledger.ErrReservesTooLow) {
		t.Errorf("an empty pool: %v", err)
	}
}

// Weights stop at a hundredth: what would move them further is not put in.
func TestInjectionsAreBounded(t *testing.T) {
	r := New(Rao, Rao)
	if tao, alpha := r.Inject(1000*Rao, 0); tao != 0 || alpha != 0 || r != New(Rao, Rao) {
		t.Errorf("took %d and %d: %+v", tao, alpha, r)
	}
}

func TestMovingPrice(t *testing.T) {
	for _, x := range []struct{ moving, price, since uint64 }{{0, Rao, 1}, {1 << 31, Rao / 2, 1000}, {1 << 32, 3 * Rao, 201_600}, {1 << 20, 7, 1 << 40}} {
		alpha := 12885 / math.Pow(2, 32) * float64(x.since) / float64(x.since+201_600)
		want := alpha*math.Min(1, float64(x.price)/Rao) + (1-alpha)*float64(x.moving)/math.Pow(2, 32)
		near(t, "moving price", float64(Moved(x.moving, OfRao(x.price), x.since))/math.Pow(2, 32), want, 3e-10)
	}
}

func TestBlockEmission(t *testing.T) {
	const million = 1_000_000 * uint64(Rao)
	for issued, want := range map[uint64]uint64{
		0: Rao, 10*million + million/2 - 1: Rao, 10*million + million/2: Rao / 2, 15*million + million*3/4 - 1: Rao / 2, 15*million + million*3/4: Rao / 4, 21 * million: 0, math.MaxUint64: 0,
	} {
		if got := BlockEmission(issued); got != want {
			t.Errorf("of %d: %d, want %d", issued, got, want)
		}
	}
}

// Wide numbers agree with big ones.
func TestWide(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	draw := func() Wide { return Wide{r.Uint64() >> r.UintN(65), r.Uint64() >> r.UintN(65)} }
	limit := new(big.Int).Lsh(big.NewInt(1), 128)
	same := func(what string, got Wide, want *big.Int) {
		t.Helper()
		if want.Cmp(limit) >= 0 {
			want = new(big.Int).Sub(limit, big.NewInt(1))
		}
		if got.big().Cmp(want) != 0 {
			t.Fatalf("%s: got %v, want %v", what, got.big(), want)
		}
	}
	for range 20_000 {
		a, b := draw(), draw()
		same("sum", a.Add(b), new(big.Int).Add(a.big(), b.big()))
		if d := new(big.Int).Sub(a.big(), b.big()); d.Sign() >= 0 {
			same("difference", a.Sub(b), d)
		} else if !a.Sub(b).IsZero() || !a.Less(b) {
			t.Fatal("a difference below 0")
		}
		for _, fraction := range []uint{32, 64} {
			p := new(big.Int).Mul(a.big(), b.big())
			same("product", a.Mul(b, fraction), p.Rsh(p, fraction))
			if q, ok := a.Div(b, fraction); ok {
				d := new(big.Int).Lsh(a.big(), fraction)
				same("quotient", q, d.Quo(d, b.big()))
			} else if !b.IsZero() {
				t.Fatal("divided by 0")
			}
		}
	}
}

func BenchmarkBuy(b *testing.B) {
	r := Reserves{Tao: 1e15, Alpha: 1e15, Quote: Scale/2 - 12345}
	for b.Loop() {
		x := r
		if _, err := x.Buy(Rao, top, true); err != nil {
			b.Fatal(err)
		}
	}
}
