package score

import (
	"math"
	"slices"
)

// Band is the interval in which the true mean of a submission's values lies
// with about 95 %, over tasks drawn like those played: Student's t on the mean
// of the tasks, cut to 0..1. With one task it is everything.
type Band struct {
	Mean, Low, High float64
	N               int // tasks
}

// Interval returns the band of values, one per task.
func Interval(values []float64) Band {
	if len(values) == 0 {
		return Band{Low: 0, High: 1}
	}
	mean, se := MeanSE(values)
	b := Band{Mean: mean, N: len(values), High: 1}
	if b.N < 2 {
		return b
	}
	if se == 0 {
		// All tasks ended alike: the rule of three says what so few tasks can show.
		out := 3 / float64(b.N)
		b.Low, b.High = math.Max(0, mean-out), math.Min(1, mean+out)
		return b
	}
	half := student95(b.N-1) * se
	b.Low, b.High = math.Max(0, mean-half), math.Min(1, mean+half)
	return b
}

// Mean is the interval in which the true mean of values of any size lies with
// about 95 %: Student's t. With fewer than two values it is everything.
func Mean(values []float64) Band {
	if len(values) == 0 {
		return Band{Low: math.Inf(-1), High: math.Inf(1)}
	}
	mean, se := MeanSE(values)
	b := Band{Mean: mean, N: len(values), Low: math.Inf(-1), High: math.Inf(1)}
	if b.N >= 2 {
		half := student95(b.N-1) * se
		b.Low, b.High = mean-half, mean+half
	}
	return b
}

// student95 is the two-sided 95 % point of Student's t with df degrees of
// freedom, by the expansion of Cornish and Fisher; within 1 % from df = 3.
func student95(df int) float64 {
	switch df {
	case 1:
		return 12.706
	case 2:
		return 4.303
	}
	const z = 1.959964
	n, z3 := float64(df), z*z*z
	z5 := z3 * z * z
	return z + (z3+z)/(4*n) + (5*z5+16*z3+3*z)/(96*n*n) + (3*z5*z*z+19*z5+17*z3-15*z)/(384*n*n*n)
}

// Paired compares two submissions on the tasks that both have played.
type Paired struct {
	Tasks  int // both have a value
	Better int // a is above b
	Worse  int
	// P is the two-sided exact sign test over the tasks that differ: how often
	// equals would differ at least so unevenly. 1 where none differs.
	P float64
}

// Compare pairs the values of two submissions by task.
func Compare(a, b map[string]float64) Paired {
	var p Paired
	for k, x := range a {
		y, ok := b[k]
		if !ok {
			continue
		}
		p.Tasks++
		switch {
		case x > y:
			p.Better++
		case x < y:
			p.Worse++
		}
	}
	p.P = signTest(p.Better, p.Worse)
	return p
}

// Equal is how many shared tasks ended alike.
func (p Paired) Equal() int { return p.Tasks - p.Better - p.Worse }

// signTest is the two-sided binomial tail at one half.
func signTest(a, b int) float64 {
	n, k := a+b, min(a, b)
	if n == 0 {
		return 1
	}
	tail := 0.0
	for i := range k + 1 {
		tail += math.Exp(logChoose(n, i) - float64(n)*math.Ln2)
	}
	return math.Min(1, 2*tail)
}

func logChoose(n, k int) float64 {
	a, _ := math.Lgamma(float64(n + 1))
	b, _ := math.Lgamma(float64(k + 1))
	c, _ := math.Lgamma(float64(n - k + 1))
	return a - b - c
}

// TierLevel is the chance of error below which two submissions count as told apart.
const TierLevel = 0.05

// Tiers groups submissions that cannot be told apart: list is by falling mean,
// and a tier goes on until one differs from the tier's first with P below
// TierLevel. It returns the tier of each, from 1.
func Tiers(list []map[string]float64) []int {
	out := make([]int, len(list))
	head, tier := 0, 1
	for i := range list {
		if i > 0 && Compare(list[head], list[i]).P < TierLevel {
			head, tier = i, tier+1
		}
		out[i] = tier
	}
	return out
}

// Values returns the values of m by key.
func Values(m map[string]float64) []float64 {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys) // sums of floats depend on the order
	out := make([]float64, 0, len(m))
	for _, k := range keys {
		out = append(out, m[k])
	}
	return out
}

// MeanSE returns the mean of x and its standard error, which is 0 with fewer than two values.
func MeanSE(x []float64) (mean, se float64) {
	if len(x) == 0 {
		return 0, 0
	}
	for _, v := range x {
		mean += v
	}
	mean /= float64(len(x))
	if len(x) < 2 {
		return mean, 0
	}
	for _, v := range x {
		se += (v - mean) * (v - mean)
	}
	return mean, math.Sqrt(se/float64(len(x)-1)) / math.Sqrt(float64(len(x)))
}
