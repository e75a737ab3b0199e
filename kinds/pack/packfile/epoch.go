package packfile

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// mt is CPython's Mersenne Twister, from which contexts are drawn.
type mt struct {
	state [624]uint32
	at    int
}

// newMT seeds as random.Random(seed) does.
func newMT(seed uint64) *mt {
	key := []uint32{uint32(seed)}
	if seed>>32 != 0 {
		key = append(key, uint32(seed>>32))
	}
	m := &mt{at: 624}
	s := &m.state
	s[0] = 19650218
	for i := 1; i < 624; i++ {
		s[i] = 1812433253*(s[i-1]^s[i-1]>>30) + uint32(i)
	}
	i, j := 1, 0
	step := func() {
		if i++; i >= 624 {
			s[0], i = s[623], 1
		}
	}
	for range 624 {
		s[i] = (s[i] ^ (s[i-1]^s[i-1]>>30)*1664525) + key[j] + uint32(j)
		step()
		j = (j + 1) % len(key)
	}
	for range 623 {
		s[i] = (s[i] ^ (s[i-1]^s[i-1]>>30)*1566083941) - uint32(i)
		step()
	}
	s[0] = 1 << 31
	return m
}

func (m *mt) next() uint32 {
	if m.at >= 624 {
		for i := range m.state {
			y := m.state[i]&(1<<31) | m.state[(i+1)%624]&(1<<31-1)
			v := m.state[(i+397)%624] ^ y>>1
			if y&1 != 0 {
				v ^= 0x9908b0df
			}
			m.state[i] = v
		}
		m.at = 0
	}
	y := m.state[m.at]
	m.at++
	y ^= y >> 11
	y ^= y << 7 & 0x9d2c5680
	y ^= y << 15 & 0xefc60000
	return y ^ y>>18
}

// below draws a number from 0 to n-1, n below 2^32.
func (m *mt) below(n int) int {
	k := bits.Len(uint(n))
	for {
		if v := int(m.next() >> (32 - k)); v < n {
			return v
		}
	}
}

// Zone is a time zone as contexts name it.
type Zone struct{ Name, Abbr string }

// The pools from which a context is drawn, in order.
var (
	zones = []Zone{
		{"America/New_York", "ET"},
		{"America/Chicago", "CT"},
		{"America/Denver", "MT"},
		{"America/Los_Angeles", "PT"},
		{"Europe/London", "GMT"},
		{"Asia/Tokyo", "JST"},
	}
	names = []string{
		"Jordan Rivera", "Alex Chen", "Sam Patel", "Morgan Kim", "Casey Williams", "Riley Johnson", "Dakota Lee", "Quinn Martinez",
		"Avery Thompson", "Jamie Garcia", "Taylor Nguyen", "Drew Campbell", "Reese Foster", "Skyler Brooks", "Sage Mitchell",
		"Parker Adams", "Hayden Scott", "Cameron Blake", "Logan Reeves", "Blake Torres",
	}
	roles = []string{
		"Product Manager", "Engineering Lead", "Senior Developer", "Design Lead", "Marketing Manager", "Operations Director",
		"Team Lead", "Project Manager", "Technical Architect", "Data Science Lead",
	}
	companies = []string{
		"Meridian Technologies", "Vertex Labs", "Cascade Systems", "Pinnacle Software", "Atlas Digital", "Quantum Dynamics",
		"Summit Innovations", "Harbor Analytics", "Crestline Solutions", "Brightpath Engineering",
	}
	departments = []string{"Engineering", "Product", "Marketing", "Operations", "Design", "Sales", "Customer Success", "Research"}
)

// Context is who the agent works for in an epoch: the same for every pack.
type Context struct {
	Date       string `json:"date_str"` // "May 22, 2026"
	Weekday    string `json:"weekday"`
	Name       string `json:"user_name"`
	Role       string `json:"user_role"`
	Company    string `json:"company"`
	Department string `json:"department"`
	Zone       string `json:"timezone"`
	ZoneAbbr   string `json:"timezone_abbr"`
}

// seedOf is the first 32 bits of a hash, as a number.
func seedOf(s string) uint64 {
	h := sha256.Sum256([]byte(s))
	n, err := strconv.ParseUint(hex.EncodeToString(h[:4]), 16, 64)
	if err != nil {
		panic(err) // eight hex digits are a number
	}
	return n
}

// EpochSeed derives the seed of an epoch on a subnet.
func EpochSeed(netuid int, epoch int64) uint64 {
	return seedOf(fmt.Sprintf("trajectoryrl-%d-epoch-%d", netuid, epoch))
}

// ChallengeSeed derives the seed of a challenge of the server-run epochs.
func ChallengeSeed(netuid int, id int64) uint64 {
	return seedOf(fmt.Sprintf("trajectoryrl-%d-challenge-%d", netuid, id))
}

// NewContext draws the context that belongs to a seed.
func NewContext(seed uint64) Context {
	m := newMT(seed)
	day := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).AddDate(0, 0, m.below(365))
	zone := zones[m.below(len(zones))]
	c := Context{Date: day.Format("January 02, 2006"), Weekday: day.Weekday().String(), Zone: zone.Name, ZoneAbbr: zone.Abbr}
	c.Name = names[m.below(len(names))]
	c.Role = roles[m.below(len(roles))]
	c.Company = companies[m.below(len(companies))]
	c.Department = departments[m.below(len(departments))]
	return c
}

// Preamble stands before AGENTS.md in the workspace.
func (c Context) Preamble() string {
	return "<!-- Epoch Evaluation Context — generated per epoch, do not hardcode -->\n" +
		"> **Date**: " + c.Weekday + ", " + c.Date + "  \n" +
		"> **Your Name**: " + c.Name + "  \n" +
		"> **Role**: " + c.Role + " at " + c.Company + "  \n" +
		"> **Department**: " + c.Department + "  \n" +
		"> **Timezone**: " + c.Zone + " (" + c.ZoneAbbr + ")\n" +
		"\n---\n\n"
}

// User is what fills the templates of a scenario.
func (c Context) User() map[string]string {
	first, _, _ := strings.Cut(c.Name, " ")
	return map[string]string{"USER_NAME": c.Name, "USER_FIRST_NAME": first, "USER_ROLE": c.Role, "COMPANY": c.Company}
}
