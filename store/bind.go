package store

import (
	"context"

	"github.com/kolkstreams/kolk/internal/state"
	"github.com/kolkstreams/kolk/serde"
)

// opens completes a declaration: open makes the store with serdes that know their topic.
func opens[K comparable, V any](d *state.Decl, key serde.Serde[K], value serde.Serde[V], open func(state.Env, serde.Serde[K], serde.Serde[V]) state.Live) {
	d.Open = func(env state.Env) state.Live { return open(env, key, value) }
	_, keyBinds := key.(serde.Binder[K])
	_, valueBinds := value.(serde.Binder[V])
	if !keyBinds && !valueBinds {
		return
	}
	d.Bind = func(ctx context.Context, topic string) (func(state.Env) state.Live, error) {
		k, err := serde.Bind(ctx, key, serde.Target{Topic: topic, Key: true})
		if err != nil {
			return nil, &state.Unbound{Topic: topic, Key: true, Err: err}
		}
		v, err := serde.Bind(ctx, value, serde.Target{Topic: topic})
		if err != nil {
			return nil, &state.Unbound{Topic: topic, Err: err}
		}
		return func(env state.Env) state.Live { return open(env, k, v) }, nil
	}
}
