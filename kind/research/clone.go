package research

import (
	"context"
	"errors"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/kind"
)

func (k *Kind) clone(context.Context, kind.Env, *Task, agon.RunSpec) (*base, func(), error) {
	return nil, nil, errors.New("todo")
}
