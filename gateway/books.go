package gateway

import (
	"context"
	"fmt"
	"sync"

	"github.com/agon-arena/agon"
)

// Books keeps the accounts of sessions. Safe for concurrent use: of calls at
// the same moment each sees the reservations of all others. A store
// implements it durably: then what Reserve and Settle return is committed.
// None of the methods is retried by the gateway.
type Books interface {
	// Open makes an account; a name is used once.
	Open(ctx context.Context, account string, limit agon.Budget) error
	// Reserve holds want for the call id, or returns *ErrBudget and holds nothing.
	Reserve(ctx context.Context, account, id string, want Amount) error
	// Settle books what the call used, clamped to its reservation, and
	// returns what was booked. A second Settle of the same call is an error and books nothing.
	Settle(ctx context.Context, account, id string, used Amount) (Amount, error)
	// Balance tells what was booked and what is left.
	Balance(ctx context.Context, account string) (spent, left Amount, err error)
	// Close ends the account. The caller has settled every call.
	Close(ctx context.Context, account string) error
}

// memory keeps books for the life of the process.
type memory struct {
	mu       sync.Mutex
	accounts map[string]*Account // guarded by mu
}

// NewMemoryBooks returns books that nothing survives.
func NewMemoryBooks() Books { return &memory{accounts: map[string]*Account{}} }

func (m *memory) get(name string) (*Account, error) {
	a, ok := m.accounts[name]
	if !ok {
		return nil, fmt.Errorf("find account %s: there is none", name)
	}
	return a, nil
}

func (m *memory) Open(_ context.Context, name string, limit agon.Budget) error {
	a, err := NewAccount(limit)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.accounts[name]; ok {
		return fmt.Errorf("open account %s: it exists", name)
	}
	m.accounts[name] = a
	return nil
}

func (m *memory) Reserve(_ context.Context, name, id string, want Amount) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	a, err := m.get(name)
	if err != nil {
		return err
	}
	return a.Reserve(id, want)
}

func (m *memory) Settle(_ context.Context, name, id string, used Amount) (Amount, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	a, err := m.get(name)
	if err != nil {
		return Amount{}, err
	}
	return a.Settle(id, used)
}

func (m *memory) Balance(_ context.Context, name string) (spent, left Amount, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	a, err := m.get(name)
	if err != nil {
		return Amount{}, Amount{}, err
	}
	return a.Spent(), a.Left(), nil
}

func (m *memory) Close(_ context.Context, name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	a, err := m.get(name)
	if err != nil {
		return err
	}
	if n := a.Open(); n > 0 {
		return fmt.Errorf("close account %s: %d calls are open", name, n)
	}
	delete(m.accounts, name)
	return nil
}
