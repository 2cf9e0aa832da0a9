package operator

import (
	"fmt"

	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/processor"
)

// Process calls a user's processor.
func Process[P processor.Processor[K, V, K2, V2], K comparable, V any, K2 comparable, V2 any](t *engine.Task, n *engine.Node, make func() P, next engine.Receive[K2, V2], outputs map[string]any) (engine.Receive[K, V], error) {
	t.At(n)
	p, ctx := make(), new(processor.Context[K2, V2])
	engine.Bind(ctx, t, n, next, outputs)
	if i, ok := any(p).(processor.Initializer[K2, V2]); ok {
		if err := i.Init(ctx); err != nil {
			return nil, initError(n, err)
		}
	}
	closing(t, n, p)
	return calling(t, n, func(r *engine.Rec, k K, v V) error { return p.Process(ctx, record(r, k, v)) }), nil
}

// ProcessValues calls a user's processor that keeps the key. check says whether a key belongs to the task; nil if that cannot be said.
func ProcessValues[P processor.FixedKeyProcessor[K, V, V2], K comparable, V, V2 any](t *engine.Task, n *engine.Node, make func() P, check func(K) error, next engine.Receive[K, V2], outputs map[string]any) (engine.Receive[K, V], error) {
	t.At(n)
	p, ctx := make(), new(processor.FixedKeyContext[K, V2])
	engine.Bind(ctx, t, n, next, outputs)
	engine.SetCheck(ctx, check)
	if i, ok := any(p).(processor.FixedKeyInitializer[K, V2]); ok {
		if err := i.Init(ctx); err != nil {
			return nil, initError(n, err)
		}
	}
	closing(t, n, p)
	return calling(t, n, func(r *engine.Rec, k K, v V) error { return p.Process(ctx, fixedKeyRecord(r, k, v)) }), nil
}

func initError(n *engine.Node, err error) error {
	return fmt.Errorf("processor %q (%s) could not begin: %w", n.Name, n.Place, err)
}

func closing(t *engine.Task, n *engine.Node, p any) {
	if c, ok := p.(processor.Closer); ok {
		t.OnClose(func() error {
			t.At(n)
			return c.Close()
		})
	}
}

// calling makes a Receive of a function that can fail.
func calling[K comparable, V any](t *engine.Task, n *engine.Node, f func(*engine.Rec, K, V) error) engine.Receive[K, V] {
	var (
		rec   *engine.Rec
		key   K
		value V
		err   error
	)
	run := guarded(t, n, func() { err = f(rec, key, value) })
	return func(r *engine.Rec, k K, v V) {
		rec, key, value, err = r, k, v, nil
		if run(r) && err != nil {
			t.Fail("process", n, r, err)
		}
	}
}
