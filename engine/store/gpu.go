package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/agon-arena/agon"
)

// needsGPU holds for runs of which a task asks for a GPU: a task's key cannot have a
// quote that is not escaped.
const needsGPU = `r.tasks LIKE '%"gpu":{%'`

// withoutGPUs leaves out the queued runs of an arena whose tasks need GPUs that c does
// not have. queue selects from them ("runs r WHERE …", with the arena as $1); more are
// the arguments that follow the others, the first of which is numbered from.
func (t *Tx) withoutGPUs(queue, arena string, c Claimant, from int) (where string, more []any, err error) {
	if len(c.GPUs) == 0 {
		return ` AND NOT ` + needsGPU, nil, nil
	}
	lists, err := many(t, scanString, `SELECT DISTINCT r.tasks FROM `+queue+` AND `+needsGPU, arena)
	if err != nil {
		return "", nil, err
	}
	var names []string
	for _, text := range lists {
		var tasks []agon.TaskRef
		if err := json.Unmarshal([]byte(text), &tasks); err != nil {
			return "", nil, fmt.Errorf("decode tasks: %w", err)
		}
		// What cannot be met by anybody is offered: who plays it says that it is the task's fault.
		if need, err := agon.NeedOf(tasks); err != nil || need == nil || need.Choose(c.GPUs) != nil {
			continue
		}
		more = append(more, text)
		names = append(names, fmt.Sprintf("$%d", from+len(names)))
	}
	if len(names) > 0 {
		where = ` AND r.tasks NOT IN (` + strings.Join(names, ", ") + `)`
	}
	return where, more, nil
}

// SeenGPUs are what GPUs the validators of an arena that were seen since a time last
// named; arena "": of all arenas.
func (t *Tx) SeenGPUs(arena string, since time.Time) (map[string][]agon.GPU, error) {
	type row struct{ validator, gpus string }
	rows, err := many(t, func(r scanner) (x row, err error) { err = r.Scan(&x.validator, &x.gpus); return x, err },
		`SELECT validator, gpus FROM seen WHERE ($1 = '' OR arena = $1) AND at > $2 AND gpus NOT IN ('', '[]', 'null') ORDER BY at`, arena, micros(since))
	out := map[string][]agon.GPU{}
	for _, x := range rows {
		var list []agon.GPU
		if err := json.Unmarshal([]byte(x.gpus), &list); err != nil {
			return nil, fmt.Errorf("decode GPUs of %s: %w", x.validator, err)
		}
		out[x.validator] = list
	}
	return out, err
}

// SeenGPUsOf are the GPUs that a validator last named in an arena.
func (t *Tx) SeenGPUsOf(arena, validator string) (list []agon.GPU, err error) {
	text, err := one(t, scanString, `SELECT gpus FROM seen WHERE arena = $1 AND validator = $2 AND gpus <> ''`, arena, validator)
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal([]byte(text), &list)
	}
	return list, err
}
