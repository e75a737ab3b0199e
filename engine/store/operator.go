package store

import (
	"strconv"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/internal/plain"
)

// LogAction writes down what the operator did.
func (t *Tx) LogAction(a agon.OperatorAction) error {
	if _, err := t.exec(`INSERT INTO operator_log (at, actor, what, target, reason, change) VALUES ($1, $2, $3, $4, $5, $6)`,
		micros(a.At), a.Actor, a.What, a.Target, plain.Storable(a.Reason), plain.Storable(a.Change)); err != nil {
		return err
	}
	n, err := one(t, scanInt, `SELECT MAX(n) FROM operator_log`)
	if err != nil {
		return err
	}
	_, err = t.exec(`UPDATE operator_log SET fact = $1 WHERE n = $2`, t.fact(FactOperator, strconv.FormatInt(n, 10)), n)
	return err
}

func scanAction(r scanner) (a agon.OperatorAction, err error) {
	var at int64
	err = r.Scan(&at, &a.Actor, &a.What, &a.Target, &a.Reason, &a.Change)
	a.At = fromMicros(at)
	return a, err
}

// Actions returns the last actions, newest first.
func (t *Tx) Actions(limit int) ([]agon.OperatorAction, error) {
	return many(t, scanAction, `SELECT at, actor, what, target, reason, change FROM operator_log ORDER BY n DESC LIMIT $1`, limit)
}

// DropSeat empties the seat of an arena.
func (t *Tx) DropSeat(arena string) error {
	_, err := t.exec(`DELETE FROM seats WHERE arena = $1`, arena)
	return err
}
